// Package gate makes a file system operation wait for a directory's lock
// without making readers wait.
//
// While a CREATE, MKDIR, UNLINK or RENAME is unanswered, the kernel holds the
// directory's inode lock, and everybody's ls and lookups in it hang. So such
// an operation never waits in its own request: [Gate.Alter] answers ESTALE, the
// kernel walks the path again, asks GETATTR of the directory with no lock held,
// and [Gate.Attributes] is where the wait is; the lock is then reserved for the
// thread until its operation arrives again. An OPEN holds no directory lock, so
// [Gate.Open] waits in place.
//
// The package knows jobs, threads and signals, and no FUSE. It imports lock,
// procid, internal/cred, logrus and golang.org/x/sys.
package gate
