package lock

import (
	"context"
	"time"

	"github.com/lockfs/lockfs/procid"
)

// Forever as a Request's Wait means without limit.
const Forever time.Duration = -1

// Key names a directory within one process. Equal keys, same directory.
type Key struct{ Dev, Ino, Gen uint64 }

// Place is a directory that can be locked.
type Place struct {
	Key Key
	// Path is for people: messages and logs.
	Path string
	// Open opens the directory for the protocol. The manager calls it when
	// it needs the server and closes what it returns.
	Open func() (Dir, error)
}

// Cause is who made the manager take a lock. It is for people only.
type Cause struct {
	Program string
	PID     int
	User    string
	// Mount is the mountpoint or command the take came through.
	Mount string
}

// Request asks for the lock of one directory.
type Request struct {
	Place Place
	Job   procid.Job
	Cause Cause
	// Wait is how long to wait while another job holds the lock: Forever,
	// or 0 to try once.
	Wait time.Duration
}

// Hold is one use of a lock by a job. All holds of one job on one directory
// share the lock; it is released after the last of them (and the linger).
type Hold struct{}

// Release ends the hold. It does not wait for the server. A second call does
// nothing.
func (h *Hold) Release() {}

// Err is nil while the lock stands, and ErrLost once it was taken away.
func (h *Hold) Err() error { return nil }

// Share returns another hold of the same lock for the same job.
func (h *Hold) Share() *Hold { return h }

// Manager shares locks among the jobs of one process.
type Manager struct{}

// Acquire returns a hold of the lock of r.Place for r.Job. A job that holds
// it already gets another hold at once.
//
// Errors: *HeldError (errors.Is syscall.EBUSY) if another job holds it and
// r.Wait is over; ErrDeadlock (syscall.EDEADLK) if waiting would close a
// cycle of jobs of this process; ctx.Err(); else the error of the file system,
// unchanged. On an error nothing is held.
func (m *Manager) Acquire(ctx context.Context, r Request) (*Hold, error) { return nil, nil }

// AcquireBoth returns holds of two locks, or none: it never waits for one
// while it newly holds the other. Wait and Job are those of a.
func (m *Manager) AcquireBoth(ctx context.Context, a, b Request) (ha, hb *Hold, err error) {
	return nil, nil, nil
}

// Vacate gives the lock of h back to the server at once, though h and other
// holds of its job still stand; they become holds of nothing, whose Release
// does nothing. It is for a directory that is empty and about to be removed.
func (m *Manager) Vacate(ctx context.Context, h *Hold) error { return nil }
