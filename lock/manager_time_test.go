package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockfs/lockfs/procid"
)

// The tests here play time (testing/synctest): a bubble ends only when every
// goroutine in it has, so each of them also shows that none leaks.

// site is a protected directory in memory, with the managers of processes.
type site struct {
	t    *testing.T
	host *host
	mu   sync.Mutex
	seen []Event
}

func (s *site) event(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, e)
}

// kinds are the kinds of the events so far, but for those of each take and
// each release.
func (s *site) kinds() (kinds []EventKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.seen {
		if e.Kind != EventTook && e.Kind != EventReleased {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

func (s *site) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = nil
}

// inBubble runs f in a bubble of played time.
func inBubble(t *testing.T, f func(t *testing.T, s *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, &site{t: t, host: newHost()}) })
}

// process is the manager of a process of its own.
func (s *site) process(pid int, linger time.Duration) *Manager {
	return newManager(newHolder(testID(pid), s.host.judge), linger, s.event)
}

func (s *site) close(m *Manager) {
	s.t.Helper()
	if err := m.Close(context.Background()); err != nil {
		s.t.Errorf("Close: %v", err)
	}
}

func (m *memFS) place(n uint64) Place {
	return Place{Key: Key{Ino: n}, Path: fmt.Sprintf("/d%d", n), Open: m.Open}
}

// empty: nothing of lockfs is left, and no descriptor.
func (m *memFS) empty(t *testing.T) {
	t.Helper()
	if left := m.all(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open != 0 {
		t.Errorf("%d descriptors left open", m.open)
	}
}

func TestWaitersAreServedInTheirOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		d := newMemFS()
		m := s.process(1, time.Second)
		first := acquire(t, m, Request{Place: d.place(1), Job: job(t, 0), Wait: Forever})
		var order []int
		var wg sync.WaitGroup
		for i := 1; i <= 5; i++ {
			j := job(t, i)
			wg.Go(func() {
				h, err := m.Acquire(t.Context(), Request{Place: d.place(1), Job: j, Wait: Forever})
				if err != nil {
					t.Errorf("waiter %d: %v", i, err)
					return
				}
				order = append(order, i) // the lock guards it
				time.Sleep(time.Second)
				h.Release()
			})
			synctest.Wait() // it waits now
		}
		if !m.Contended(Key{Ino: 1}) || m.Contended(Key{Ino: 2}) {
			t.Error("who waits is not said")
		}
		if h, w := m.Waiting(Key{Ino: 1}); h == nil || len(w) != 5 || w[0].Job != job(t, 1).String() {
			t.Errorf("Waiting = %+v, %+v", h, w)
		}
		if h, w := m.Waiting(Key{Ino: 2}); h != nil || w != nil {
			t.Errorf("Waiting for what nobody has: %+v, %+v", h, w)
		}
		if st := m.Status(); len(st) != 1 || st[0].Path != "/d1" || st[0].Holder.Uses != 1 || st[0].Holder.Lost {
			t.Errorf("Status = %+v", st)
		}
		began := time.Now()
		first.Release()
		wg.Wait()
		if !slices.Equal(order, []int{1, 2, 3, 4, 5}) {
			t.Errorf("served in the order %v", order)
		}
		if d := time.Since(began); d > 6*time.Second {
			t.Errorf("five holds of a second took %v: a waiter was not woken", d)
		}
		s.close(m)
		d.empty(t)
	})
}

