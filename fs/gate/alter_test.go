package gate

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

const (
	d1 dir = 1
	d2 dir = 2
)

func TestFreeLockIsTakenAtOnce(t *testing.T) {
	w := newWorld(t, Config{})
	a, no := w.Alter(t.Context(), new(caller(1)), d1)
	w.want("alter", no, 0)
	// The same job shares it.
	b, no := w.Open(t.Context(), caller(1), d1)
	w.want("open", no, 0)
	w.want("attributes", w.Attributes(t.Context(), caller(1), d1), 0)
	w.drop(a, b)
	ha, hb, no := w.AlterBoth(t.Context(), new(caller(1)), d1, d2)
	w.want("both", no, 0)
	w.drop(ha, hb)
	w.empty()
}

// The way it should go: ESTALE, a wait in GETATTR, the operation again.
func TestSentAround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Wait: lock.Forever})
		start := time.Now()
		other := w.locks.hold(d1, job(2))
		w.around(1, d1)
		if !w.Pending(d1.key()) || w.Pending(d2.key()) {
			t.Error("not the right directory is pending")
		}
		// Others, and other directories, don't wait.
		w.want("another thread", w.Attributes(t.Context(), caller(3), d1), 0)
		w.want("another directory", w.Attributes(t.Context(), caller(1), d2), 0)
		w.wantAfter(start, 0)
		time.AfterFunc(time.Hour, func() { w.drop(other) })
		w.want("attributes", w.Attributes(t.Context(), caller(1), d1), 0)
		w.wantAfter(start, time.Hour)
		if n := w.locks.held(); n != 1 {
			t.Fatalf("%d holds are reserved", n)
		}
		// May_create asks once more, and the reservation stands.
		w.want("again", w.Attributes(t.Context(), caller(1), d1), 0)
		h, no := w.Alter(t.Context(), new(caller(1)), d1)
		w.want("second arrival", no, 0)
		if w.locks.held() != 1 || w.Pending(d1.key()) {
			t.Error("the reservation was not the operation's")
		}
		w.drop(h)
		w.empty()
	})
}

func (d dir) key() lock.Key { return lock.Key{Dev: 1, Ino: uint64(d)} }

// A second ESTALE would be the program's.
func TestSecondArrivalWaitsInside(t *testing.T) {
	for _, tt := range []struct {
		name string
		wait time.Duration
		free time.Duration // when the lock gets free
		took time.Duration
		no   syscall.Errno
	}{
		{"got", lock.Forever, time.Second, time.Second, 0},
		{"last resort over", lock.Forever, time.Hour, testLast, syscall.EBUSY},
		{"wait over", time.Second, time.Hour, time.Second, syscall.EBUSY},
	} {
		for _, second := range []dir{d1, d2} { // where the path leads by then
			t.Run(tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, Config{Wait: tt.wait})
					h1, h2 := w.locks.hold(d1, job(2)), w.locks.hold(d2, job(2))
					w.around(1, d1)
					start := time.Now()
					free := time.AfterFunc(tt.free, func() { w.drop(h1, h2) })
					h, no := w.Alter(t.Context(), new(caller(1)), second)
					w.want("second arrival", no, tt.no)
					w.wantAfter(start, tt.took)
					if no == 0 {
						w.drop(h)
					} else {
						free.Stop()
						// That operation is over. The next one is a new one.
						w.around(1, d1)
						w.drop(h1, h2)
					}
					w.empty()
				})
			})
		}
	}
}

func TestNobodyToSendAround(t *testing.T) {
	for name, c := range map[string]Caller{"unseen": {TID: 0}, "once": {TID: 1, Once: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Config{Wait: lock.Forever})
				other := w.locks.hold(d1, job(2))
				start := time.Now()
				_, no := w.Alter(t.Context(), new(c), d1)
				w.want("alter", no, syscall.EBUSY)
				w.wantAfter(start, testLast)
				w.want("attributes", w.Attributes(t.Context(), c, d1), 0)
				time.AfterFunc(time.Second, func() { w.drop(other) })
				h, no := w.Alter(t.Context(), new(c), d1)
				w.want("alter", no, 0)
				w.drop(h)
				w.empty()
			})
		})
	}
}

// Two callers that can't be seen are two jobs.
func TestUnseenCallersAreNotOneJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		h, no := w.Open(t.Context(), Caller{}, d1)
		w.want("first", no, 0)
		start := time.Now()
		_, no = w.Open(t.Context(), Caller{}, d1)
		w.want("second", no, syscall.EBUSY)
		w.wantAfter(start, testWait) // an OPEN may wait in place
		w.drop(h)
		w.empty()
	})
}

