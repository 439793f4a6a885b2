package lock

import (
	"context"
	"slices"
	"time"

	"github.com/lockfs/lockfs/procid"
)

// VerifyEvery is how long after a look at all locks in use the next one begins.
const VerifyEvery = 5 * time.Second

// tenure is the time from a take of a lock to its release.
type tenure struct {
	m     *Manager
	e     *entry
	rec   record
	dir   Dir
	place Place
	job   procid.Job
	cause Cause
	since time.Time

	// What follows is guarded by m.mu.
	uses int
	// alone counts the uses by processes without other threads.
	alone map[int]int
	// moved is when something was last done under the lock.
	moved time.Time
	// told: people know that it lasts.
	told bool
	// err is why the lock no longer stands under its holds.
	err error
	// ending: the worker is to release the lock, or does.
	ending bool
	linger *time.Timer
	// ended is closed when the lock was released.
	ended chan struct{}
}

// event begins an event about the tenure.
func (t *tenure) event(kind EventKind) Event {
	return Event{Kind: kind, Path: t.place.Path, Cause: t.cause, Record: t.rec.id(), Elapsed: t.m.holder.now().Sub(t.since)}
}

// took is the event of the tenure's beginning, after w's wait.
func (t *tenure) took(w *waiter) Event {
	ev := t.event(EventTook)
	ev.Elapsed = time.Since(w.since)
	return ev
}

// lasts tells, once, of a tenure that has lasted a round of the verifier.
func (t *tenure) lasts() {
	ev := t.event(EventHeld)
	t.m.mu.Lock()
	tell := !t.told && !t.ending && ev.Elapsed >= VerifyEvery
	t.told = t.told || tell
	t.m.mu.Unlock()
	if tell {
		t.m.events(ev)
	}
}

// fail makes the holds' Err say err. m.mu is held.
func (t *tenure) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// end asks the worker to release the lock. m.mu is held.
func (t *tenure) end() {
	if t.linger != nil {
		t.linger.Stop()
	}
	t.ending = true
	t.m.kick(t.e)
}

// Hold is one use of a lock by a job. All holds of one job on one directory
// share the lock; it is released after the last of them (and the linger).
type Hold struct {
	t *tenure
	// alone is the process that uses it, if that has no other threads; or 0.
	alone    int
	released bool // guarded by t.m.mu
}

// use returns a new hold for r. m.mu is held.
func (t *tenure) use(r Request) *Hold {
	if !r.Alone {
		return t.useBy(0)
	}
	return t.useBy(r.Cause.PID)
}

// useBy returns a new hold for the process alone, or for several if it is 0.
// m.mu is held.
func (t *tenure) useBy(alone int) *Hold {
	if t.linger != nil {
		t.linger.Stop()
		t.linger = nil
	}
	t.uses++
	if alone != 0 {
		t.alone[alone]++
	}
	t.moved = time.Now()
	return &Hold{t: t, alone: alone}
}

// Release ends the hold. It does not wait for the server. A second call does
// nothing.
func (h *Hold) Release() {
	if h.t == unlocked {
		return
	}
	t, m := h.t, h.t.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.released {
		return
	}
	h.released = true
	t.uses--
	if h.alone != 0 {
		if t.alone[h.alone]--; t.alone[h.alone] == 0 {
			delete(t.alone, h.alone)
		}
	}
	t.moved = time.Now()
	if t.uses > 0 || t.ending || t.e.owner != t {
		return
	}
	lingers := m.linger.duration()
	if lingers == 0 || len(t.e.waiters) > 0 || time.Since(t.since) > max(tenureMost, lingers) {
		t.end()
		return
	}
	t.linger = time.AfterFunc(lingers, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if t.uses == 0 && !t.ending && t.e.owner == t {
			t.end()
		}
	})
}

// Err is nil while the lock stands, ErrLost once it was taken away, and
// ErrClosed after the manager's Close. It is called before each thing that is
// done under the lock, and so tells that the job is not stuck.
func (h *Hold) Err() error {
	if h.t == unlocked {
		return nil
	}
	h.t.m.mu.Lock()
	defer h.t.m.mu.Unlock()
	h.t.moved = time.Now()
	return h.t.err
}

// Share returns another hold of the same lock for the same job. It may be
// called until h's Release.
func (h *Hold) Share() *Hold {
	if h.t == unlocked {
		return Unlocked()
	}
	h.t.m.mu.Lock()
	defer h.t.m.mu.Unlock()
	return h.t.useBy(h.alone)
}

// Check asks the server whether the lock still stands, and returns what Err
// then does, or the error that kept it from finding out (ctx's, or the file
// system's).
func (h *Hold) Check(ctx context.Context) error {
	if err := h.Err(); err != nil || h.t == unlocked {
		return err
	}
	found := make(chan error, 1)
	go func() { found <- h.t.m.verify(h.t) }()
	select {
	case err := <-found:
		if err != nil {
			return err
		}
		return h.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// verify looks whether the lock still stands, and fences its holds if not.
func (m *Manager) verify(t *tenure) error {
	stands, err := m.holder.standing(t.dir, t.rec)
	if err != nil || stands {
		return err
	}
	m.mu.Lock()
	lost := t.e.owner == t && !t.ending && t.err == nil
	if lost {
		t.fail(ErrLost)
		// A lost hold is never released; the entry is free for others.
		t.end()
	}
	m.mu.Unlock()
	return nil
}

// verifier verifies every lock in use, again and again, while there are any.
func (m *Manager) verifier() {
	for {
		select {
		case <-time.After(VerifyEvery):
		case <-m.stop.Done():
			return
		}
		m.mu.Lock()
		var held []*tenure
		for _, e := range m.entries {
			if t := e.owner; t != nil && !t.ending {
				held = append(held, t)
			}
		}
		if len(held) == 0 {
			m.verifying = false
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		slices.SortFunc(held, func(a, b *tenure) int { return a.e.key.compare(b.e.key) })
		for _, t := range held {
			// No answer proves no loss: the next round asks again.
			if err := m.verify(t); err != nil {
				m.events(Event{Kind: EventUnverified, Path: t.place.Path, Cause: t.cause, Err: err})
			}
			t.lasts()
			if m.stop.Err() != nil {
				return
			}
		}
	}
}

// Vacate gives the lock of h back to the server at once, though h and other
// holds of its job still stand; they become holds of nothing, whose Release
// does nothing. It is for a directory that is empty and about to be removed:
// all candidates in it are discarded too, and the cards of hosts.
// It returns when D/.lockfs is gone or could not be removed.
func (m *Manager) Vacate(ctx context.Context, h *Hold) error {
	if h.t == unlocked {
		return nil
	}
	t := h.t
	if err := m.holder.discardAll(t.dir, func(record) bool { return true }); err != nil {
		return err
	}
	if err := discardCards(t.dir); err != nil {
		return err
	}
	m.mu.Lock()
	if t.e.owner == t {
		t.end()
	}
	m.mu.Unlock()
	select {
	case <-t.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