func TestNoTwoHoldersAndNoLostWakeUp(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		d := newMemFS()
		var holders, grants int
		var mu sync.Mutex
		managers := []*Manager{s.process(1, 0), s.process(2, 50*time.Millisecond), s.process(3, 0)}
		var wg sync.WaitGroup
		for i := range 12 {
			m, j := managers[i%3], job(t, i)
			wg.Go(func() {
				for range 20 {
					time.Sleep(rand.N(100 * time.Millisecond))
					ctx, cancel := context.WithTimeout(t.Context(), rand.N(time.Minute))
					h, err := m.Acquire(ctx, Request{Place: d.place(1), Job: j, Wait: Forever})
					cancel()
					if err != nil {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("Acquire: %v", err)
						}
						continue
					}
					mu.Lock()
					if holders++; holders > 1 {
						t.Errorf("%d holders at once", holders)
					}
					grants++
					mu.Unlock()
					time.Sleep(rand.N(50 * time.Millisecond))
					mu.Lock()
					holders--
					mu.Unlock()
					h.Release()
				}
			})
		}
		wg.Wait()
		if grants < 12 {
			t.Errorf("only %d grants", grants)
		}
		for _, m := range managers {
			s.close(m)
		}
		d.empty(t)
	})
}

func TestLingerAsksNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		d := newMemFS()
		m := s.process(1, time.Second)
		r := Request{Place: d.place(1), Job: job(t, 1), Wait: Forever}
		acquire(t, m, r).Release()
		calls := d.count()
		for range 9 {
			time.Sleep(100 * time.Millisecond)
			acquire(t, m, r).Release()
		}
		if n := d.count(); n > calls {
			t.Errorf("%d calls to the server while the lock lingered", n-calls)
		}
		// Nobody keeps it for ever, from use to use.
		for range 2 {
			time.Sleep(100 * time.Millisecond)
			acquire(t, m, r).Release()
		}
		synctest.Wait()
		d.empty(t)
		acquire(t, m, r).Release()
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		d.empty(t)
		// A waiter ends the linger at once.
		acquire(t, m, r).Release()
		began := time.Now()
		acquire(t, m, Request{Place: d.place(1), Job: job(t, 2), Wait: Forever}).Release()
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("another job waited %v for a lock that only lingered", d)
		}
		s.close(m)
		d.empty(t)
	})
}

func TestWaitsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		d := newMemFS()
		mine, theirs := s.process(1, 0), s.process(2, 0)
		h := acquire(t, theirs, Request{Place: d.place(1), Job: job(t, 1), Wait: Forever})
		r := Request{Place: d.place(1), Job: job(t, 2), Cause: Cause{Program: "cp"}, Wait: 8 * time.Second}
		began := time.Now()
		_, err := mine.Acquire(t.Context(), r)
		var held *HeldError
		if !errors.As(err, &held) || !held.Remote || held.By == "" || held.Error() == "" || Errno(err) != syscall.EBUSY {
			t.Errorf("when the wait was over: %v, want held by the other process", err)
		}
		if d := time.Since(began); d != 8*time.Second {
			t.Errorf("a wait of 8s took %v", d)
		}
		if k := s.kinds(); !slices.Equal(k, []EventKind{EventWaiting, EventHeld, EventGaveUp}) {
			t.Errorf("told %v", k)
		}
		// A wait that is cancelled.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r.Wait = Forever
		if _, err := mine.Acquire(ctx, r); err != context.DeadlineExceeded {
			t.Errorf("cancelled: %v", err)
		}
		if _, err := mine.Acquire(ctx, r); err != context.DeadlineExceeded {
			t.Errorf("cancelled before: %v", err)
		}
		time.Sleep(2 * time.Second)
		if got := d.all(); len(got) != 2 {
			t.Errorf("a waiter that left has left something: %q", got)
		}
		// One that gets it after it was told of.
		s.forget()
		time.AfterFunc(10*time.Second, h.Release)
		acquire(t, mine, r).Release()
		if k := s.kinds(); !slices.Equal(k, []EventKind{EventWaiting, EventWaiting, EventGot}) {
			t.Errorf("told %v", k)
		}
		s.close(mine)
		s.close(theirs)
		d.empty(t)
	})
}

