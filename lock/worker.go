package lock

import (
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/lockfs/lockfs/procid"
)

// A wait's pauses grow with it, so that a short one is not prolonged by much
// and a long one costs the server little.
const (
	pauseLeast = 10 * time.Millisecond
	pauseMost  = time.Second
	// removeMost is how long after Close a release that the server refuses is
	// tried again.
	removeMost = 10 * time.Second
)

// pause is how long to wait before the next try of a wait that has lasted d.
func pause(d time.Duration) time.Duration {
	p := min(max(d/4, pauseLeast), pauseMost)
	return p/2 + rand.N(p)
}

// work does what the entry needs of the server, and ends when that is nothing.
func (m *Manager) work(e *entry) {
	for {
		m.mu.Lock()
		t := e.owner
		switch {
		case t != nil && t.ending:
			m.mu.Unlock()
			m.finish(e, t)
		case t == nil && len(e.waiters) > 0:
			m.mu.Unlock()
			m.take(e)
		default:
			e.working = false
			if t == nil && len(e.waiters) == 0 {
				delete(m.entries, e.key)
			}
			m.mu.Unlock()
			return
		}
	}
}

// finish releases the tenure's lock, however often the server refuses.
func (m *Manager) finish(e *entry, t *tenure) {
	m.mu.Lock()
	lost := errors.Is(t.err, ErrLost)
	m.mu.Unlock()
	if lost {
		m.lost(t)
	} else {
		m.release(e, t)
	}
	if t.place.Released != nil {
		m.mu.Lock()
		lost = errors.Is(t.err, ErrLost) // or found out by the release
		m.mu.Unlock()
		t.place.Released(lost)
	}
	drop(t.rec)
	m.goesOn(t)
	closed := t.dir.Close()
	m.mu.Lock()
	e.owner = nil
	m.mu.Unlock()
	close(t.ended)
	if closed != nil {
		m.events(Event{Kind: EventUnreleased, Path: t.place.Path, Cause: t.cause, Err: closed})
	}
}

// release removes the lock from the server. While the file system is read-only
// there, nobody can be given the lock, nor do what he wants it for: he is told,
// and does not wait for what may never change.
func (m *Manager) release(e *entry, t *tenure) {
	began := time.Now()
	err := m.holder.release(t.dir, t.rec)
	m.mu.Lock()
	switch {
	case errors.Is(err, ErrLost):
		t.fail(ErrLost)
		m.mu.Unlock()
		m.lost(t)
		return
	case err == nil:
		m.linger.released(time.Since(began))
	}
	m.mu.Unlock()
	m.refuseReadOnly(e, err)
	if m.insist(t.place.Path, t.cause, err, func() error {
		err := m.holder.remove(t.dir, t.rec)
		m.refuseReadOnly(e, err)
		return err
	}) {
		ev := t.event(EventReleased)
		ev.Server = time.Since(began)
		m.events(ev)
	}
}

// insist repeats f, which failed with err, until it succeeds. After Close it
// is tried for a while only: the next process of this host sees a dead holder.
// It reports whether f has succeeded.
func (m *Manager) insist(path string, cause Cause, err error, f func() error) bool {
	began := time.Now()
	for told := false; err != nil; err = f() {
		if !told {
			m.events(Event{Kind: EventUnreleased, Path: path, Cause: cause, Err: err})
			told = true
		}
		if m.stop.Err() != nil && time.Since(began) > removeMost {
			return false
		}
		time.Sleep(pause(time.Since(began)))
	}
	return true
}

// lost tells who holds the lock that was taken away.
func (m *Manager) lost(t *tenure) {
	ev := t.event(EventLost)
	ev.Err = ErrLost
	if s, err := m.holder.look(t.dir); err == nil {
		switch s.state {
		case Free:
			ev.Holder = "nobody"
		default:
			ev.Holder, ev.HolderRecord = s.by(), s.id()
		}
	}
	m.events(ev)
}

