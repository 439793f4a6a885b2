package gate

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockfs/lockfs/lock"
)

// waits are the three places where a request waits; each is called with the
// lock of d1 held by another.
var waits = map[string]func(w *world, ctx context.Context) (*lock.Hold, syscall.Errno){
	"open": func(w *world, ctx context.Context) (*lock.Hold, syscall.Errno) { return w.Open(ctx, caller(1), d1) },
	"alter": func(w *world, ctx context.Context) (*lock.Hold, syscall.Errno) {
		w.around(1, d1)
		return w.Alter(ctx, new(caller(1)), d1)
	},
	"attributes": func(w *world, ctx context.Context) (*lock.Hold, syscall.Errno) {
		w.around(1, d1)
		return nil, w.Attributes(ctx, caller(1), d1)
	},
}

func eachWait(t *testing.T, f func(w *world, other *lock.Hold, wait func(context.Context) (*lock.Hold, syscall.Errno))) {
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Config{Wait: lock.Forever, LastResort: time.Hour})
				other := w.locks.hold(d1, job(2))
				f(w, other, func(ctx context.Context) (*lock.Hold, syscall.Errno) { return wait(w, ctx) })
				w.empty()
			})
		})
	}
}

func TestInterrupted(t *testing.T) {
	eachWait(t, func(w *world, other *lock.Hold, wait func(context.Context) (*lock.Hold, syscall.Errno)) {
		ctx, interrupt := context.WithCancel(w.t.Context())
		start := time.Now()
		time.AfterFunc(time.Second, func() {
			w.host.do(func() { w.host.signal[1] = true })
			interrupt()
		})
		_, no := wait(ctx)
		w.want("wait", no, syscall.EINTR)
		w.wantAfter(start, time.Second)
		if w.locks.held() != 1 || w.Pending(d1.key()) {
			w.t.Error("something is left")
		}
		w.drop(other)
	})
}

// The kernel tells of the first signal only, and that one did not end the
// wait. The kill that follows does.
func TestIgnoredSignalThenKill(t *testing.T) {
	eachWait(t, func(w *world, other *lock.Hold, wait func(context.Context) (*lock.Hold, syscall.Errno)) {
		ctx, interrupt := context.WithCancel(w.t.Context())
		interrupt()
		start := time.Now()
		time.AfterFunc(time.Minute+time.Millisecond, func() { w.host.do(func() { w.host.signal[1] = true }) })
		_, no := wait(ctx)
		w.want("wait", no, syscall.EINTR)
		if d := time.Since(start) - time.Minute; d <= 0 || d > lookAgain {
			w.t.Errorf("ended %v after the signal", d)
		}
		w.drop(other)
	})
}

func TestIgnoredSignalThenGranted(t *testing.T) {
	eachWait(t, func(w *world, other *lock.Hold, wait func(context.Context) (*lock.Hold, syscall.Errno)) {
		ctx, interrupt := context.WithCancel(w.t.Context())
		interrupt()
		time.AfterFunc(time.Minute, func() { w.drop(other) })
		h, no := wait(ctx)
		w.want("wait", no, 0)
		if h == nil {
			h, no = w.Alter(ctx, new(caller(1)), d1)
			w.want("second arrival", no, 0)
		}
		w.drop(h)
		// Nobody looks at the signals of a wait that is over.
		synctest.Wait()
		looks := w.host.looks
		time.Sleep(time.Minute)
		if w.host.looks != looks {
			w.t.Error("the caller's signals are still looked at")
		}
	})
}

// The lock is granted and the wait interrupted at one moment: the operation
// may have it, a reservation may not stand for nobody.
func TestGrantedAndInterrupted(t *testing.T) {
	eachWait(t, func(w *world, other *lock.Hold, wait func(context.Context) (*lock.Hold, syscall.Errno)) {
		w.locks.late = true
		ctx, interrupt := context.WithCancel(w.t.Context())
		time.AfterFunc(time.Second, func() {
			w.host.do(func() { w.host.signal[1] = true })
			interrupt()
		})
		h, no := wait(ctx)
		if h != nil {
			w.want("wait", no, 0)
			w.drop(h)
		} else {
			w.want("wait", no, syscall.EINTR)
		}
		w.locks.mu.Lock()
		delete(w.locks.holds, other) // late has taken it away
		w.locks.mu.Unlock()
		if n := w.locks.held(); n != 0 {
			w.t.Errorf("%d held", n)
		}
	})
}

// Signals and grants in every order, many times, as the scheduler likes.
func TestGrantRacesInterrupt(t *testing.T) {
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			for range 300 {
				w := newWorld(t, Config{Wait: lock.Forever, LastResort: time.Hour})
				other := w.locks.hold(d1, job(2))
				ctx, interrupt := context.WithCancel(t.Context())
				w.host.signal[1] = true
				go interrupt()
				go w.drop(other)
				h, no := func() (*lock.Hold, syscall.Errno) {
					defer interrupt()
					if name == "open" {
						return wait(w, ctx)
					}
					// The first arrival may find the lock free.
					if h, no := w.Alter(ctx, new(caller(1)), d1); no != syscall.ESTALE {
						return h, no
					}
					if name == "alter" {
						return w.Alter(ctx, new(caller(1)), d1)
					}
					return nil, w.Attributes(ctx, caller(1), d1)
				}()
				if no != 0 && no != syscall.EINTR {
					t.Fatal(no)
				}
				if h != nil {
					w.drop(h)
				}
				w.Close()
				for deadline := time.Now().Add(time.Minute); w.locks.held() > 0; time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatal("a hold has leaked")
					}
				}
				w.empty()
			}
		})
	}
}