// Who held and who waited, when and for whom, can be told from the events.
func TestEventsTellOfTakesAndReleases(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		d := newMemFS()
		mine, theirs := s.process(1, 0), s.process(2, 0)
		h := acquire(t, theirs, Request{Place: d.place(1), Job: job(t, 1), Wait: Forever})
		time.AfterFunc(12*time.Second, h.Release)
		acquire(t, mine, Request{Place: d.place(1), Job: job(t, 2), Wait: Forever}).Release()
		s.close(mine)
		s.close(theirs)
		var got []string
		for _, e := range s.seen {
			of := func(record string) string { return strings.Split(record+",,", ",")[1] }
			got = append(got, fmt.Sprintf("%s %s<%s %v", e.Kind, of(e.Record), of(e.HolderRecord), e.Elapsed.Truncate(2*time.Second)))
		}
		want := []string{"took 2< 0s", "waiting <2 2s", "held 2< 4s", "waiting <2 8s", "released 2< 12s",
			"took 1< 12s", "got <2 12s", "released 1< 0s"}
		if !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		if a, b := s.seen[0].Record, s.seen[1].HolderRecord; a != b || a != s.seen[4].Record {
			t.Errorf("one record has the names %q, %q, %q", a, b, s.seen[4].Record)
		}
	})
}

// The server does not answer: the wait ends all the same, says so, and what
// comes late is let go again.
func TestNoAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		d := newMemFS()
		up := make(chan struct{})
		d.fails(func(op string) (error, bool) {
			if op == "rename" {
				<-up
			}
			return nil, true
		})
		m := s.process(1, 0)
		_, err := m.Acquire(t.Context(), Request{Place: d.place(1), Job: job(t, 1), Wait: 5 * time.Second})
		if !errors.Is(err, ErrNoAnswer) || Errno(err) != syscall.ETIMEDOUT || err.Error() == "" {
			t.Errorf("%v, want that the file server does not answer", err)
		}
		close(up)
		time.Sleep(time.Second)
		synctest.Wait()
		d.empty(t)
		if err := func() error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return m.Close(ctx)
		}(); err != nil && err != context.Canceled {
			t.Errorf("Close: %v", err)
		}
		s.close(m)
	})
}

func TestBothOrNone(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		a, b := newMemFS(), newMemFS()
		one, two := s.process(1, 0), s.process(2, 0)
		var inA, inB int
		var mu sync.Mutex
		enter := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			if inA, inB = inA+by, inB+by; inA > 1 || inB > 1 {
				t.Error("two holders at once")
			}
		}
		var wg sync.WaitGroup
		for i := range 6 {
			m, x, y := one, a.place(1), b.place(2)
			if i%2 == 1 {
				m, x, y = two, y, x
			}
			j := job(t, i)
			wg.Go(func() {
				for range 10 {
					hx, hy, err := m.AcquireBoth(t.Context(), Request{Place: x, Job: j, Wait: Forever}, Request{Place: y})
					if err != nil {
						t.Errorf("AcquireBoth: %v", err)
						return
					}
					if hx.t.place.Key != x.Key || hy.t.place.Key != y.Key {
						t.Error("the holds were swapped")
					}
					enter(1)
					time.Sleep(rand.N(20 * time.Millisecond))
					enter(-1)
					hx.Release()
					hy.Release()
				}
			})
		}
		wg.Wait()
		// Of the same directory, both are one lock.
		r := Request{Place: a.place(1), Job: job(t, 1), Wait: Forever}
		h1, h2, err := one.AcquireBoth(t.Context(), r, r)
		if err != nil {
			t.Fatal(err)
		}
		// The second is held by another process: none is, and nothing waits
		// longer than it may.
		for _, wait := range []time.Duration{0, time.Second} {
			other := Request{Place: b.place(2), Job: job(t, 2), Wait: wait}
			if _, _, err := two.AcquireBoth(t.Context(), other, r); !errors.Is(err, syscall.EBUSY) {
				t.Errorf("with a wait of %v: %v", wait, err)
			}
			if _, _, err := two.AcquireBoth(t.Context(), Request{Place: a.place(1), Job: job(t, 2), Wait: wait}, other); !errors.Is(err, syscall.EBUSY) {
				t.Errorf("with a wait of %v: %v", wait, err)
			}
		}
		h1.Release()
		h2.Release()
		// The one that comes second is held: the first is let go for as long.
		hb := acquire(t, one, Request{Place: b.place(2), Job: job(t, 1), Wait: Forever})
		brief := Request{Place: a.place(1), Job: job(t, 2), Wait: time.Second}
		if _, _, err := two.AcquireBoth(t.Context(), brief, Request{Place: b.place(2)}); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("the second is held: %v", err)
		}
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		brief.Wait = Forever
		if _, _, err := two.AcquireBoth(short, brief, Request{Place: b.place(2)}); err != context.DeadlineExceeded {
			t.Errorf("the second is held: %v", err)
		}
		brief.Wait = time.Minute
		time.AfterFunc(10*time.Second, hb.Release)
		ha, hb, err := two.AcquireBoth(t.Context(), Request{Place: b.place(2), Job: job(t, 2), Wait: Forever}, brief)
		if err != nil {
			t.Fatal(err)
		}
		if ha.t.place.Key.Ino != 2 || hb.t.place.Key.Ino != 1 {
			t.Error("the holds were swapped")
		}
		ha.Release()
		hb.Release()
		h1 = acquire(t, one, r)
		h2 = h1.Share()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, _, err := two.AcquireBoth(ctx, Request{Place: b.place(2), Job: job(t, 2), Wait: Forever}, r); err != context.DeadlineExceeded {
			t.Errorf("cancelled: %v", err)
		}
		if _, _, err := two.AcquireBoth(ctx, r, r); err != context.DeadlineExceeded {
			t.Errorf("cancelled: %v", err)
		}
		h1.Release()
		h2.Release()
		s.close(one)
		s.close(two)
		a.empty(t)
		b.empty(t)
	})
}

