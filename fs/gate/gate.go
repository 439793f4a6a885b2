package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
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
	// View is a look at the thread, if somebody has had one for the operation.
	View *procid.View
	// NonBlock reports O_NONBLOCK: EAGAIN in place of a wait.
	NonBlock bool
	// Once reports that the kernel does not repeat the operation after
	// ESTALE, as with the MKNOD of a bind(2): it is never sent around.
	Once bool
}

// Dir is a directory that operations wait for.
type Dir interface {
	// Place returns the directory as the lock manager knows it, opened as
	// the caller. It asks no server. The Place may be opened after the
	// request that it was made for has been answered.
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
	// Unlocked grants everything at once and takes no lock: for measuring.
	Unlocked bool
}

// locks is what a gate asks of the lock manager and of its holds.
type locks interface {
	Acquire(ctx context.Context, r lock.Request) (*lock.Hold, error)
	AcquireBoth(ctx context.Context, a, b lock.Request) (ha, hb *lock.Hold, err error)
	release(h *lock.Hold)
	lost(h *lock.Hold) bool
}

type manager struct{ *lock.Manager }

func (manager) release(h *lock.Hold)   { h.Release() }
func (manager) lost(h *lock.Hold) bool { return h.Err() != nil }

// nobody grants all that is asked for, without a lock.
type nobody struct{}

func (nobody) Acquire(context.Context, lock.Request) (*lock.Hold, error) { return lock.Unlocked(), nil }
func (nobody) AcquireBoth(context.Context, lock.Request, lock.Request) (a, b *lock.Hold, err error) {
	return lock.Unlocked(), lock.Unlocked(), nil
}
func (nobody) release(*lock.Hold)   {}
func (nobody) lost(*lock.Hold) bool { return false }

// Gate makes operations wait.
type Gate struct {
	locks      locks
	host       host
	users      *users
	jobs       procid.JobPolicy
	wait       time.Duration
	lastResort time.Duration
	mount      string
	log        *logrus.Logger

	// closing ends when the gate does.
	closing context.Context
	close   context.CancelFunc
	// running counts the requests in the gate, and the reaper.
	running sync.WaitGroup

	// mu is never held over a call of locks, host or users.
	mu      sync.Mutex
	closed  bool
	reaping bool
	// tickets are the threads that were sent around, by their ids.
	tickets map[int]*ticket
	// expected counts, by directory, the tickets that Pending tells of.
	expected map[lock.Key]int
	// virtual counts the open virtual files of a directory's lock.
	virtual map[lock.Key]map[descriptor]int
}

// New returns a gate. Close ends it.
func New(c Config) *Gate {
	var l locks = manager{c.Locks}
	if c.Unlocked {
		l = nobody{}
	}
	return newGate(c, l, thisHost{}, lookupUser)
}

func newGate(c Config, l locks, h host, lookup func(uint32) string) *Gate {
	g := &Gate{
		locks: l, host: h, users: newUsers(lookup),
		jobs: c.Jobs, wait: c.Wait, lastResort: c.LastResort, mount: c.Mount, log: c.Log,
		tickets:  make(map[int]*ticket),
		expected: make(map[lock.Key]int),
		virtual:  make(map[lock.Key]map[descriptor]int),
	}
	if g.log == nil {
		g.log = logrus.New()
		g.log.SetOutput(io.Discard)
	}
	g.closing, g.close = context.WithCancel(context.Background())
	return g
}

// Alter returns a hold of d's lock for an operation in d during which the
// kernel holds d's inode lock. If the lock is not to be had at once it answers
// ESTALE the first time, so that the thread comes back through Attributes.
// The caller of Alter releases the hold. If the thread has come back, Alter
// sets c.Once: for another call of Alter in the same request it is too late.
//
// Other errors: EBUSY if another job holds the lock and the wait is over or
// there is to be none; EAGAIN for the same if c.NonBlock; ETIMEDOUT if it is
// over before the server has said so; EDEADLK; EINTR after a signal that ends a
// wait; ENOTCONN after Close; else the error with which the lock could not be
// taken.
func (g *Gate) Alter(ctx context.Context, c *Caller, d Dir) (*lock.Hold, syscall.Errno) {
	holds, no := g.alter(ctx, c, d)
	if no != 0 {
		return nil, no
	}
	return holds[0], 0
}

// AlterBoth is Alter for an operation in two different directories: both holds
// or none. The wait is in the Attributes of whichever the kernel asks for first.
func (g *Gate) AlterBoth(ctx context.Context, c *Caller, a, b Dir) (ha, hb *lock.Hold, no syscall.Errno) {
	holds, no := g.alter(ctx, c, a, b)
	if no != 0 {
		return nil, nil, no
	}
	return holds[0], holds[1], 0
}

