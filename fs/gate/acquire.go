package gate

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// lookAgain is how often a caller's signals are looked at after one that does
// not end its wait: the kernel tells of the first one only.
const lookAgain = 200 * time.Millisecond

// try is acquire without a wait. A caller who has a virtual file of a held
// lock open is then of the job that opened it, in reqs too.
func (g *Gate) try(ctx context.Context, tid int, reqs []lock.Request) ([]*lock.Hold, error) {
	holds, err := g.acquire(ctx, tid, reqs, 0)
	if !isHeld(err) || !g.adopt(tid, reqs) {
		return holds, err
	}
	if len(reqs) == 2 && reqs[0].Job != reqs[1].Job {
		// Each lock is held through a descriptor of the caller's, by a job of
		// its own: both are to be had without a wait.
		holds, err = g.acquire(ctx, tid, reqs[:1], 0)
		if err == nil {
			var more []*lock.Hold
			if more, err = g.acquire(ctx, tid, reqs[1:], 0); err == nil {
				return append(holds, more...), nil
			}
			g.release(holds)
		}
		reqs[1].Job = reqs[0].Job
		return nil, err
	}
	return g.acquire(ctx, tid, reqs, 0)
}

// await is try, and then a wait.
func (g *Gate) await(ctx context.Context, tid int, reqs []lock.Request, wait time.Duration) ([]*lock.Hold, error) {
	holds, err := g.try(ctx, tid, reqs)
	if isHeld(err) && wait != 0 {
		holds, err = g.acquire(ctx, tid, reqs, wait)
	}
	return holds, err
}

// acquire takes the locks of one or two requests, or none, and waits no
// longer than wait if another job holds one. A signal that ends a wait gives
// EINTR, the gate's end lock.ErrClosed.
func (g *Gate) acquire(ctx context.Context, tid int, reqs []lock.Request, wait time.Duration) ([]*lock.Hold, error) {
	ctx, end := g.patience(ctx, tid)
	defer end()
	for i := range reqs {
		reqs[i].Wait = wait
	}
	var holds []*lock.Hold
	var err error
	if len(reqs) == 1 {
		var h *lock.Hold
		h, err = g.locks.Acquire(ctx, reqs[0])
		holds = []*lock.Hold{h}
	} else {
		var a, b *lock.Hold
		a, b, err = g.locks.AcquireBoth(ctx, reqs[0], reqs[1])
		holds = []*lock.Hold{a, b}
	}
	if err == nil {
		return holds, nil
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	return nil, err
}

// Patience returns a context that does not end with ctx, which ends at any
// signal, but when a signal of the thread tid ends a wait; its cause is EINTR
// then. The caller calls end.
func Patience(ctx context.Context, tid int) (patient context.Context, end func()) {
	patient, cancel := patience(ctx, func() bool { return procid.EndsWait(tid) })
	return patient, func() { cancel(nil) }
}

// patience is Patience, with another way to say that a signal ends the wait.
// The caller calls cancel.
func patience(ctx context.Context, endsWait func() bool) (patient context.Context, cancel context.CancelCauseFunc) {
	patient, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		for !endsWait() {
			select {
			case <-patient.Done():
				return
			case <-time.After(lookAgain):
			}
		}
		end(syscall.EINTR)
	})
	return patient, func(cause error) {
		stop()
		end(cause)
	}
}

// patience is the context of a wait of the thread tid, which ends with the gate
// as well. The caller calls end.
func (g *Gate) patience(ctx context.Context, tid int) (patient context.Context, end func()) {
	patient, cancel := patience(ctx, func() bool { return g.host.endsWait(tid) })
	stop := context.AfterFunc(g.closing, func() { cancel(lock.ErrClosed) })
	return patient, func() {
		stop()
		cancel(nil)
	}
}