// A release, a cleaning and a recovery that the server refuses are tried until
// it does not.
func TestRefusedIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		d := newMemFS()
		m := s.process(1, 0)
		r := Request{Place: d.place(1), Job: job(t, 1), Wait: Forever}
		h := acquire(t, m, r)
		d.refuses("unlink", 5, syscall.EIO)
		h.Release()
		h = acquire(t, m, r) // after the release
		if k := s.kinds(); !slices.Equal(k, []EventKind{EventUnreleased}) {
			t.Errorf("told %v", k)
		}
		h.Release()
		time.Sleep(time.Second)
		d.empty(t)

		// A dead holder's lock, of which the recovery gets stuck half-way.
		for _, c := range []struct {
			op   string
			n    int
			want error
		}{{"unlink", 3, syscall.EIO}, {"sync", 1, nil}, {"rmdir", 1, syscall.EIO}} {
			d.fails(nil)
			dir, err := d.Open()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := newHolder(testID(7), s.host.judge).newAttempt(dir, Cause{}).try(); err != nil {
				t.Fatal(err)
			}
			dir.Close()
			s.host.die(7)
			s.forget()
			d.refuses(c.op, c.n, syscall.EIO)
			h, err := m.Acquire(t.Context(), r)
			if !errors.Is(err, c.want) {
				t.Errorf("%s refused in a recovery: %v, want %v", c.op, err, c.want)
			}
			if err == nil {
				h.Release()
			}
			time.Sleep(3 * time.Second)
			if got := d.all(); len(got) > 0 {
				t.Errorf("%s refused in a recovery left %q", c.op, got)
			}
			if c.op == "sync" && !slices.Equal(s.kinds(), []EventKind{EventRecovered, EventUnsynced}) {
				t.Errorf("told %v", s.kinds())
			}
		}
		// After Close it is tried for a while only.
		h = acquire(t, m, r)
		d.refuses("unlink", 1<<30, syscall.EIO)
		began := time.Now()
		h.Release()
		s.close(m)
		if d := time.Since(began); d < removeMost || d > 2*removeMost {
			t.Errorf("Close took %v", d)
		}
	})
}

