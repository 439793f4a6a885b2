package main

import (
	"errors"
	"syscall"

	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// The command's exit codes, those of sysexits.h where one fits.
const (
	exitDone    = 0
	exitUsage   = 64 // wrong use of the command
	exitUnfit   = 69 // this machine or file system is not fit for it
	exitOdd     = 70 // a lock directory is in a state that lockfs never makes
	exitCreate  = 73 // the mount cannot be made
	exitIO      = 74 // an I/O error, or an outcome that is unknown
	exitHeld    = 75 // held or in use, or changed hands
	exitLost    = 76 // the lock was lost
	exitRefused = 77 // not permitted
	// As shells have it: 128 and the number of the signal.
	exitInterrupted = 130
)

// coded is an error that carries the exit code it ends the command with.
type coded struct {
	code int
	err  error
}

func (e *coded) Error() string { return e.err.Error() }
func (e *coded) Unwrap() error { return e.err }

// withCode gives err an exit code; a nil err stays nil.
func withCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &coded{code, err}
}

// exitCode returns the code that the command ends with after err. An error
// that knows its code outranks what its cause would say.
func exitCode(err error) int {
	var c *coded
	var held *lock.HeldError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &c):
		return c.code
	case errors.Is(err, procid.ErrMachineID):
		return exitUnfit
	case errors.Is(err, lock.ErrOdd):
		return exitOdd
	case errors.Is(err, lock.ErrLost):
		return exitLost
	case errors.As(err, &held), errors.Is(err, syscall.EBUSY), errors.Is(err, lock.ErrOutdated):
		return exitHeld
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return exitRefused
	}
	return exitIO
}
