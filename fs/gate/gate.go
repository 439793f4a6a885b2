package gate

import (
	"context"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/lockfs/lockfs/internal/cred"
	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// Caller is who made a request. Its context ends when the kernel says that
// the request was interrupted.
type Caller struct {
	TID  int
	Cred cred.Cred
	// NonBlock reports O_NONBLOCK: EAGAIN in place of a wait.
	NonBlock bool
}

// Dir is a directory that operations wait for.
type Dir interface {
	// Place returns the directory as the lock manager knows it, opened as
	// the caller.
	Place(c cred.Cred) lock.Place
}

// Config is what a Gate needs to know.
type Config struct {
	Locks *lock.Manager
	Jobs  procid.JobPolicy
	// Wait is how long an operation waits; lock.Forever without limit.
	Wait time.Duration
	// LastResort is how long an operation waits inside its own request when
	// it arrives a second time without having waited in Attributes.
	LastResort time.Duration
	// Mount is the mountpoint, for records and logs.
	Mount string
	Log   *logrus.Logger
}

// Gate makes operations wait.
type Gate struct{}

// New returns a gate. Close ends it.
func New(c Config) *Gate { return nil }

// Alter returns a hold of d's lock for an operation in d during which the
// kernel holds d's inode lock. If the lock is not to be had at once it answers
// ESTALE the first time, so that the thread comes back through Attributes.
// The caller of Alter releases the hold.
func (g *Gate) Alter(ctx context.Context, c Caller, d Dir) (*lock.Hold, syscall.Errno) {
	return nil, 0
}

// AlterBoth is Alter for an operation in two directories: both holds or none.
func (g *Gate) AlterBoth(ctx context.Context, c Caller, a, b Dir) (ha, hb *lock.Hold, no syscall.Errno) {
	return nil, nil, 0
}

// Attributes is called before each GETATTR of the directory d is answered:
// it waits there if Alter has sent the thread around, and else returns at
// once. An error is the answer to the GETATTR.
func (g *Gate) Attributes(ctx context.Context, c Caller, d Dir) syscall.Errno { return 0 }

// Open returns a hold of d's lock for an operation during which the kernel
// holds no directory's inode lock: it waits in place.
func (g *Gate) Open(ctx context.Context, c Caller, d Dir) (*lock.Hold, syscall.Errno) {
	return nil, 0
}

// Close ends the gate: reservations are released, waits end with ENOTCONN.
func (g *Gate) Close() {}
