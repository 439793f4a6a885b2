package lock

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockfs/lockfs/procid"
)

// contender is a process of a host of its own that wants one lock all the time.
type contender struct {
	m    *Manager
	work time.Duration // done under the lock
	gap  time.Duration // between a release and the next wish
	try  bool          // it asks without a wait first, as the gate of a mount does
}

// contend lets the contenders take the lock until it was taken n times, and
// returns who took it.
func contend(t *testing.T, d *memFS, n int, contenders ...contender) (takes []int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, c := range contenders {
		p := d.place(1)
		p.Taken = func() {
			mu.Lock()
			defer mu.Unlock()
			takes = append(takes, i)
		}
		r := Request{Place: p, Job: job(t, i), Wait: Forever}
		wg.Go(func() {
			for {
				h, err := (*Hold)(nil), error(&HeldError{})
				if c.try {
					at := r
					at.Wait = 0
					h, err = c.m.Acquire(t.Context(), at)
				}
				if isHeld(err) {
					h, err = c.m.Acquire(t.Context(), r)
				}
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(c.work)
				h.Release()
				time.Sleep(c.gap)
				mu.Lock()
				done := len(takes) >= n
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	wg.Wait()
	return takes[:n]
}

// longest returns the longest streak of takes by one contender.
func longest(takes []int) int {
	most, now := 0, 0
	for i, who := range takes {
		if now++; i > 0 && takes[i-1] != who {
			now = 1
		}
		most = max(most, now)
	}
	return most
}

// elsewhere is the manager of a process of another host.
func (s *site) elsewhere(n int, linger time.Duration) *Manager {
	id := testID(n)
	id.Machine = fmt.Sprintf("%032x", n)
	return newManager(newHolder(id, s.host.judge), linger, s.event)
}

func TestHostsTakeTurns(t *testing.T) {
	for name, c := range map[string]struct {
		work, gap, linger time.Duration
		hosts             int
		try               bool
	}{
		"short":     {work: time.Millisecond, hosts: 2},
		"long":      {work: 3 * time.Second, hosts: 2},
		"many":      {work: 20 * time.Millisecond, hosts: 5},
		"lingering": {work: time.Millisecond, gap: 5 * time.Millisecond, linger: 10 * time.Millisecond, hosts: 2},
		"trying":    {work: time.Millisecond, gap: 5 * time.Millisecond, linger: 10 * time.Millisecond, hosts: 2, try: true},
		"with gaps": {work: 10 * time.Millisecond, gap: time.Millisecond, hosts: 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				d := newMemFS()
				var all []contender
				for i := range c.hosts {
					all = append(all, contender{s.elsewhere(i+1, c.linger), c.work, c.gap, c.try})
				}
				takes := contend(t, d, 300, all...)
				if n := longest(takes); n > 10 {
					t.Errorf("one host took the lock %d times running while others waited: %v", n, takes)
				}
				for _, c := range all {
					s.close(c.m)
				}
				d.empty(t)
			})
		})
	}
}

// Who does not wait any more is given way once, and not again at every turn.
func TestTheDeadAreGivenWayOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		d := newMemFS()
		dead := s.elsewhere(2, 0).holder
		a := dead.newAttempt(memDir{d}, Cause{})
		if _, err := a.build(); err != nil {
			t.Fatal(err)
		}
		m := s.elsewhere(1, 0)
		began := time.Now()
		contend(t, d, 1000, contender{m: m, work: time.Millisecond})
		if took := time.Since(began); took > 1000*time.Millisecond+2*wayMost {
			t.Errorf("a thousand holds of a millisecond took %v", took)
		}
		s.close(m)
		if err := a.giveUp(); err != nil {
			t.Fatal(err)
		}
		d.empty(t)
	})
}

// Only those directories are remembered in which takes can follow each other.
func TestStreaksAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		d := newMemFS()
		m := s.process(1, 0)
		for i := range 3 * streaksLeast {
			acquire(t, m, Request{Place: d.place(uint64(i)), Job: procid.Job{}, Wait: Forever}).Release()
			synctest.Wait()
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(m.streaks); n > streaksLeast {
			t.Errorf("%d are remembered", n)
		}
		s.close(m)
		d.empty(t)
	})
}

// However many wait for a lock, and however long, the server is asked twice a
// second at the most. A list is two requests at most of them: READDIR, and
// ACCESS or GETATTR of what it is opened on.
func TestWaitersAskTheServerRarely(t *testing.T) {
	requests := map[string]int64{"rename": 1, "refresh": 1, "list": 2}
	for name, holder := range map[string]func(*site) *Manager{
		"of another host": func(s *site) *Manager { return s.elsewhere(9, 0) },
		"of this host":    func(s *site) *Manager { return s.process(9, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				d := newMemFS()
				theirs, ours := holder(s), s.process(1, 0)
				h := acquire(t, theirs, Request{Place: d.place(1), Job: job(t, 0), Wait: Forever})
				var waiters sync.WaitGroup
				for i := range 100 {
					waiters.Go(func() {
						acquire(t, ours, Request{Place: d.place(1), Job: job(t, 1+i%10), Wait: Forever}).Release()
					})
				}
				time.Sleep(30 * time.Second)
				var n atomic.Int64
				d.fails(func(op string) (error, bool) { n.Add(requests[op]); return nil, true })
				time.Sleep(100 * time.Second)
				d.fails(nil)
				byHolder := int64(100*time.Second/VerifyEvery) * requests["list"]
				if n := n.Load() - byHolder; n > 200 {
					t.Errorf("%d requests in 100 s", n)
				}
				h.Release()
				waiters.Wait()
				s.close(theirs)
				s.close(ours)
				d.empty(t)
			})
		})
	}
}

// A dead holder of this host is seen at the next try, not at the next look.
func TestTheDeadAreSeenAtTheNextTry(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		d := newMemFS()
		gone := s.process(1, 0).holder
		if _, err := gone.newAttempt(memDir{d}, Cause{}).try(); err != nil {
			t.Fatal(err)
		}
		m := s.process(2, 0)
		var waiter sync.WaitGroup
		waiter.Go(func() { acquire(t, m, Request{Place: d.place(1), Job: job(t, 1), Wait: Forever}).Release() })
		time.Sleep(200 * time.Second)
		s.host.die(1)
		died := time.Now()
		waiter.Wait()
		if d := time.Since(died); d > 3*pauseMost/2 {
			t.Errorf("it was seen after %v", d)
		}
		s.close(m)
		d.empty(t)
	})
}

// A linger of more than a second is kept from use to use, for as long as it
// says itself.
func TestLongLinger(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		d := newMemFS()
		m := s.process(1, 10*time.Second)
		r := Request{Place: d.place(1), Job: job(t, 1), Wait: Forever}
		acquire(t, m, r).Release()
		for _, standing := range []bool{true, true, false} { // after 4, 8 and 12 seconds
			time.Sleep(4 * time.Second)
			acquire(t, m, r).Release()
			synctest.Wait()
			if len(d.all()) > 0 != standing {
				t.Errorf("the lock stands: %v, want %v", !standing, standing)
			}
		}
		s.close(m)
		d.empty(t)
	})
}
