package gate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockfs/lockfs/internal/cred"
	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// fakeHold is a hold that the fake manager can tell from others.
type fakeHold struct {
	lock.Hold
	key  lock.Key
	job  procid.Job
	lost bool
}

// fakeLocks is a lock manager without a server: jobs share, others wait.
type fakeLocks struct {
	mu      sync.Mutex
	owner   map[lock.Key]procid.Job
	holds   map[*lock.Hold]*fakeHold
	changed chan struct{} // closed at every release
	// fail, if set, is asked first.
	fail func(r lock.Request) error
	// late grants a lock though the context ended while it was taken.
	late bool
	// calls counts the requests by their wait.
	calls map[time.Duration]int
	waits int
	twice bool // a hold was released twice
}

func newFakeLocks() *fakeLocks {
	return &fakeLocks{
		owner: make(map[lock.Key]procid.Job), holds: make(map[*lock.Hold]*fakeHold),
		changed: make(chan struct{}), calls: make(map[time.Duration]int),
	}
}

func (f *fakeLocks) grant(r lock.Request, job procid.Job) *lock.Hold {
	h := &fakeHold{key: r.Place.Key, job: job}
	f.owner[h.key] = job
	f.holds[&h.Hold] = h
	return &h.Hold
}

func (f *fakeLocks) take(ctx context.Context, rs ...lock.Request) ([]*lock.Hold, error) {
	job, wait := rs[0].Job, rs[0].Wait
	var limit <-chan time.Time
	if wait > 0 {
		limit = time.After(wait)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[wait]++
	for {
		var held error
		for _, r := range rs {
			if f.fail != nil {
				if err := f.fail(r); err != nil {
					return nil, err
				}
			}
			if by, ok := f.owner[r.Place.Key]; ok && by != job {
				held = &lock.HeldError{Path: r.Place.Path, By: by.String()}
			}
		}
		if held == nil {
			var out []*lock.Hold
			for _, r := range rs {
				out = append(out, f.grant(r, job))
			}
			return out, nil
		}
		if wait == 0 {
			return nil, held
		}
		changed := f.changed
		f.waits++
		f.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-limit:
			err = held
		case <-ctx.Done():
			err = ctx.Err()
		}
		f.mu.Lock()
		f.waits--
		if err == ctx.Err() && err != nil && f.late {
			for _, r := range rs {
				delete(f.owner, r.Place.Key)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
	}
}

func (f *fakeLocks) Acquire(ctx context.Context, r lock.Request) (*lock.Hold, error) {
	hs, err := f.take(ctx, r)
	if err != nil {
		return nil, err
	}
	return hs[0], nil
}

func (f *fakeLocks) AcquireBoth(ctx context.Context, a, b lock.Request) (*lock.Hold, *lock.Hold, error) {
	hs, err := f.take(ctx, a, b)
	if err != nil {
		return nil, nil, err
	}
	return hs[0], hs[1], nil
}

func (f *fakeLocks) release(h *lock.Hold) {
	f.mu.Lock()
	defer f.mu.Unlock()
	hold, ok := f.holds[h]
	if !ok {
		f.twice = true
		return
	}
	delete(f.holds, h)
	for _, other := range f.holds {
		if other.key == hold.key {
			return
		}
	}
	delete(f.owner, hold.key)
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeLocks) lost(h *lock.Hold) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.holds[h].lost
}

// lose takes away every lock.
func (f *fakeLocks) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.holds {
		h.lost = true
	}
	clear(f.owner)
}

// hold lets job hold the directory.
func (f *fakeLocks) hold(d dir, job procid.Job) *lock.Hold {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.grant(lock.Request{Place: d.Place(cred.Cred{})}, job)
}

func (f *fakeLocks) held() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.holds)
}

func (f *fakeLocks) waiters() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waits
}

// dir is a directory by its inode number.
type dir uint64

func (d dir) Place(cred.Cred) lock.Place {
	return lock.Place{Key: lock.Key{Dev: 1, Ino: uint64(d)}, Path: fmt.Sprintf("/d%d", d)}
}

// fakeHost knows threads by their ids. Each has the job of its user, who has
// the number of the thread unless another is given.
type fakeHost struct {
	mu     sync.Mutex
	start  map[int]uint64 // 0: as it was born
	dead   map[int]bool
	signal map[int]bool
	open   map[int][]uint64
	looks  int
}