func TestTheVerifierSeesALoss(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		d, e := newMemFS(), newMemFS()
		m := s.process(1, 0)
		h := acquire(t, m, Request{Place: d.place(1), Job: job(t, 1), Wait: Forever})
		k := acquire(t, m, Request{Place: e.place(2), Job: job(t, 1), Wait: Forever})
		d.refuses("list", 1<<30, syscall.EIO)
		if err := h.Check(t.Context()); !errors.Is(err, syscall.EIO) {
			t.Errorf("Check = %v, want why it could not look", err)
		}
		time.Sleep(VerifyEvery + time.Second)
		if !slices.Contains(s.kinds(), EventUnverified) {
			t.Errorf("told %v", s.kinds())
		}
		d.fails(nil)
		time.Sleep(VerifyEvery + time.Second)
		if err := h.Err(); err != nil {
			t.Errorf("a lock that stands: %v", err)
		}
		d.mu.Lock()
		clear(d.dirs)
		d.mu.Unlock()
		time.Sleep(VerifyEvery + time.Second)
		if err := h.Err(); !errors.Is(err, ErrLost) {
			t.Errorf("Err = %v, want ErrLost", err)
		}
		if err := h.Check(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("Check = %v, want ErrLost", err)
		}
		if err := k.Check(t.Context()); err != nil {
			t.Errorf("the other lock: %v", err)
		}
		if !slices.Contains(s.kinds(), EventLost) {
			t.Errorf("told %v", s.kinds())
		}
		h.Release()
		// A check that gets no answer ends with its context.
		up := make(chan struct{})
		e.fails(func(string) (error, bool) { <-up; return nil, true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := k.Check(ctx); err != context.DeadlineExceeded {
			t.Errorf("Check = %v", err)
		}
		close(up)
		k.Release()
		s.close(m)
		d.empty(t)
		e.empty(t)
	})
}

// The lock was taken away before its release: told, and nothing of another's
// is touched. Vacate that fails says so.
func TestLossAtTheRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		d := newMemFS()
		m := s.process(1, 0)
		r := Request{Place: d.place(1), Job: job(t, 1), Wait: Forever}
		h := acquire(t, m, r)
		d.mu.Lock()
		clear(d.dirs)
		d.mu.Unlock()
		h.Release()
		synctest.Wait()
		if k := s.kinds(); !slices.Equal(k, []EventKind{EventLost}) || s.seen[len(s.seen)-1].Holder != "nobody" {
			t.Errorf("told %+v", s.seen)
		}
		h = acquire(t, m, r)
		d.refuses("list", 1, syscall.EIO)
		if err := m.Vacate(t.Context(), h); !errors.Is(err, syscall.EIO) {
			t.Errorf("Vacate = %v", err)
		}
		h.Release()
		s.close(m)
		d.empty(t)
	})
}

// A directory that cannot be opened, or closed.
func TestOpenAndCloseFail(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		d := newMemFS()
		d.refuses("open", 1, syscall.EMFILE)
		m := s.process(1, 0)
		taken := 0
		p := d.place(1)
		p.Taken = func() { taken++ }
		r := Request{Place: p, Job: job(t, 1), Wait: Forever}
		if _, err := m.Acquire(t.Context(), r); Errno(err) != syscall.EMFILE {
			t.Errorf("open: %v", err)
		}
		d.fails(func(op string) (error, bool) {
			if op == "close" {
				return syscall.EMFILE, true // closed all the same
			}
			return nil, true
		})
		h := acquire(t, m, r)
		if taken != 1 {
			t.Errorf("Taken was called %d times", taken)
		}
		h.Release()
		synctest.Wait()
		if k := s.kinds(); !slices.Equal(k, []EventKind{EventUnreleased}) {
			t.Errorf("told %v", k)
		}
		d.refuses("mkdir", 1, syscall.EMFILE)
		if _, err := m.Acquire(t.Context(), r); Errno(err) != syscall.EMFILE {
			t.Errorf("mkdir: %v", err)
		}
		s.close(m)
		d.empty(t)
	})
}

