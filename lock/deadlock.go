package lock

import "time"

// Two jobs that each hold a directory and wait for the other's would wait for
// ever. That a job waits does not prove it, since most jobs have more than one
// process: while one waits for a lock, another that holds one goes on, and
// releases it in the end. So there are two proofs.
//
// The first is exact, and given at once: a process without other threads that
// waits does nothing else, so what it holds it does not release.
//
// The second is for all else, as for a shell that holds a lock and waits for a
// child that waits for one: the jobs wait for each other in a circle, and for
// stuckAfter nothing was done under any of the locks that they hold.

// stuckAfter is how long locks must have been idle for the second proof.
const stuckAfter = 30 * time.Second

// deadlocked is the first proof: whether r's process, waiting for e, would wait
// for itself. m.mu is held.
func (m *Manager) deadlocked(e *entry, r Request) bool {
	if !r.Alone {
		return false
	}
	return reach(e, r, map[*entry]bool{}, func(t *tenure) (found bool, next []waiting) {
		if t.alone[r.Cause.PID] > 0 {
			return true, nil
		}
		for _, w := range m.waiting() {
			if w.r.Alone && t.alone[w.r.Cause.PID] > 0 {
				next = append(next, w)
			}
		}
		return false, next
	})
}

// stuck is the second proof: whether the job of r, which waits for e, waits for
// itself, and all that is on the way has long been idle. m.mu is held.
func (m *Manager) stuck(e *entry, r Request) bool {
	return reach(e, r, map[*entry]bool{}, func(t *tenure) (found bool, next []waiting) {
		if time.Since(t.moved) < m.stuckAfter {
			return false, nil
		}
		if t.job == r.Job {
			return true, nil
		}
		for _, w := range m.waiting() {
			if w.r.Job == t.job {
				next = append(next, w)
			}
		}
		return false, next
	})
}

// waiting is a request that waits for an entry.
type waiting struct {
	r Request
	e *entry
}

// waiting lists all requests that wait. m.mu is held.
func (m *Manager) waiting() []waiting {
	var all []waiting
	for _, e := range m.entries {
		for _, w := range e.waiters {
			all = append(all, waiting{w.r, e})
		}
	}
	return all
}

// reach follows the waits from r, which waits for e, to who holds e, and from
// there as follow says, until that has found what it looks for. seen are the
// entries where it has been. m.mu is held.
func reach(e *entry, r Request, seen map[*entry]bool, follow func(*tenure) (found bool, next []waiting)) bool {
	t := e.owner
	if seen[e] || t == nil || t.uses == 0 || t.job == r.Job {
		return false
	}
	seen[e] = true
	found, next := follow(t)
	for _, w := range next {
		if found {
			break
		}
		found = reach(w.e, w.r, seen, follow)
	}
	return found
}