// take takes the lock for the entry's first waiter. It returns when there is
// an owner, or no waiter, or when that waiter's turn has ended.
func (m *Manager) take(e *entry) {
	m.mu.Lock()
	if len(e.waiters) == 0 {
		m.mu.Unlock()
		return
	}
	w := e.waiters[0]
	m.mu.Unlock()

	d, err := w.r.Place.Open()
	if err != nil {
		m.refuse(e, w, err)
		return
	}
	a := m.holder.newAttempt(d, w.r.Cause)
	rec, err := record{}, m.giveWay(e, w, a)
	began := time.Now()
	waited := false
	if err == nil {
		rec, waited, err = m.seek(e, w, a)
	}
	if err == nil {
		if w.r.Place.Taken != nil {
			w.r.Place.Taken()
		}
		m.grant(e, w, d, rec)
		if !waited {
			m.mu.Lock()
			m.linger.took(time.Since(began))
			m.mu.Unlock()
		}
		return
	}
	path, cause := w.r.Place.Path, w.r.Cause
	m.insist(path, cause, a.giveUp(), a.giveUp)
	if cerr := d.Close(); cerr != nil {
		err = errors.Join(err, cerr)
	}
	if !errors.Is(err, errLeft) {
		m.refuse(e, w, err)
	}
}

// errLeft: the waiter for whom the lock was sought has left.
var errLeft = errors.New("the waiter has left")

// seek tries until a's record stands in the lock, w has left, or an error is
// not that the lock is held. It reports whether the first try was not enough.
func (m *Manager) seek(e *entry, w *waiter, a *attempt) (rec record, waited bool, err error) {
	began := time.Now()
	var seen sights
	for ; ; waited = true {
		rec, next, err := m.round(e, w, a, &seen)
		switch {
		case next == unfreed:
			m.finishFreeing(w.r, a.d, rec, err)
			return record{}, waited, err
		case err != nil:
			return record{}, waited, err
		case next == got:
			return rec, waited, nil
		case next == again:
			continue
		}
		m.rest(e, pause(time.Since(began)))
	}
}

// rest waits for d, or until something has changed for the entry.
func (m *Manager) rest(e *entry, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.wake:
	case <-m.stop.Done():
	}
}

// waits reports whether w still waits for the entry's lock.
func (m *Manager) waits(e *entry, w *waiter) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(e.waiters, w)
}

// sights is what a wait has seen.
type sights struct {
	// odd and cloned: people were told of it.
	odd, cloned bool
	// by is the holder at the last look, and skips for how many more tries
	// that will do.
	by    procid.ID
	skips int
}

// looksSkipped is how many tries follow a look that showed a live holder. The
// try decides, and is one request; the look is three, and serves to see a
// stale lock, which this host knows of itself, and to tell people who holds.
const looksSkipped = 3

// skips reports whether the next look can wait, and counts it.
func (m *Manager) skips(s *sights) bool {
	if s.skips == 0 || m.holder.judge(s.by).Stale() {
		return false
	}
	s.skips--
	return true
}

// turn is how a round of a wait ends.
type turn uint8

const (
	got     turn = iota // the lock is taken
	again               // try again at once
	wait                // another holds it: try again later
	unfreed             // a lock that was to be freed may stand in this process's name
)

// round tries once to take the lock, and sees to whatever keeps it out. All
// that the wait keeps from one round to the next is in a and seen.
func (m *Manager) round(e *entry, w *waiter, a *attempt, seen *sights) (record, turn, error) {
	rec, err := a.try()
	if err == nil {
		return rec, got, nil
	}
	if !errors.Is(err, errHeld) {
		return record{}, wait, err
	}
	if m.skips(seen) {
		if !m.waits(e, w) {
			return record{}, wait, errLeft
		}
		return record{}, wait, nil
	}
	s, err := m.holder.look(a.d)
	if err != nil {
		return record{}, wait, err
	}
	switch {
	case s.empty:
		// It was let go since, or the server replaces not even an empty
		// directory. What forbids this is no worse than before.
		if err := m.holder.removeEmpty(a.d); err != nil && !refused(err) && !held(err) {
			return record{}, wait, err
		}
	case s.state == Free:
		// It was let go since: try again.
	case s.state == Stale:
		return m.recoverStale(w.r, a.d, s)
	case a.own(s.rec):
		return a.taken(), got, nil
	case s.state == Odd && !seen.odd:
		seen.odd = true
		m.events(Event{Kind: EventOdd, Path: w.r.Place.Path, Cause: w.r.Cause, Reason: s.why})
	case m.holder.leftOver(s.rec):
		// Left over from a release or take of unknown outcome.
		if err := m.holder.remove(a.d, s.rec); err != nil {
			return s.rec, unfreed, err
		}
		return record{}, again, nil
	case s.judgement.SharedMachine && !seen.cloned:
		seen.cloned = true
		m.events(Event{Kind: EventCloned, Path: w.r.Place.Path, Cause: w.r.Cause, Holder: s.by(), Reason: s.judgement.Reason})
	}
	if !m.keptOut(e, w, s) {
		return record{}, wait, errLeft
	}
	if s.state == Held {
		seen.by, seen.skips = s.rec.holder, looksSkipped
	}
	return record{}, wait, nil
}