// A lock that holds what no lock holds, and a clone's: said once, and waited for.
func TestStrangeLocksAreSaid(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		d := newMemFS()
		d.dirs[lockName] = map[string]string{"@eaDir": ""}
		m := s.process(1, 0)
		r := Request{Place: d.place(1), Job: job(t, 1), Wait: 20 * time.Second}
		if _, err := m.Acquire(t.Context(), r); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("%v", err)
		}
		n := 0
		for _, k := range s.kinds() {
			if k == EventOdd {
				n++
			}
		}
		if n != 1 {
			t.Errorf("told %v", s.kinds())
		}
		// What is mine and nobody's is left over, and goes.
		synctest.Wait()
		d.dirs[lockName] = map[string]string{record{holder: testID(1), nonce: 99}.name(): ""}
		acquire(t, m, r).Release()
		synctest.Wait()
		d.empty(t)
		s.close(m)
	})
}

// A candidate that is taken away each time, and a lock's name that is a mount
// point: the take ends with an error that says so.
func TestTakesThatNeverSucceed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		for _, c := range []struct{ answer, want error }{
			{syscall.ENOENT, syscall.EAGAIN},
			{syscall.EBUSY, ErrOdd},
			{syscall.EXDEV, syscall.EXDEV},
		} {
			d := newMemFS()
			d.refuses("rename", 1<<30, c.answer)
			m := s.process(1, 0)
			if _, err := m.Acquire(t.Context(), Request{Place: d.place(1), Job: job(t, 1), Wait: Forever}); !errors.Is(err, c.want) {
				t.Errorf("a rename that answers %v: %v, want %v", c.answer, err, c.want)
			}
			s.close(m)
			d.empty(t)
		}
	})
}

// A clone's lock is waited for, and said to be one, once.
func TestAClonesLockIsSaid(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		d := newMemFS()
		h := newHolder(testID(1), func(procid.ID) procid.Judgement {
			return procid.Judgement{Verdict: procid.Foreign, SharedMachine: true, Reason: "a clone"}
		})
		m := newManager(h, 0, s.event)
		theirs := acquire(t, s.process(2, 0), Request{Place: d.place(1), Job: job(t, 1), Wait: Forever})
		_, err := m.Acquire(t.Context(), Request{Place: d.place(1), Job: job(t, 2), Wait: 2 * time.Second})
		if !errors.Is(err, syscall.EBUSY) {
			t.Errorf("Acquire = %v", err)
		}
		if k := s.kinds(); !slices.Equal(k, []EventKind{EventCloned, EventGaveUp}) {
			t.Errorf("told %v", k)
		}
		theirs.Release()
		s.close(m)
		s.close(theirs.t.m)
		d.empty(t)
	})
}

// The lock comes when the manager has been closed, or its waiter has left: it
// is let go at once. Others that do not wait are told who has it.
func TestALateGrantIsLetGo(t *testing.T) {
	inBubble(t, func(t *testing.T, s *site) {
		for _, closed := range []bool{true, false} {
			d, e := newMemFS(), newMemFS()
			up := make(chan struct{})
			d.fails(func(op string) (error, bool) {
				if op == "rename" {
					<-up
				}
				return nil, true
			})
			m := s.process(1, 0)
			other := acquire(t, m, Request{Place: e.place(2), Job: job(t, 1), Wait: Forever})
			if st := m.Status(); len(st) != 1 {
				t.Errorf("Status = %+v", st)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := m.Acquire(ctx, Request{Place: d.place(1), Job: job(t, 1), Wait: Forever}); err == nil {
					t.Error("a grant after the end")
				}
			})
			synctest.Wait()
			wg.Go(func() {
				h, err := m.Acquire(t.Context(), Request{Place: d.place(1), Job: job(t, 1)})
				if err == nil {
					h.Release()
				} else if !closed || !errors.Is(err, ErrClosed) {
					t.Errorf("the second: %v", err)
				}
			})
			synctest.Wait()
			if st := m.Status(); len(st) != 2 || st[0].Path > st[1].Path {
				t.Errorf("Status = %+v", st)
			}
			if closed {
				wg.Go(func() { s.close(m) })
			} else {
				cancel()
			}
			synctest.Wait()
			close(up)
			wg.Wait()
			cancel()
			other.Release()
			s.close(m)
			d.empty(t)
			e.empty(t)
		}
	})
}
