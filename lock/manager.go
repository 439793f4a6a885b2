package lock

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockfs/lockfs/procid"
)

// Forever as a Request's Wait means without limit.
const Forever time.Duration = -1

// Key names a directory within one process. Equal keys, same directory.
type Key struct{ Dev, Ino, Gen uint64 }

func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Dev, o.Dev), cmp.Compare(k.Ino, o.Ino), cmp.Compare(k.Gen, o.Gen))
}

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
	// Released, if set, is called after each release of the lock at the
	// server, before this process can take it again. If lost, the lock was
	// taken away instead, and the directory may be another's.
	Released func(lost bool)
}

// Request asks for the lock of one directory.
type Request struct {
	Place Place
	Job   procid.Job
	Cause Cause
	// Alone reports that the process Cause.PID has no other threads: while it
	// waits it does nothing else.
	Alone bool
	// Wait is how long to wait while another job holds the lock: Forever,
	// or 0 to try once.
	Wait time.Duration
}

// Config is what a Manager needs to know.
type Config struct {
	// Self is the identity that the records bear and that judges others.
	Self *procid.Local
	// Linger is how long a lock is kept for the same job after its last
	// hold ended, or LingerAuto. From hold to hold it is kept no longer than a
	// second, or than Linger if that is longer: then others get their turn.
	Linger time.Duration
	// Events is told what people should know; nil for nobody. It is called
	// from several goroutines, never with a mutex of the manager held, and
	// must not block for long.
	Events func(Event)
}

// Manager shares locks among the jobs of one process.
//
// Each directory with a lock or a waiter has an entry, and each entry at most
// one worker: the only goroutine that asks the server to take or release that
// directory's lock. The mutex guards what the process knows, and is never held
// over a call to the server.
type Manager struct {
	holder *holder
	events func(Event)
	// stuckAfter is the constant, but in tests.
	stuckAfter time.Duration

	mu      sync.Mutex
	linger  linger
	entries map[Key]*entry
	closed  bool
	// stop ends the workers' pauses and the verifier, once.
	stop    context.Context
	halt    context.CancelFunc
	workers sync.WaitGroup
	// verifying: the verifier runs. It does while there are tenures.
	verifying bool
	// cleaning are the directories in which somebody cleans up after the dead.
	cleaning map[Key]bool
	// streaks are of the directories whose locks were released lately; streaksMost
	// is with how many of them the old ones are looked for.
	streaks     map[Key]*streak
	streaksMost int
}

// NewManager returns a manager that holds nothing. Close ends it.
func NewManager(c Config) *Manager {
	return newManager(newHolder(c.Self.ID(), c.Self.Judge), c.Linger, c.Events)
}

func newManager(h *holder, lingers time.Duration, events func(Event)) *Manager {
	if events == nil {
		events = func(Event) {}
	}
	m := &Manager{holder: h, linger: linger{fixed: lingers}, events: events, stuckAfter: stuckAfter,
		entries: map[Key]*entry{}, cleaning: map[Key]bool{}, streaks: map[Key]*streak{}, streaksMost: streaksLeast}
	m.stop, m.halt = context.WithCancel(context.Background())
	return m
}

// entry is one directory's lock as this process knows it.
type entry struct {
	key Key
	// owner is the job that holds the lock; nil if none of this process does.
	owner *tenure
	// waiters wait for it, in the order of their coming.
	waiters []*waiter
	// by says who kept the worker out at its last try; "" before it.
	by string
	// seen is the lock as it was at that try.
	seen sight
	// working: the worker runs. wake tells it that something has changed.
	working bool
	wake    chan struct{}
}

func (e *entry) nudge() {
	select {
	case e.wake <- struct{}{}:
	default: // it is told already
	}
}

// kick starts the entry's worker, or tells it of a change. m.mu is held.
func (m *Manager) kick(e *entry) {
	if e.working {
		e.nudge()
		return
	}
	e.working = true
	m.workers.Go(func() { m.work(e) })
}

// entryOf returns the directory's entry. m.mu is held.
func (m *Manager) entryOf(k Key) *entry {
	e := m.entries[k]
	if e == nil {
		e = &entry{key: k, wake: make(chan struct{}, 1)}
		m.entries[k] = e
	}
	return e
}

// Contended reports whether a job waits for the lock of the directory.
func (m *Manager) Contended(k Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[k]
	return e != nil && len(e.waiters) > 0
}

// Holds reports whether this process holds the directory's lock, be it that it
// only lingers, and whether it is about to release it or has begun to.
func (m *Manager) Holds(k Key) (held, ending bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[k]
	if e == nil || e.owner == nil {
		return false, false
	}
	return true, e.owner.ending
}

// Waiting returns the holder and the waiters of this process for one
// directory, as far as this process knows without asking the server.
func (m *Manager) Waiting(k Key) (holder *LocalHolder, waiters []Waiter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[k]; e != nil {
		s := e.status()
		return s.Holder, s.Waiters
	}
	return nil, nil
}

// Status lists every lock that this process holds or waits for.
func (m *Manager) Status() []LocalStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []LocalStatus
	for _, e := range m.entries {
		if s := e.status(); s.Holder != nil || s.Waiters != nil {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b LocalStatus) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// status describes the entry. The manager's mutex is held.
func (e *entry) status() LocalStatus {
	var s LocalStatus
	if t := e.owner; t != nil {
		s.Path = t.place.Path
		s.Holder = &LocalHolder{Job: t.job.String(), Cause: t.cause, Since: t.since, Uses: t.uses, Lost: t.err != nil}
	}
	for _, w := range e.waiters {
		s.Path = w.r.Place.Path
		s.Waiters = append(s.Waiters, Waiter{Job: w.r.Job.String(), Cause: w.r.Cause, Since: w.since})
	}
	if e.owner == nil && e.by != "" {
		s.Seen = &Status{}
		s.Seen.show(e.seen)
		s.Seen.Advise(s.Path)
	}
	return s
}

// Close ends the manager: waiters get ErrClosed, lingering locks are
// released, and locks in use as well; their holds' Err says ErrClosed then.
// It returns when the server has answered every release, or with ctx's error.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	if !m.closed {
		m.closed = true
		m.halt()
		for _, e := range m.entries {
			for _, w := range e.waiters {
				w.done <- outcome{err: ErrClosed}
			}
			e.waiters = nil
			if t := e.owner; t != nil {
				t.fail(ErrClosed)
				t.end()
			}
			m.kick(e)
		}
	}
	m.mu.Unlock()

	ended := make(chan struct{})
	go func() {
		m.workers.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
