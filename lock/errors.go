package lock

import (
	"errors"
	"fmt"
	"syscall"
)

// errno is an error of this package that a file system can answer with.
type errno struct {
	text string
	no   syscall.Errno
}

func (e *errno) Error() string        { return e.text }
func (e *errno) Is(target error) bool { return target == e.no }

// Errors of holds and of taking; errors.Is knows their errno too.
var (
	// ErrLost: the lock was taken away from its holder (EIO).
	ErrLost error = &errno{"the lock was taken away from its holder", syscall.EIO}
	// ErrDeadlock: jobs of this process wait for each other in a circle
	// (EDEADLK).
	ErrDeadlock error = &errno{"two jobs would wait for each other for ever", syscall.EDEADLK}
	// ErrClosed: the manager is closed (ENOTCONN).
	ErrClosed error = &errno{"the lock manager is closed", syscall.ENOTCONN}
	// ErrNoAnswer: the time to wait was over before the file server had said
	// whether the lock is held (ETIMEDOUT).
	ErrNoAnswer error = &errno{"the file server does not answer", syscall.ETIMEDOUT}
	// ErrOdd: the lock directory holds what no lock has, and is never judged
	// or removed by itself (EIO).
	ErrOdd error = &errno{"the lock directory is in a state that lockfs never makes", syscall.EIO}
	// ErrOutdated: the record that was named is not the one that stands there
	// (ESTALE).
	ErrOutdated error = &errno{"the lock has changed hands since it was looked at", syscall.ESTALE}
)

// HeldError says that another job holds the lock. errors.Is finds
// syscall.EBUSY in it.
type HeldError struct {
	// Path is the directory.
	Path string
	// By says in words who holds it.
	By string
	// Remote reports that the holder is not a job of this process.
	Remote bool
}

func (e *HeldError) Error() string        { return fmt.Sprintf("%s is locked by %s", e.Path, e.By) }
func (e *HeldError) Is(target error) bool { return target == syscall.EBUSY }

func isHeld(err error) bool {
	var h *HeldError
	return errors.As(err, &h)
}

// Errno returns the errno that err stands for: its own, or EIO.
func Errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	var no syscall.Errno
	var own *errno
	switch {
	case isHeld(err):
		return syscall.EBUSY
	case errors.As(err, &own):
		return own.no
	case errors.As(err, &no):
		return no
	}
	return syscall.EIO
}
