// Package lock is the lock of lockfs: a directory on a shared file system
// that says which process of which boot of which host may write beside it.
//
// It has two layers. The protocol ([Holder] and the functions around it)
// takes, inspects, recovers, releases and discards locks with single calls of
// a small file system interface, [Dir]; PROTOCOL.md says why it is safe. The
// [Manager] on top of it shares each lock among the handles of one job, lets
// other jobs of this process wait in their order, and asks the server through
// one poller a directory however many wait.
//
// Nothing here knows FUSE; the package can be used by any program that wants
// a directory lock on NFS without a server, a lease or a clock. It imports
// procid and internal/cred, golang.org/x/sys and the standard library.
//
// Do not use it where all users of the directory are on one host and stay
// there: flock(2) is simpler and faster.
package lock