func (g *Gate) alter(ctx context.Context, c *Caller, dirs ...Dir) ([]*lock.Hold, syscall.Errno) {
	if !g.enter() {
		return nil, syscall.ENOTCONN
	}
	defer g.running.Done()
	places := make([]lock.Place, len(dirs))
	for i, d := range dirs {
		places[i] = d.Place(c.Cred)
	}
	holds, again := g.arrive(c.TID, places)
	c.Once = c.Once || again
	if holds != nil {
		return holds, 0
	}
	reqs := g.requests(*c, places)
	holds, err := g.try(ctx, c.TID, reqs)
	if err == nil {
		return holds, 0
	}
	busy := isHeld(err)
	if busy && (c.NonBlock || g.wait == 0) {
		return nil, g.answer(*c, reqs, err)
	}
	if !c.Once && (busy || lock.Errno(err) == syscall.ESTALE) {
		if thread, e := g.host.find(c.TID); e == nil {
			return nil, g.sendAround(thread, reqs, busy)
		}
	}
	if !busy {
		return nil, g.answer(*c, reqs, err)
	}
	limit := g.inside()
	holds, err = g.acquire(ctx, c.TID, reqs, limit)
	if err == nil {
		return holds, 0
	}
	if limit != g.wait && (isHeld(err) || errors.Is(err, lock.ErrNoAnswer)) {
		err = fmt.Errorf("%w, for %v at most: %w", errInside, limit, err)
	}
	return nil, g.answer(*c, reqs, err)
}

// errInside explains an EBUSY or ETIMEDOUT that comes sooner than the wait's own limit.
var errInside = errors.New("the operation could wait only inside its request, where readers wait with it")

// inside is how long an operation may wait in its own request.
func (g *Gate) inside() time.Duration {
	if g.wait < 0 {
		return g.lastResort
	}
	return min(g.wait, g.lastResort)
}

// Attributes is called before each GETATTR of the directory d is answered:
// it waits there if Alter has sent the thread around, and else returns at
// once, without a request to the server. An error is the answer to the
// GETATTR: it ends the kernel's walk, and the operation with it.
func (g *Gate) Attributes(ctx context.Context, c Caller, d Dir) syscall.Errno {
	t := g.peek(c.TID)
	if t == nil {
		return 0
	}
	place := d.Place(c.Cred)
	if thread, err := g.host.find(c.TID); err != nil || thread != t.thread {
		return 0 // of an ended thread with the same id: the reaper's
	}
	reqs := g.begin(t, place)
	if reqs == nil {
		return 0
	}
	defer g.running.Done()
	holds, err := g.await(ctx, c.TID, reqs, g.wait)
	if err == nil && ctx.Err() != nil && g.host.endsWait(c.TID) {
		// Granted and interrupted at once. The thread will hardly come for it.
		g.release(holds)
		err = syscall.EINTR
	}
	if err != nil {
		g.forget(t)
		return g.answer(c, reqs, err)
	}
	return g.reserve(t, holds)
}

// Open returns a hold of d's lock for an operation during which the kernel
// holds no directory's inode lock: it waits in place. Its errors are Alter's,
// without the ESTALE of the gate's own.
func (g *Gate) Open(ctx context.Context, c Caller, d Dir) (*lock.Hold, syscall.Errno) {
	h, _, no := g.open(ctx, c, d)
	return h, no
}

// open is Open, and also returns the job that holds.
func (g *Gate) open(ctx context.Context, c Caller, d Dir) (*lock.Hold, procid.Job, syscall.Errno) {
	if !g.enter() {
		return nil, procid.Job{}, syscall.ENOTCONN
	}
	defer g.running.Done()
	places := []lock.Place{d.Place(c.Cred)}
	reqs := g.requests(c, places)
	// A CREATE that was sent around comes back as an OPEN if somebody else has
	// made the file meanwhile. Its reservation is of the same job.
	holds, _ := g.arrive(c.TID, places)
	if holds != nil {
		return holds[0], reqs[0].Job, 0
	}
	wait := g.wait
	if c.NonBlock {
		wait = 0
	}
	holds, err := g.await(ctx, c.TID, reqs, wait)
	if err != nil {
		return nil, procid.Job{}, g.answer(c, reqs, err)
	}
	return holds[0], reqs[0].Job, 0
}

// answer turns an error of a take into the one that the program gets.
func (g *Gate) answer(c Caller, reqs []lock.Request, err error) syscall.Errno {
	no := lock.Errno(err)
	if isHeld(err) && c.NonBlock {
		no = syscall.EAGAIN
	}
	// The manager tells of waits, of odd and of lost locks. What it does not
	// tell of, and the errno alone does not explain, is told here.
	level := logrus.DebugLevel
	if no == syscall.EDEADLK || errors.Is(err, errInside) {
		level = logrus.WarnLevel
	}
	for _, r := range reqs {
		entry(g.log, r.Place.Path, r.Cause).WithError(err).Log(level, "an operation ends without the lock of "+r.Place.Path)
	}
	return no
}

func isHeld(err error) bool {
	var held *lock.HeldError
	return errors.As(err, &held)
}

// enter reports whether the gate is open. Then Close waits for
// running.Done.
func (g *Gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.running.Add(1)
	}
	return !g.closed
}

// Close ends the gate: reservations are released, waits end with ENOTCONN.
// It returns when they have. What has been granted stays its holder's.
func (g *Gate) Close() {
	g.mu.Lock()
	g.closed = true
	var holds []*lock.Hold
	for _, t := range g.tickets {
		holds = append(holds, g.drop(t)...)
	}
	g.mu.Unlock()
	g.close()
	g.release(holds)
	g.running.Wait()
}