// recoverStale frees the lock of a dead process of this host.
func (m *Manager) recoverStale(r Request, d Dir, s sight) (record, turn, error) {
	mine, err := m.holder.recover(d, s.rec)
	if errors.Is(err, errChanged) {
		return record{}, again, nil
	}
	if err != nil {
		return mine, unfreed, err
	}
	unsynced := d.Sync()
	// Freed all the same is a lock whose directory could not be removed yet,
	// for what NFS keeps of a record that somebody is looking at.
	if err := m.holder.release(d, mine); err != nil && !held(err) {
		return mine, unfreed, err
	}
	drop(mine)
	ev := Event{Kind: EventRecovered, Path: r.Place.Path, Cause: r.Cause, Holder: s.by(), HolderRecord: s.id(), Reason: s.judgement.Reason}
	m.events(ev)
	if unsynced != nil {
		ev.Kind, ev.Err = EventUnsynced, unsynced
		m.events(ev)
	}
	// The lock is free whatever becomes of what else the dead have left.
	if err := m.holder.sweep(d); err != nil {
		ev.Kind, ev.Err = EventUnswept, err
		m.events(ev)
	}
	return record{}, again, nil
}

// finishFreeing goes on freeing a lock that may stand as rec, after err.
func (m *Manager) finishFreeing(r Request, d Dir, rec record, err error) {
	m.insist(r.Place.Path, r.Cause, err, func() error { return m.holder.remove(d, rec) })
	drop(rec)
}

// keptOut notes who keeps the waiters out, ends those that do not wait, and
// reports whether w still waits.
func (m *Manager) keptOut(e *entry, w *waiter, s sight) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.state == Free {
		return slices.Contains(e.waiters, w)
	}
	e.by, e.seen = s.by(), s
	if s.judgement.Reason != "" {
		e.by += " (" + s.judgement.Reason + ")"
	}
	e.waiters = slices.DeleteFunc(e.waiters, func(w *waiter) bool {
		w.behind = keeper{e.by, s.id()}
		if w.r.Wait != 0 {
			return false
		}
		w.done <- outcome{err: &HeldError{Path: w.r.Place.Path, By: e.by, Remote: true}}
		return true
	})
	return slices.Contains(e.waiters, w)
}

// refuse ends w's wait with err.
func (m *Manager) refuse(e *entry, w *waiter, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(e.waiters, w); i >= 0 {
		e.waiters = slices.Delete(e.waiters, i, i+1)
		w.done <- outcome{err: err}
	}
}

// refuseReadOnly ends all waits for the entry's lock if err says that its file
// system is read-only.
func (m *Manager) refuseReadOnly(e *entry, err error) {
	if !errors.Is(err, syscall.EROFS) {
		return
	}
	m.mu.Lock()
	waiters := slices.Clone(e.waiters)
	m.mu.Unlock()
	for _, w := range waiters {
		m.refuse(e, w, err)
	}
}

// grant gives the lock that was taken for w to w's job: to all of its waiters.
// If w has left meanwhile, nobody uses it and it is released at once.
func (m *Manager) grant(e *entry, w *waiter, d Dir, rec record) {
	t := &tenure{m: m, e: e, rec: rec, dir: d, place: w.r.Place, job: w.r.Job, cause: w.r.Cause,
		since: m.holder.now(), alone: map[int]int{}, moved: time.Now(), ended: make(chan struct{})}
	m.events(t.took(w))
	m.mu.Lock()
	defer m.mu.Unlock()
	e.owner, e.by = t, ""
	if m.closed {
		t.fail(ErrClosed)
	}
	here := slices.Contains(e.waiters, w)
	e.waiters = slices.DeleteFunc(e.waiters, func(o *waiter) bool {
		switch {
		case !here:
			return false
		case o.r.Job == t.job:
			o.done <- outcome{hold: t.use(o.r)}
			return true
		case o.r.Wait == 0:
			o.done <- outcome{err: &HeldError{Path: t.place.Path, By: t.by()}}
			return true
		default:
			o.behind = t.keeper()
			return false
		}
	})
	if t.uses == 0 {
		t.ending = true
		return
	}
	if !m.verifying {
		m.verifying = true
		m.workers.Go(m.verifier)
	}
}
