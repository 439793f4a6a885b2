package gate

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockfs/lockfs/lock"
)

func TestThreadDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		w.reservation(1, d1)
		w.locks.hold(d2, job(3))
		w.around(2, d2)
		w.host.do(func() { w.host.dead[1], w.host.dead[2] = true, true })
		time.Sleep(reapEvery + time.Millisecond)
		if w.locks.held() != 1 || w.Pending(d1.key()) || w.Pending(d2.key()) {
			t.Error("something of the dead is left")
		}
		clear(w.locks.holds)
		// The reaper has ended with its work, and begins anew.
		synctest.Wait()
		if w.reaping {
			t.Error("the reaper runs for nobody")
		}
		clear(w.locks.owner)
		w.reservation(3, d1)
		w.host.do(func() { w.host.dead[3] = true })
		time.Sleep(reapEvery + time.Millisecond)
		w.empty()
	})
}

// A thread that dies in its wait is its GETATTR's.
func TestReaperLeavesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Wait: lock.Forever})
		other := w.locks.hold(d1, job(2))
		w.around(1, d1)
		time.AfterFunc(time.Hour, func() { w.drop(other) })
		w.want("attributes", w.Attributes(t.Context(), caller(1), d1), 0)
		h, no := w.Alter(t.Context(), new(caller(1)), d1)
		w.want("alter", no, 0)
		w.drop(h)
		w.empty()
	})
}

// A walk that ended otherwise: the lock is let go, and the ESTALE remembered.
func TestNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		w.reservation(1, d1)
		time.Sleep(returnTime + reapEvery)
		if w.locks.held() != 0 || w.Pending(d1.key()) {
			t.Fatal("the reservation stands")
		}
		other := w.locks.hold(d1, job(2))
		start := time.Now()
		w.want("a stat", w.Attributes(t.Context(), caller(1), d1), 0)
		w.wantAfter(start, 0)
		_, no := w.Alter(t.Context(), new(caller(1)), d1)
		w.want("second arrival after all", no, syscall.EBUSY)
		w.wantAfter(start, testLast)

		w.around(1, d1)
		time.Sleep(returnTime + memory + 2*reapEvery)
		w.around(1, d1) // forgotten by now
		w.drop(other)
		w.empty()
	})
}

// What happens to a ticket between two steps of its thread.
func TestTicketGoesMeanwhile(t *testing.T) {
	w := newWorld(t, Config{})
	other := w.locks.hold(d1, job(2))
	w.around(1, d1)
	tick := w.peek(1)
	if w.begin(tick, d1.Place(caller(1).Cred)) == nil {
		t.Fatal("nothing to wait for")
	}
	w.running.Done()
	if w.begin(tick, d1.Place(caller(1).Cred)) != nil {
		t.Error("it waits twice")
	}
	w.drop(other)
	if holds, again := w.arrive(1, []lock.Place{d1.Place(caller(1).Cred)}); holds != nil || !again {
		t.Error("it has a reservation")
	}
	w.want("reserve", w.reserve(tick, []*lock.Hold{w.locks.hold(d1, job(1))}), 0)
	w.forget(tick)
	if n := w.locks.held(); n != 0 {
		t.Errorf("%d held for nobody", n)
	}
	w.empty()
}
