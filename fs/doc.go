// Package fs is the lockfs file system: a FUSE mount that shows a source tree
// and takes each directory's lock around the writing in it.
//
// Nodes know their directories by open descriptors and their files by name
// below those; every operation runs as its caller; package gate makes an
// operation wait for a lock without making readers wait.
//
// It imports fs/gate, lock, procid, internal/cred, go-fuse, logrus and
// golang.org/x/sys.
package fs