func newFakeHost() *fakeHost {
	return &fakeHost{start: make(map[int]uint64), dead: make(map[int]bool), signal: make(map[int]bool), open: make(map[int][]uint64)}
}

func (h *fakeHost) do(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// fakeView shows every thread as a process, each user's of one job.
type fakeView int

func (h *fakeHost) look(tid int) view { return fakeView(tid) }

func (v fakeView) Job(_ procid.JobPolicy, uid uint32) (procid.Job, error) {
	if v == 0 {
		return procid.JobOf(procid.BySession, 0, uid)
	}
	return procid.JobOf(procid.ByUser, int(v), uid)
}

func (v fakeView) Alone() bool { return true }

func (v fakeView) Program() (string, int, error) {
	if v == 0 {
		return "", 0, procid.ErrUnseen
	}
	return "prog", int(v), nil
}

func (h *fakeHost) find(tid int) (t procid.Thread, err error) {
	h.do(func() {
		t = procid.Thread{TID: tid, Start: h.start[tid]}
		if tid == 0 || h.dead[tid] {
			t, err = procid.Thread{}, procid.ErrUnseen
		}
	})
	return t, err
}

func (h *fakeHost) alive(t procid.Thread) (alive bool) {
	h.do(func() { alive = !h.dead[t.TID] && h.start[t.TID] == t.Start })
	return alive
}

func (h *fakeHost) endsWait(tid int) (ends bool) {
	h.do(func() { h.looks++; ends = tid == 0 || h.dead[tid] || h.signal[tid] })
	return ends
}

func (h *fakeHost) hasOpen(tid int, dev, ino uint64) (open bool) {
	h.do(func() { open = dev == 7 && slices.Contains(h.open[tid], ino) })
	return open
}

// world is a gate with fakes around it.
type world struct {
	t *testing.T
	*Gate
	locks *fakeLocks
	host  *fakeHost
}

const (
	testWait = time.Minute
	testLast = 3 * time.Second
)

func newWorld(t *testing.T, c Config) *world {
	t.Helper()
	if c.Wait == 0 {
		c.Wait = testWait
	}
	if c.LastResort == 0 {
		c.LastResort = testLast
	}
	w := &world{t: t, locks: newFakeLocks(), host: newFakeHost()}
	w.Gate = newGate(c, w.locks, w.host, number)
	return w
}

// empty checks that the gate keeps nothing and closes it.
func (w *world) empty() {
	w.t.Helper()
	w.Close()
	w.locks.mu.Lock()
	defer w.locks.mu.Unlock()
	if n := len(w.locks.holds); n != 0 || w.locks.twice {
		w.t.Errorf("%d holds are left, or one was released twice (%v)", n, w.locks.twice)
	}
	if len(w.tickets) != 0 || len(w.expected) != 0 || len(w.virtual) != 0 {
		w.t.Errorf("left in the gate: %d tickets, %d expected, %d virtual", len(w.tickets), len(w.expected), len(w.virtual))
	}
}

func (w *world) drop(h ...*lock.Hold) { w.Gate.release(h) }

// caller is the thread tid of the user with the same number.
func caller(tid int) Caller { return Caller{TID: tid, Cred: cred.Cred{UID: uint32(tid)}} }

func job(uid uint32) procid.Job {
	j, _ := procid.JobOf(procid.ByUser, 1, uid)
	return j
}

func (w *world) want(what string, got, want syscall.Errno) {
	w.t.Helper()
	if got != want {
		w.t.Fatalf("%s: errno %d (%v), want %d", what, got, got, want)
	}
}

// wantAfter checks the time that has passed since start, in a bubble.
func (w *world) wantAfter(start time.Time, want time.Duration) {
	w.t.Helper()
	if d := time.Since(start); d != want {
		w.t.Errorf("after %v, want %v", d, want)
	}
}

// around sends the thread around for d.
func (w *world) around(tid int, d dir) {
	w.t.Helper()
	_, no := w.Alter(w.t.Context(), new(caller(tid)), d)
	w.want("first arrival", no, syscall.ESTALE)
}