func TestNoWait(t *testing.T) {
	w := newWorld(t, Config{Wait: time.Second})
	other := w.locks.hold(d1, job(2))
	c := caller(1)
	c.NonBlock = true
	_, no := w.Alter(t.Context(), new(c), d1)
	w.want("alter, O_NONBLOCK", no, syscall.EAGAIN)
	_, no = w.Open(t.Context(), c, d1)
	w.want("open, O_NONBLOCK", no, syscall.EAGAIN)
	w.wait = 0
	_, no = w.Open(t.Context(), c, d1)
	w.want("open, O_NONBLOCK and no wait", no, syscall.EAGAIN)
	_, no = w.Alter(t.Context(), new(caller(1)), d1)
	w.want("alter, no wait", no, syscall.EBUSY)
	_, _, no = w.AlterBoth(t.Context(), new(caller(1)), d2, d1)
	w.want("both, no wait", no, syscall.EBUSY)
	_, no = w.Open(t.Context(), caller(1), d1)
	w.want("open, no wait", no, syscall.EBUSY)
	w.drop(other)
	w.empty()
}

// What failed for another reason than a holder is told as what it is.
func TestOtherErrors(t *testing.T) {
	for _, want := range []error{syscall.ENOSPC, syscall.EROFS, syscall.EACCES, syscall.EIO, lock.ErrOdd, lock.ErrDeadlock, lock.ErrClosed, syscall.EBUSY, syscall.ESTALE} {
		w := newWorld(t, Config{})
		w.locks.fail = func(lock.Request) error { return want }
		_, no := w.Alter(t.Context(), new(caller(1)), d1)
		w.want("alter", no, lock.Errno(want))
		c := caller(2)
		c.NonBlock = true
		_, no = w.Open(t.Context(), c, d1)
		w.want("open", no, lock.Errno(want))
		_, _, no = w.AlterBoth(t.Context(), new(caller(3)), d1, d2)
		w.want("both", no, lock.Errno(want))

		w.locks.fail = nil
		other := w.locks.hold(d2, job(9))
		w.around(5, d2)
		w.locks.fail = func(lock.Request) error { return want }
		w.want("attributes", w.Attributes(t.Context(), caller(5), d2), lock.Errno(want))
		w.drop(other)
		w.empty()
	}
}

// The kernel repeats an operation after an ESTALE of the server's too. The
// repetition must not get another one for a held lock.
func TestServersOwnESTALE(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		w.locks.fail = func(lock.Request) error { return syscall.ESTALE }
		w.around(1, d1)
		w.locks.fail = nil
		if w.Pending(d1.key()) {
			t.Error("pending for a lock that was not held")
		}
		other := w.locks.hold(d2, job(2))
		start := time.Now()
		w.want("attributes", w.Attributes(t.Context(), caller(1), d1), 0)
		w.wantAfter(start, 0)
		time.AfterFunc(time.Second, func() { w.drop(other) })
		h, no := w.Alter(t.Context(), new(caller(1)), d2)
		w.want("second arrival", no, 0)
		w.drop(h)

		w.locks.fail = func(lock.Request) error { return syscall.ESTALE }
		w.around(1, d1)
		w.around(1, d1) // it is true again
		w.empty()
	})
}

// A wait in GETATTR that fails ends the operation, and the next is a new one.
func TestAttributesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		other := w.locks.hold(d1, job(2))
		for range 3 {
			w.around(1, d1)
			start := time.Now()
			w.want("attributes", w.Attributes(t.Context(), caller(1), d1), syscall.EBUSY)
			w.wantAfter(start, testWait)
			w.want("later stat", w.Attributes(t.Context(), caller(1), d1), 0)
		}
		w.drop(other)
		w.empty()
	})
}

