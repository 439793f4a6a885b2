package lock

import "io/fs"

// Dir is a protected directory as the protocol needs it: a handful of calls,
// each at most one change at the server, all relative to the directory itself
// wherever it may be renamed to.
//
// A name has one or two components ("a" or "a/b"). No component is followed
// if it is a symbolic link or a mount point. Every error is a syscall.Errno
// or wraps one, as the file system gave it.
//
// An implementation may repeat a call as another user when, and only when,
// the first was refused with EACCES or EPERM.
type Dir interface {
	// Mkdir makes a directory; EEXIST if the name is there.
	Mkdir(name string, mode fs.FileMode) error
	// Symlink makes name a symbolic link to target; EEXIST if it is there.
	Symlink(target, name string) error
	// Rename is rename(2): it replaces an empty directory, and fails with
	// ENOTEMPTY or EEXIST at one that is not empty.
	Rename(from, to string) error
	// Unlink removes a name that is no directory.
	Unlink(name string) error
	// Rmdir removes an empty directory.
	Rmdir(name string) error
	// List returns the names in the subdirectory, or for "" in the directory
	// itself, as the server has them now: it opens and reads, and trusts no
	// cache. ENOENT, ENOTDIR, ELOOP (a symbolic link), EXDEV (a mount point).
	List(name string) ([]string, error)
	// Refresh drops what this host has cached of the directory's own entries.
	Refresh() error
	// Readlink returns where a symbolic link points, perhaps from a cache.
	Readlink(name string) (string, error)
	// Mode returns the directory's permission and sticky bits.
	Mode() (fs.FileMode, error)
	// Sync writes to the server whatever this host has cached of the file
	// system and not written yet (syncfs(2)).
	Sync() error
	// Replayed reports whether the server may execute a request a second
	// time long after it was answered (NFS before 4.1, or an unknown network
	// file system).
	Replayed() bool
	// Close ends the use of the directory.
	Close() error
}
