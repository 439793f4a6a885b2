package cred

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// ErrNoUmask: the thread can't have a umask of its own, since unshare(2) is
// forbidden, as by the system call filters of some containers.
var ErrNoUmask = errors.New("the thread can have no umask of its own")

// WithUmask runs f with a umask of the calling thread's own. Only the umask
// itself will do, not a mode without its bits: a default ACL of the directory,
// or a server that knows one (RFC 8275), overrides it.
//
// The umask is shared by all threads until unshare(2), which costs next to
// nothing the second time. No other thread shares the thread's umask while f
// runs: the Go runtime clones no thread from one that is locked.
//
// ErrNoUmask: f did not run. Else the error is f's.
func WithUmask(umask int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return errors.Join(ErrNoUmask, os.NewSyscallError("unshare", err))
	}
	defer unix.Umask(unix.Umask(umask))
	return f()
}
