package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockfs/lockfs/procid"
)

// A wait is told of after tellFirst, then after ever longer pauses up to
// tellRarely.
const (
	tellFirst  = 3 * time.Second
	tellRarely = 10 * time.Minute
)

// waiter is a request that is not granted yet.
type waiter struct {
	r     Request
	since time.Time
	// done receives one outcome, sent by whoever takes the waiter off its
	// entry's list.
	done chan outcome
	// behind is who was last seen to keep it out. The manager's mutex guards it.
	behind keeper
}

// keeper is the holder of a lock as a waiter sees him: in words, and by the id
// of his record.
type keeper struct{ by, record string }

type outcome struct {
	hold *Hold
	err  error
}

// Acquire returns a hold of the lock of r.Place for r.Job. A job that holds
// it already gets another hold at once.
//
// Errors: *HeldError (errors.Is syscall.EBUSY) if another job holds it and
// r.Wait is over; ErrNoAnswer (syscall.ETIMEDOUT) if it is over before the
// server has said so; ErrDeadlock (syscall.EDEADLK) if jobs of this
// process wait for each other in a circle; ctx.Err(); ErrClosed; else the error of the
// file system, unchanged. On an error nothing is held.
func (m *Manager) Acquire(ctx context.Context, r Request) (*Hold, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, ErrClosed
	}
	e := m.entryOf(r.Place.Key)
	if t := e.owner; t != nil && t.job == r.Job && !t.ending {
		h := t.use(r)
		m.mu.Unlock()
		return h, nil
	}
	if by, remote := e.keptBy(r.Job); r.Wait == 0 && by != "" {
		m.mu.Unlock()
		return nil, &HeldError{Path: r.Place.Path, By: by, Remote: remote}
	}
	if r.Wait != 0 && m.deadlocked(e, r) {
		m.mu.Unlock()
		return nil, ErrDeadlock
	}
	w := &waiter{r: r, since: time.Now(), done: make(chan outcome, 1)}
	e.waiters = append(e.waiters, w)
	if t := e.owner; t != nil {
		w.behind = t.keeper()
		if t.uses == 0 && !t.ending {
			t.end() // another job waits: the linger is over
		}
	}
	m.kick(e)
	m.mu.Unlock()
	return m.await(ctx, e, w)
}

// keptBy says in words who keeps the job out, as far as this process knows;
// "" if it does not. m.mu is held.
func (e *entry) keptBy(job procid.Job) (by string, remote bool) {
	if t := e.owner; t != nil && t.uses > 0 && !t.ending && t.job != job {
		return t.by(), false
	}
	if e.owner == nil && len(e.waiters) > 0 {
		// Without a waiter nobody asks the server: what it said is outdated.
		return e.by, true
	}
	return "", false
}

// by names the holding job for people.
func (t *tenure) by() string {
	return fmt.Sprintf("%s of this host (%s, process %d)", t.job, t.cause.Program, t.cause.PID)
}

// keeper is the tenure as others see it.
func (t *tenure) keeper() keeper { return keeper{t.by(), t.rec.id()} }

// await waits for the outcome of w, which stands in e's list.
func (m *Manager) await(ctx context.Context, e *entry, w *waiter) (*Hold, error) {
	var limit <-chan time.Time
	if w.r.Wait > 0 {
		timer := time.NewTimer(w.r.Wait)
		defer timer.Stop()
		limit = timer.C
	}
	pause := tellFirst
	tell := time.NewTimer(pause)
	defer tell.Stop()
	stuck := time.NewTicker(m.stuckAfter)
	defer stuck.Stop()
	for {
		select {
		case o := <-w.done:
			m.tellEnd(w, o.err)
			return o.hold, o.err
		case <-tell.C:
			m.tell(w, EventWaiting, nil)
			pause = min(2*pause, tellRarely)
			tell.Reset(pause)
		case <-stuck.C:
			m.mu.Lock()
			deadlock := m.stuck(e, w.r)
			m.mu.Unlock()
			if deadlock {
				m.leave(e, w, ErrDeadlock)
			}
		case <-limit:
			m.leave(e, w, nil)
		case <-ctx.Done():
			m.leave(e, w, ctx.Err())
		}
	}
}

// tell tells of w's wait, and whom it is or was for.
func (m *Manager) tell(w *waiter, kind EventKind, err error) {
	m.mu.Lock()
	b := w.behind
	m.mu.Unlock()
	m.events(Event{Kind: kind, Path: w.r.Place.Path, Cause: w.r.Cause, Holder: b.by, HolderRecord: b.record,
		Elapsed: time.Since(w.since), Err: err})
}

// tellEnd tells of the end of w's wait, if that was not brief.
func (m *Manager) tellEnd(w *waiter, err error) {
	switch {
	case time.Since(w.since) < BriefWait:
	case err == nil:
		m.tell(w, EventGot, nil)
	default:
		m.tell(w, EventGaveUp, err)
	}
}

// leave ends w's wait with err, or with who keeps it out if err is nil, unless
// it has an outcome already.
func (m *Manager) leave(e *entry, w *waiter, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(e.waiters, w)
	if i < 0 {
		return
	}
	if err == nil {
		err = ErrNoAnswer
		if by, remote := e.keptBy(w.r.Job); by != "" {
			err = &HeldError{Path: w.r.Place.Path, By: by, Remote: remote}
		}
	}
	e.waiters = slices.Delete(e.waiters, i, i+1)
	w.done <- outcome{err: err}
	m.kick(e)
}

// AcquireBoth returns holds of two locks, or none: it never waits for one
// while it newly holds the other. Wait and Job are those of a.
func (m *Manager) AcquireBoth(ctx context.Context, a, b Request) (ha, hb *Hold, err error) {
	b.Job, b.Wait = a.Job, a.Wait
	if a.Place.Key == b.Place.Key {
		if ha, err = m.Acquire(ctx, a); err != nil {
			return nil, nil, err
		}
		return ha, ha.Share(), nil
	}
	first, second, swapped := a, b, false
	if a.Place.Key.compare(b.Place.Key) > 0 {
		first, second, swapped = b, a, true
	}
	began := time.Now()
	var held error // what was said of the one that is held
	for {
		h1, err := m.Acquire(ctx, first)
		if errors.Is(err, ErrNoAnswer) && held != nil {
			// The wait ended before the other was asked for again.
			err = held
		}
		if err != nil {
			return nil, nil, err
		}
		once := second
		once.Wait = 0
		h2, err := m.Acquire(ctx, once)
		if err == nil {
			if swapped {
				h1, h2 = h2, h1
			}
			return h1, h2, nil
		}
		h1.Release()
		if !isHeld(err) || a.Wait == 0 {
			return nil, nil, err
		}
		held = err
		// Wait for the one that is held, and then try the other. Two that do
		// so in opposite order need different pauses to pass each other.
		first, second, swapped = second, first, !swapped
		if a.Wait > 0 {
			left := a.Wait - time.Since(began)
			if left <= 0 {
				return nil, nil, err
			}
			first.Wait = left
		}
		if err := sleep(ctx, rand.N(20*time.Millisecond)); err != nil {
			return nil, nil, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
