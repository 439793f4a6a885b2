package gate

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockfs/lockfs/lock"
)

// A command under "lockfs run" may be of another session, but has the
// descriptor.
func TestDescriptorIsOfItsJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		start := time.Now()
		_, done, no := w.OpenVirtual(t.Context(), caller(1), d1, 7, 70)
		w.want("virtual", no, 0)
		w.host.open[2] = []uint64{70}
		h, no := w.Alter(t.Context(), new(caller(2)), d1)
		w.want("alter", no, 0)
		w.drop(h)
		h, no = w.Open(t.Context(), caller(2), d1)
		w.want("open", no, 0)
		w.drop(h)
		// Opening it anew, as a nested run does, gives the same job.
		_, nested, no := w.OpenVirtual(t.Context(), caller(2), d1, 7, 70)
		w.want("nested", no, 0)
		done()
		w.host.open[3] = []uint64{70}
		h, no = w.Open(t.Context(), caller(3), d1)
		w.want("open under the nested", no, 0)
		w.drop(h)
		// Only one of two directories is held so.
		a, b, no := w.AlterBoth(t.Context(), new(caller(2)), d2, d1)
		w.want("both", no, 0)
		w.drop(a, b)
		w.wantAfter(start, 0)
		// Who has it not waits.
		_, no = w.Open(t.Context(), caller(4), d1)
		w.want("stranger", no, syscall.EBUSY)
		nested()
		nested()
		w.empty()
	})
}

// Two directories, each held through a descriptor by another job.
func TestDescriptorsOfTwoJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		w.host.open[3] = []uint64{70, 71}
		_, done1, no := w.OpenVirtual(t.Context(), caller(1), d1, 7, 70)
		w.want("first", no, 0)
		h2, done2, no := w.OpenVirtual(t.Context(), caller(2), d2, 7, 71)
		w.want("second", no, 0)
		a, b, no := w.AlterBoth(t.Context(), new(caller(3)), d1, d2)
		w.want("both", no, 0)
		w.drop(a, b)

		// The second is another's by now; done has not been called yet.
		w.locks.mu.Lock()
		w.locks.holds[h2].job = job(9)
		w.locks.owner[d2.key()] = job(9)
		w.locks.mu.Unlock()
		_, _, no = w.AlterBoth(t.Context(), new(caller(3)), d1, d2)
		w.want("both", no, syscall.ESTALE)
		if n := w.locks.held(); n != 2 {
			t.Errorf("%d held", n)
		}
		time.AfterFunc(time.Second, done2)
		w.want("attributes", w.Attributes(t.Context(), caller(3), d2), 0)
		a, b, no = w.AlterBoth(t.Context(), new(caller(3)), d1, d2)
		w.want("second arrival", no, 0)
		w.drop(a, b)
		done1()
		w.empty()
	})
}

// The descriptor comes into play between the ESTALE and the GETATTR.
func TestDescriptorFoundInAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Wait: lock.Forever})
		other := w.locks.hold(d1, job(5))
		w.around(2, d1)
		w.drop(other)
		_, done, no := w.OpenVirtual(t.Context(), caller(1), d1, 7, 70)
		w.want("virtual", no, 0)
		w.host.do(func() { w.host.open[2] = []uint64{70} })
		start := time.Now()
		w.want("attributes", w.Attributes(t.Context(), caller(2), d1), 0)
		w.wantAfter(start, 0)
		done()
		h, no := w.Alter(t.Context(), new(caller(2)), d1)
		w.want("alter", no, 0)
		w.drop(h)
		w.empty()
	})
}
