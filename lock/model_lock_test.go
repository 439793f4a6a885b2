package lock

import "testing"

// The shared lock as it was published: two processes on one host and one on
// another, and a lock that a crash leaves stale. Acquiring and recovering are
// one step each here. The explorer checks that every step of the real code is
// a step of this model or none (see refine in explore_props_test.go).

type sharedPC uint8

const (
	sharedIdle sharedPC = iota
	sharedWaiting
	sharedCritical
)

type sharedLockState uint8

const (
	sharedFree sharedLockState = iota
	sharedLocked
	sharedStale
)

type shared struct {
	pc    [3]sharedPC
	lock  sharedLockState
	owner uint8 // the host of the last holder
}

func sharedHost(p int) uint8 { return uint8(p / 2) }

func (s shared) set(p int, pc sharedPC, lock sharedLockState) shared {
	s.pc[p], s.lock = pc, lock
	return s
}

func (s shared) acquirable(p int) bool {
	return s.lock == sharedFree || s.lock == sharedStale && s.owner == sharedHost(p)
}

func sharedSteps(s shared, p int) (next []shared) {
	switch s.pc[p] {
	case sharedIdle:
		next = append(next, s.set(p, sharedWaiting, s.lock))
	case sharedWaiting:
		if s.acquirable(p) {
			t := s.set(p, sharedCritical, sharedLocked)
			t.owner = sharedHost(p)
			next = append(next, t)
		}
	case sharedCritical:
		next = append(next,
			s.set(p, sharedIdle, sharedFree),  // release
			s.set(p, sharedIdle, sharedStale)) // crash
	}
	return next
}

var sharedLock = model[shared]{steps: sharedSteps, processes: 3}

func (s shared) critical() (n int) {
	for _, pc := range s.pc {
		if pc == sharedCritical {
			n++
		}
	}
	return n
}

func TestSharedLockModel(t *testing.T) {
	states, _ := sharedLock.reach()
	if len(states) != 44 {
		t.Errorf("%d reachable states, published were 44", len(states))
	}
	for _, s := range states {
		if s.critical() > 1 {
			t.Errorf("two holders: %+v", s)
		}
		if (s.lock == sharedLocked) != (s.critical() == 1) {
			t.Errorf("locked without a holder, or held unlocked: %+v", s)
		}
		for p, pc := range s.pc {
			if pc == sharedCritical && s.owner != sharedHost(p) {
				t.Errorf("the holder's host is not the owner: %+v", s)
			}
		}
	}
	for _, c := range []struct {
		name string
		good func(shared) bool
		want bool
	}{
		{"the lock is not stale", func(s shared) bool { return s.lock != sharedStale }, true},
		{"the lock is taken", func(s shared) bool { return s.lock == sharedLocked }, true},
		{"the lock is not held", func(s shared) bool { return s.lock != sharedLocked }, true},
		// A crash loop of one host starves the other, and of two processes of
		// one host one can starve the other: fairness is not promised.
		{"process 0 holds", func(s shared) bool { return s.pc[0] == sharedCritical }, false},
		{"process 2 holds", func(s shared) bool { return s.pc[2] == sharedCritical }, false},
	} {
		if got := sharedLock.againAndAgain(c.good); got != c.want {
			t.Errorf("again and again %s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The crash loop in full: host 0 takes, crashes, recovers and crashes again,
// while host 1 waits for a lock that it may never judge.
func TestSharedLockCrashLoopStarvesTheOtherHost(t *testing.T) {
	states, g := sharedLock.reach()
	starved := func(i int) bool {
		s := states[i]
		return s.pc[2] == sharedWaiting && s.lock != sharedFree
	}
	found := false
	g.cycles(starved, func(members []int) {
		found = found || g.fair(members, 3, func(i, p int) bool { return len(sharedSteps(states[i], p)) > 0 })
	})
	if !found {
		t.Error("no fair run in which host 1 waits for ever for a lock that is never free")
	}
}

// With both processes of host 0 and the one of host 1 never crashing, the
// lock is never stale at all.
func TestSharedLockWithoutCrashesIsNeverStale(t *testing.T) {
	quiet := sharedLock
	quiet.steps = func(s shared, p int) (next []shared) {
		for _, t := range sharedSteps(s, p) {
			if t.lock != sharedStale || s.lock == sharedStale {
				next = append(next, t)
			}
		}
		return next
	}
	states, _ := quiet.reach()
	for _, s := range states {
		if s.lock == sharedStale {
			t.Errorf("stale: %+v", s)
		}
	}
}
