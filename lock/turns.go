package lock

import "time"

// Two hosts that want a lock all the time must both get it, though neither
// knows of the other and a waiter asks rarely. So a process that took a lock
// several times running looks whether others wait: a waiter's candidate stands
// in the directory. If so it gives way until one of them has had its turn.

const (
	// tenureMost, or the linger if that is longer, bounds how long a lock lingers
	// on from use to use: a job that writes file after file would else never let
	// it go.
	tenureMost = time.Second
	// streakMost is how many takes running go by before the first look for others.
	streakMost = 8
	// wayMost is more than the longest pause of a waiter. Whoever has not
	// taken the lock by then is dead, or stopped, and for idleFor nobody gives
	// way to him again. A lock that was free for so long starts a new streak.
	wayMost = 2 * time.Second
	idleFor = time.Minute
	// A look at a large directory costs: it takes no more than 1/lookShare of
	// the time.
	lookShare = 50
	// streaksLeast is how many directories' streaks are kept without a thought.
	streaksLeast = 1000
)

// streak is how a directory's lock was taken again and again by this process. It
// is its worker's.
type streak struct {
	takes    int
	released time.Time
	// due: others were seen to wait, and have not had their turn.
	due bool
	// looked is when the last look for others ended, and cost how long it took.
	looked time.Time
	cost   time.Duration
	// idle are candidates whose owners were given way in vain, and when.
	idle map[string]time.Time
}

// streakOf returns the streak of the lock with that key; nil if it has none.
func (m *Manager) streakOf(k Key) *streak {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.streaks[k]
}

// goesOn notes that the lock was released after the tenure.
func (m *Manager) goesOn(t *tenure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, now := t.e.key, time.Now()
	r := m.streaks[k]
	if r == nil {
		if len(m.streaks) >= m.streaksMost {
			for k, r := range m.streaks {
				if now.Sub(r.released) > wayMost {
					delete(m.streaks, k)
				}
			}
			m.streaksMost = max(streaksLeast, 2*len(m.streaks))
		}
		r = &streak{}
		m.streaks[k] = r
	}
	if t.since.Sub(r.released) > wayMost {
		r.takes = 0
	}
	r.takes++
	r.released = now
}

// giveWay waits, if this process has taken e's lock several times running and
// others wait for it, until one of them has had it. It waits no longer than w
// does; one that does not wait is told that the lock is theirs. a's candidate
// stands meanwhile, so that the others can see it in turn.
//
// What keeps it from looking for others is no reason not to take the lock: its
// errors are *HeldError, and those of the candidate.
func (m *Manager) giveWay(e *entry, w *waiter, a *attempt) error {
	r := m.streakOf(e.key)
	if r == nil || r.takes < streakMost || time.Since(r.released) > wayMost ||
		!r.due && time.Since(r.looked) < lookShare*r.cost {
		return nil
	}
	began := time.Now()
	others, err := m.others(a.d)
	r.looked = time.Now()
	r.cost = r.looked.Sub(began)
	for name, since := range r.idle {
		if time.Since(since) < idleFor {
			delete(others, name)
		}
	}
	r.due = err == nil && len(others) > 0
	if r.due && w.r.Wait == 0 {
		return &HeldError{Path: w.r.Place.Path, By: "others, who have waited for it while this host took it again and again", Remote: true}
	}
	r.takes = 0
	if !r.due {
		return nil
	}
	r.due = false
	if err := a.stand(); err != nil {
		return err
	}
	for {
		m.rest(e, pause(time.Since(began)))
		if m.stop.Err() != nil || !m.waits(e, w) {
			return nil
		}
		now, err := m.others(a.d)
		if err != nil {
			return nil
		}
		for name := range others {
			if _, stands := now[name]; !stands {
				return nil // it was published, or its owner gave up
			}
		}
		if time.Since(began) > wayMost {
			r.idle = others
			return nil
		}
	}
}

// others returns the candidates of other processes in d, and when it saw them.
func (m *Manager) others(d Dir) (map[string]time.Time, error) {
	if err := d.Refresh(); err != nil {
		return nil, err
	}
	names, err := d.List("")
	if err != nil {
		return nil, err
	}
	others := map[string]time.Time{}
	for _, name := range names {
		if r, beside, ok := parseCandidate(name); ok && !beside && !m.holder.mine(r) {
			others[name] = time.Now()
		}
	}
	return others, nil
}
