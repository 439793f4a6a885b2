package main

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

func TestExitCode(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, exitDone},
		{withCode(exitUsage, nil), exitDone},
		{errors.New("anything"), exitIO},
		{syscall.EIO, exitIO},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}, exitRefused},
		{fmt.Errorf("mount: %w", procid.ErrMachineID), exitUnfit},
		{fmt.Errorf("x: %w", lock.ErrOdd), exitOdd},
		{fmt.Errorf("x: %w", lock.ErrLost), exitLost},
		{fmt.Errorf("x: %w", &lock.HeldError{Path: "/d", By: "b"}), exitHeld},
		{syscall.EBUSY, exitHeld},
		{withCode(exitCreate, syscall.EBUSY), exitCreate},
		{fmt.Errorf("x: %w", withCode(exitUsage, errors.New("no"))), exitUsage},
	} {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("exitCode(%v) = %d, want %d", tt.err, got, tt.want)
		}
	}
}
