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
	// Taken, if set, is called after each take of the directory's lock from
	// the server and before any hold of it is granted: what was cached of
	// the directory is worth nothing from then on.
	Taken func()
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

// Config is what a Manager needs to know.
type Config struct {
	// Self is the identity that the records bear and that judges others.
	Self *procid.Local
	// Linger is how long a lock is kept for the same job after its last
	// hold ended.
	Linger time.Duration
	// Events is told what people should know; nil for nobody. It is called
	// from several goroutines, never with a mutex of the manager held, and
	// must not block for long.
	Events func(Event)
}

// Hold is one use of a lock by a job. All holds of one job on one directory
// share the lock; it is released after the last of them (and the linger).
type Hold struct{}

// Release ends the hold. It does not wait for the server. A second call does
// nothing.
func (h *Hold) Release() {}

// Err is nil while the lock stands, and ErrLost once it was taken away.
func (h *Hold) Err() error { return nil }

// Check asks the server whether the lock still stands, and returns what Err
// then does, or the error that kept it from finding out (ctx's, or the file
// system's).
func (h *Hold) Check(ctx context.Context) error { return nil }

// Share returns another hold of the same lock for the same job. It may be
// called until h's Release.
func (h *Hold) Share() *Hold { return h }

// Manager shares locks among the jobs of one process.
type Manager struct{}

// NewManager returns a manager that holds nothing. Close ends it.
func NewManager(c Config) *Manager { return nil }

// Acquire returns a hold of the lock of r.Place for r.Job. A job that holds
// it already gets another hold at once.
//
// Errors: *HeldError (errors.Is syscall.EBUSY) if another job holds it and
// r.Wait is over; ErrDeadlock (syscall.EDEADLK) if waiting would close a
// cycle of jobs of this process; ctx.Err(); ErrClosed; else the error of the
// file system, unchanged. On an error nothing is held.
func (m *Manager) Acquire(ctx context.Context, r Request) (*Hold, error) { return nil, nil }

// AcquireBoth returns holds of two locks, or none: it never waits for one
// while it newly holds the other. Wait and Job are those of a.
func (m *Manager) AcquireBoth(ctx context.Context, a, b Request) (ha, hb *Hold, err error) {
	return nil, nil, nil
}

// Vacate gives the lock of h back to the server at once, though h and other
// holds of its job still stand; they become holds of nothing, whose Release
// does nothing. It is for a directory that is empty and about to be removed.
// It returns when D/.lockfs is gone or could not be removed.
func (m *Manager) Vacate(ctx context.Context, h *Hold) error { return nil }

// Contended reports whether a job waits for the lock of the directory.
func (m *Manager) Contended(k Key) bool { return false }

// Waiting returns the holder and the waiters of this process for one
// directory, as far as this process knows without asking the server.
func (m *Manager) Waiting(k Key) (holder *LocalHolder, waiters []Waiter) { return nil, nil }

// Status lists every lock that this process holds or waits for.
func (m *Manager) Status() []LocalStatus { return nil }

// Close ends the manager: waiters get ErrClosed, lingering locks are
// released, and locks in use as well; their holds' Err says ErrClosed then.
// It returns when the server has answered every release, or with ctx's error.
func (m *Manager) Close(ctx context.Context) error { return nil }
