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
// The kernel asks for the attributes only if it has none that are valid: a
// file system that uses this package mounts with default_permissions, drops
// the kernel's attributes of the directory (inode notify) when Alter has
// answered ESTALE, and gives those of a directory that is [Gate.Pending] no
// validity, in whatever reply they are.
//
// The kernel repeats an operation only once: a second ESTALE would be the
// program's. So whoever arrives a second time and still finds the lock held
// waits inside the request after all, for [Config].LastResort at most; so does
// a caller that cannot be seen, and one whose operation the kernel does not
// repeat.
//
// The package knows jobs, threads and signals, and no FUSE. It imports lock,
// procid, internal/cred, logrus and golang.org/x/sys.
package gate