func TestBothDirectories(t *testing.T) {
	for _, first := range []dir{d1, d2} {
		for _, heldDir := range []dir{d1, d2} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Config{})
				other := w.locks.hold(heldDir, job(2))
				_, _, no := w.AlterBoth(t.Context(), new(caller(1)), d1, d2)
				w.want("first arrival", no, syscall.ESTALE)
				if !w.Pending(d1.key()) || !w.Pending(d2.key()) || w.locks.held() != 1 {
					t.Error("not both are pending, or one is held")
				}
				time.AfterFunc(time.Second, func() { w.drop(other) })
				w.want("attributes", w.Attributes(t.Context(), caller(1), first), 0)
				w.want("attributes of the other", w.Attributes(t.Context(), caller(1), 3-first), 0)
				if n := w.locks.held(); n != 2 {
					t.Errorf("%d reserved", n)
				}
				a, b, no := w.AlterBoth(t.Context(), new(caller(1)), d1, d2)
				w.want("second arrival", no, 0)
				if w.locks.holds[a].key != d1.key() || w.locks.holds[b].key != d2.key() {
					t.Error("the holds are in another order")
				}
				w.drop(a, b)

				// All or nothing inside the request, too.
				other = w.locks.hold(heldDir, job(2))
				c := caller(1)
				c.Once = true
				_, _, no = w.AlterBoth(t.Context(), new(c), d1, d2)
				w.want("inside", no, syscall.EBUSY)
				if n := w.locks.held(); n != 1 {
					t.Errorf("%d held", n)
				}
				w.drop(other)
				w.empty()
			})
		}
	}
}

// A reservation that the thread's next operation does not use is released.
func TestReservationForAnother(t *testing.T) {
	next := map[string]func(w *world) syscall.Errno{
		"alter": func(w *world) syscall.Errno {
			h, no := w.Alter(w.t.Context(), new(caller(1)), d2)
			w.drop(h)
			return no
		},
		"both": func(w *world) syscall.Errno {
			a, b, no := w.AlterBoth(w.t.Context(), new(caller(1)), d1, d2)
			w.drop(a, b)
			return no
		},
		"open": func(w *world) syscall.Errno {
			h, no := w.Open(w.t.Context(), caller(1), d2)
			w.drop(h)
			return no
		},
	}
	for name, f := range next {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{})
			w.reservation(1, d1)
			w.want(name, f(w), 0)
			if n := w.locks.held(); n != 0 {
				t.Errorf("%d held", n)
			}
			w.empty()
		})
	}
}

// reservation lets the thread have one.
func (w *world) reservation(tid int, d dir) {
	w.t.Helper()
	other := w.locks.hold(d, job(99))
	w.around(tid, d)
	w.drop(other)
	w.want("attributes", w.Attributes(w.t.Context(), caller(tid), d), 0)
	if n := w.locks.held(); n != 1 {
		w.t.Fatalf("%d reserved", n)
	}
}

// A CREATE comes back as an OPEN if the file is there by then.
func TestOpenUsesReservation(t *testing.T) {
	w := newWorld(t, Config{})
	w.reservation(1, d1)
	h, no := w.Open(t.Context(), caller(1), d1)
	w.want("open", no, 0)
	if n := w.locks.held(); n != 1 {
		t.Errorf("%d held", n)
	}
	w.drop(h)
	w.empty()
}

// An open that waited finds its file gone: what the thread's second walk comes to
// uses the hold, whoever else waits.
func TestAroundAfterOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Wait: lock.Forever})
		h, no := w.Open(t.Context(), caller(1), d1)
		w.want("open", no, 0)
		w.want("around", w.Around(caller(1), d1, h), syscall.ESTALE)
		go func() {
			if h, no := w.Open(t.Context(), caller(2), d1); no == 0 {
				w.drop(h)
			}
		}()
		synctest.Wait()
		w.want("attributes", w.Attributes(t.Context(), caller(1), d1), 0)
		h, no = w.Alter(t.Context(), new(caller(1)), d1)
		w.want("create", no, 0)
		w.drop(h)
		synctest.Wait()
		// A thread that can't be seen has no second walk.
		h, no = w.Open(t.Context(), caller(1), d1)
		w.want("open", no, 0)
		w.host.do(func() { w.host.dead[1] = true })
		w.want("around of nobody", w.Around(caller(1), d1, h), syscall.ESTALE)
		w.empty()
	})
}

func TestLostReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		w.reservation(1, d1)
		w.locks.lose()
		other := w.locks.hold(d1, job(2))
		time.AfterFunc(time.Second, func() { w.drop(other) })
		start := time.Now()
		h, no := w.Alter(t.Context(), new(caller(1)), d1)
		w.want("alter", no, 0)
		w.wantAfter(start, time.Second) // no second ESTALE
		w.drop(h)
		w.empty()
	})
}

// The thread's id is another thread's by now.
func TestThreadIDReused(t *testing.T) {
	w := newWorld(t, Config{})
	w.reservation(1, d1)
	w.host.do(func() { w.host.start[1] = 5 })
	other := w.locks.hold(d2, job(2))
	_, no := w.Alter(t.Context(), new(caller(1)), d2)
	w.want("the new thread's first arrival", no, syscall.ESTALE)
	if n := w.locks.held(); n != 1 {
		t.Errorf("%d held", n)
	}
	w.host.do(func() { w.host.start[1] = 6 })
	w.want("attributes of a third", w.Attributes(t.Context(), caller(1), d2), 0)
	w.drop(other)
	w.empty()
}

func TestClosed(t *testing.T) {
	w := newWorld(t, Config{})
	w.reservation(1, d1)
	w.Close()
	if n := w.locks.held(); n != 0 {
		t.Errorf("%d held", n)
	}
	_, no := w.Alter(t.Context(), new(caller(1)), d1)
	w.want("alter", no, syscall.ENOTCONN)
	_, _, no = w.AlterBoth(t.Context(), new(caller(1)), d1, d2)
	w.want("both", no, syscall.ENOTCONN)
	_, no = w.Open(t.Context(), caller(1), d1)
	w.want("open", no, syscall.ENOTCONN)
	_, _, no = w.OpenVirtual(t.Context(), caller(1), d1, 7, 1)
	w.want("virtual", no, syscall.ENOTCONN)
	w.want("attributes", w.Attributes(t.Context(), caller(1), d1), 0)
	w.empty()
}

func TestCloseEndsWaits(t *testing.T) {
	for _, late := range []bool{false, true} { // granted at the same moment
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Config{Wait: lock.Forever, LastResort: time.Hour})
			w.locks.hold(d1, job(2))
			w.around(1, d1)
			ended := make(chan syscall.Errno, 3)
			go func() { ended <- w.Attributes(t.Context(), caller(1), d1) }()
			if !late {
				go func() { _, no := w.Open(t.Context(), caller(3), d1); ended <- no }()
				go func() { _, no := w.Alter(t.Context(), new(Caller{}), d1); ended <- no }()
			}
			synctest.Wait()
			w.locks.late = late
			n := w.locks.waiters()
			clear(w.locks.holds)
			w.empty()
			for range n {
				w.want("wait", <-ended, syscall.ENOTCONN)
			}
			if late != (n == 1) {
				t.Errorf("%d waited", n)
			}
		})
	}
}

// The gate closes between the try and the ESTALE.
func TestClosedBeforeSentAround(t *testing.T) {
	w := newWorld(t, Config{})
	w.locks.fail = func(lock.Request) error {
		w.Gate.mu.Lock()
		w.closed = true
		w.Gate.mu.Unlock()
		return &lock.HeldError{}
	}
	_, no := w.Alter(t.Context(), new(caller(1)), d1)
	w.want("alter", no, syscall.ENOTCONN)
	w.empty()
}

// A manager that ends a wait by itself, without the context's end.
func TestCanceledByTheManager(t *testing.T) {
	w := newWorld(t, Config{})
	w.locks.fail = func(lock.Request) error { return context.Canceled }
	_, no := w.Open(t.Context(), caller(1), d1)
	w.want("open", no, syscall.EIO)
	w.empty()
}

func TestHundredsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Wait: lock.Forever})
		other := w.locks.hold(d1, job(999))
		const n = 200
		ended := make(chan error, n)
		for i := range n {
			go func() {
				c := caller(i + 1)
				if _, no := w.Alter(t.Context(), new(c), d1); no != syscall.ESTALE {
					ended <- no
					return
				}
				if no := w.Attributes(t.Context(), c, d1); no != 0 {
					ended <- no
					return
				}
				h, no := w.Alter(t.Context(), new(c), d1)
				if no != 0 {
					ended <- no
					return
				}
				time.Sleep(time.Millisecond)
				w.drop(h)
				ended <- nil
			}()
		}
		synctest.Wait()
		if got := w.locks.waiters(); got != n {
			t.Errorf("%d wait", got)
		}
		w.drop(other)
		for range n {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		w.empty()
	})
}

// New makes a gate with the real host, and a logger of its own for nobody.
func TestNew(t *testing.T) {
	g := New(Config{Jobs: procid.ByMount})
	g.locks = newFakeLocks()
	h, no := g.Alter(t.Context(), new(Caller{TID: syscall.Gettid()}), d1)
	if no != 0 {
		t.Fatal(no)
	}
	g.locks.release(h)
	g.Close()
	if !errors.Is(g.closing.Err(), context.Canceled) {
		t.Error("not closed")
	}
}
