package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockfs/lockfs/internal/cred"
	"github.com/lockfs/lockfs/procid"
)

// host plays lockfs processes over real directories: its judge knows which of
// them have died.
type host struct {
	mu   sync.Mutex
	dead map[int]bool
}

func (h *host) die(pid int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dead[pid] = true
}

func (h *host) judge(id procid.ID) procid.Judgement {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case id.Machine != testID(1).Machine:
		return procid.Judgement{Verdict: procid.Foreign, Reason: "another machine"}
	case h.dead[id.PID]:
		return procid.Judgement{Verdict: procid.Dead, Reason: "no such process"}
	default:
		return procid.Judgement{Verdict: procid.Alive, Reason: "it lives"}
	}
}

func (h *host) manager(t *testing.T, pid int, linger time.Duration, events func(Event)) *Manager {
	m := newManager(newHolder(testID(pid), h.judge), linger, events)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return m
}

func newHost() *host { return &host{dead: map[int]bool{}} }

// job returns a job of its own, by a policy that tells users apart.
func job(t *testing.T, n int) procid.Job {
	t.Helper()
	j, err := procid.JobOf(procid.ByUser, os.Getpid(), uint32(n))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func keyOf(info os.FileInfo) Key {
	st := info.Sys().(*syscall.Stat_t)
	return Key{Dev: st.Dev, Ino: st.Ino}
}

func place(t *testing.T, path string) Place {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return Place{
		Key:  keyOf(info),
		Path: path,
		Open: func() (Dir, error) { return OpenPath(path, cred.Own()) },
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// eventually polls until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came: %s", what)
		}
	}
}

func acquire(t *testing.T, m *Manager, r Request) *Hold {
	t.Helper()
	h, err := m.Acquire(t.Context(), r)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return h
}

func TestHoldIsSharedByItsJob(t *testing.T) {
	d := t.TempDir()
	m := newHost().manager(t, 1, 0, nil)
	r := Request{Place: place(t, d), Job: job(t, 1), Wait: Forever}
	a, b := acquire(t, m, r), acquire(t, m, r)
	c := a.Share()
	record := names(t, d+"/.lockfs")
	if len(record) != 1 {
		t.Fatalf("the lock holds %q, want one record", record)
	}
	if err := a.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	a.Release()
	a.Release()
	b.Release()
	if got := names(t, d+"/.lockfs"); len(got) != 1 || got[0] != record[0] {
		t.Errorf("the lock changed under its last hold: %q", got)
	}
	c.Release()
	eventually(t, "an empty directory", func() bool { return len(names(t, d)) == 0 })
}

func TestAnotherJobIsHeld(t *testing.T) {
	d := t.TempDir()
	m := newHost().manager(t, 1, 0, nil)
	h := acquire(t, m, Request{Place: place(t, d), Job: job(t, 1), Wait: Forever})
	_, err := m.Acquire(t.Context(), Request{Place: place(t, d), Job: job(t, 2)})
	if !errors.Is(err, syscall.EBUSY) || Errno(err) != syscall.EBUSY {
		t.Errorf("without a wait: %v, want EBUSY", err)
	}
	_, err = m.Acquire(t.Context(), Request{Place: place(t, d), Job: job(t, 2), Wait: time.Millisecond})
	if !errors.Is(err, syscall.EBUSY) {
		t.Errorf("after its wait: %v, want EBUSY", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := m.Acquire(ctx, Request{Place: place(t, d), Job: job(t, 2), Wait: Forever})
		failed <- err
	}()
	eventually(t, "a waiter", func() bool { return m.Contended(place(t, d).Key) })
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	h.Release()
	eventually(t, "an empty directory", func() bool { return len(names(t, d)) == 0 })
}

// Every process counts itself in and out; two inside at once are a violation.
func TestMutualExclusionOfProcesses(t *testing.T) {
	d := t.TempDir()
	h := newHost()
	var inside, entered atomic.Int32
	var wg sync.WaitGroup
	for pid := 1; pid <= 3; pid++ {
		m := h.manager(t, pid, 0, nil)
		for j := range 3 {
			r := Request{Place: place(t, d), Job: job(t, j), Wait: Forever}
			wg.Go(func() {
				for range 5 {
					hold, err := m.Acquire(t.Context(), r)
					if err != nil {
						t.Errorf("Acquire: %v", err)
						return
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d jobs hold one lock", n)
					}
					entered.Add(1)
					inside.Add(-1)
					hold.Release()
				}
			})
		}
	}
	wg.Wait()
	if n := entered.Load(); n != 3*3*5 {
		t.Errorf("%d takes, want %d", n, 3*3*5)
	}
	eventually(t, "an empty directory", func() bool { return len(names(t, d)) == 0 })
}

func TestDeadHolderIsRecovered(t *testing.T) {
	d := t.TempDir()
	h := newHost()
	gone := newHolder(testID(1), h.judge)
	dir, err := OpenPath(d, cred.Own())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if _, err := gone.newAttempt(dir, Cause{Program: "cp"}).try(); err != nil {
		t.Fatal(err)
	}
	// It left a candidate as well.
	if _, err := gone.newAttempt(dir, Cause{}).build(); err != nil {
		t.Fatal(err)
	}
	events := make(chan Event, 100)
	m := h.manager(t, 2, 0, odd(events))
	r := Request{Place: place(t, d), Job: job(t, 1)}
	if _, err := m.Acquire(t.Context(), r); !errors.Is(err, syscall.EBUSY) {
		t.Fatalf("while it lives: %v, want EBUSY", err)
	}
	eventually(t, "the lock and the one candidate", func() bool { return len(names(t, d)) == 2 })
	st, err := StatusOf(dir, d, h.judge)
	if err != nil || st.State != Held || st.PID != 1 || st.Cause.Program != "cp" || len(st.Candidates) != 1 {
		t.Errorf("StatusOf = %+v, %v", st, err)
	}
	h.die(1)
	if st, err := StatusOf(dir, d, h.judge); err != nil || st.State != Stale || st.Verdict != "dead" {
		t.Errorf("StatusOf = %+v, %v; want stale", st, err)
	}
	acquire(t, m, r).Release()
	if e := <-events; e.Kind != EventRecovered || e.Path != d || !strings.Contains(e.Holder, "1") {
		t.Errorf("told %+v, want that it was recovered", e)
	}
	eventually(t, "an empty directory", func() bool { return len(names(t, d)) == 0 })
}

// A directory that was removed beside lockfs has no lock any more: its holder has
// lost it, who tries to take it is told, and nothing is tried for ever.
func TestRemovedDirectory(t *testing.T) {
	d := t.TempDir() + "/D"
	if err := os.Mkdir(d, 0o755); err != nil {
		t.Fatal(err)
	}
	h := newHost()
	m := h.manager(t, 1, 0, nil)
	r := Request{Place: place(t, d), Job: job(t, 1), Wait: Forever}
	hold := acquire(t, m, r)
	a := newHolder(testID(2), h.judge).newAttempt(openDir(t, d), Cause{})
	if _, err := a.try(); !errors.Is(err, errHeld) {
		t.Fatalf("a try: %v, want %v", err, errHeld)
	}
	if err := os.RemoveAll(d); err != nil {
		t.Fatal(err)
	}
	if err := hold.Check(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("Check: %v, want %v", err, ErrLost)
	}
	hold.Release()
	eventually(t, "the end of the manager's work", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.entries) == 0
	})
	if _, err := a.try(); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("the next try: %v, want ENOENT", err)
	}
	if err := a.giveUp(); err != nil {
		t.Errorf("giving up: %v", err)
	}
}

// odd sends on what is no mere take, release or end of a wait.
func odd(to chan<- Event) func(Event) {
	return func(e Event) {
		switch e.Kind {
		case EventTook, EventReleased, EventGot, EventGaveUp:
		default:
			to <- e
		}
	}
}

func TestLostLockFencesItsHolds(t *testing.T) {
	d := t.TempDir()
	events := make(chan Event, 100)
	h := newHost()
	m := h.manager(t, 1, 0, odd(events))
	hold := acquire(t, m, Request{Place: place(t, d), Job: job(t, 1), Wait: Forever})
	if err := os.RemoveAll(filepath.Join(d, ".lockfs")); err != nil {
		t.Fatal(err)
	}
	other := acquire(t, h.manager(t, 2, 0, nil), Request{Place: place(t, d), Job: job(t, 2), Wait: Forever})
	record := names(t, d+"/.lockfs")
	if err := hold.Check(t.Context()); !errors.Is(err, ErrLost) || Errno(err) != syscall.EIO {
		t.Errorf("Check = %v, want ErrLost", err)
	}
	if e := <-events; e.Kind != EventLost || !strings.Contains(e.Holder, "process 2") {
		t.Errorf("told %+v, want who took the lock", e)
	}
	hold.Release()
	if got := names(t, d+"/.lockfs"); fmt.Sprint(got) != fmt.Sprint(record) {
		t.Errorf("the other's lock was touched: %q, want %q", got, record)
	}
	other.Release()
	eventually(t, "an empty directory", func() bool { return len(names(t, d)) == 0 })
}

func TestTwoDirectoriesByTwoJobs(t *testing.T) {
	root := t.TempDir()
	a, b := root+"/a", root+"/b"
	for _, d := range []string{a, b} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := newHost().manager(t, 1, 0, nil)
	var wg sync.WaitGroup
	for j, order := range [][2]string{{a, b}, {b, a}, {a, b}, {b, a}} {
		x, y := place(t, order[0]), place(t, order[1])
		mine := job(t, j)
		wg.Go(func() {
			for range 10 {
				h1, h2, err := m.AcquireBoth(t.Context(), Request{Place: x, Job: mine, Wait: Forever}, Request{Place: y})
				if err != nil {
					t.Errorf("AcquireBoth: %v", err)
					return
				}
				h1.Release()
				h2.Release()
			}
		})
	}
	wg.Wait()
	eventually(t, "empty directories", func() bool { return len(names(t, a))+len(names(t, b)) == 0 })
}

// crossed is two jobs of which each holds a directory, and of which the first
// waits for the second's. The test ends all of it.
func crossed(t *testing.T, m *Manager, one, two Request, a, b string) {
	t.Helper()
	at := func(r Request, dir string) Request {
		r.Place, r.Wait = place(t, dir), Forever
		return r
	}
	ha, hb := acquire(t, m, at(one, a)), acquire(t, m, at(two, b))
	first := make(chan error)
	go func() {
		h, err := m.Acquire(context.Background(), at(one, b))
		if err == nil {
			h.Release()
		}
		first <- err
	}()
	eventually(t, "a waiter", func() bool { return m.Contended(place(t, b).Key) })
	_, second := m.Acquire(t.Context(), at(two, a))
	if errors.Is(second, ErrDeadlock) {
		hb.Release()
	}
	err := <-first
	if errors.Is(err, ErrDeadlock) == errors.Is(second, ErrDeadlock) || Errno(errors.Join(err, second)) != syscall.EDEADLK {
		t.Errorf("the waits ended with %v and %v, want EDEADLK for one", err, second)
	}
	ha.Release()
	hb.Release()
}

// What a process without other threads holds is not released while it waits:
// that is told at once.
func TestProcessesInACircle(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	m := newHost().manager(t, 1, 0, nil)
	m.stuckAfter = time.Hour
	crossed(t, m, Request{Job: job(t, 1), Cause: Cause{PID: 11}, Alone: true},
		Request{Job: job(t, 2), Cause: Cause{PID: 12}, Alone: true}, a, b)
}

// Of other jobs it shows when nothing is done any more.
func TestJobsInACircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := t.TempDir(), t.TempDir()
		m := newHost().manager(t, 1, 0, nil)
		one, two := Request{Job: job(t, 1), Place: place(t, a)}, Request{Job: job(t, 2), Place: place(t, b)}
		ha, hb := acquire(t, m, one), acquire(t, m, two)
		one.Place, two.Place = two.Place, one.Place
		one.Wait, two.Wait = Forever, Forever
		ended := make(chan error, 2)
		for i, r := range []Request{one, two} {
			held := []*Hold{ha, hb}[i]
			go func() {
				h, err := m.Acquire(context.Background(), r)
				held.Release()
				if err == nil {
					h.Release()
				}
				ended <- err
			}()
		}
		if err := errors.Join(<-ended, <-ended); !errors.Is(err, ErrDeadlock) || len(err.(interface{ Unwrap() []error }).Unwrap()) != 1 {
			t.Errorf("the waits ended with %v, want EDEADLK for one", err)
		}
	})
}

// Jobs that wait for each other's locks are in no circle as long as some
// process of theirs goes on: it will release what the others wait for.
func TestBusyJobsAreInNoCircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := t.TempDir(), t.TempDir()
		m := newHost().manager(t, 1, 0, nil)
		one, two := Request{Job: job(t, 1), Place: place(t, a)}, Request{Job: job(t, 2), Place: place(t, b)}
		ha, hb := acquire(t, m, one), acquire(t, m, two)
		one.Place, two.Place = two.Place, one.Place
		one.Wait, two.Wait = Forever, Forever
		ended := make(chan error, 2)
		for _, r := range []Request{one, two} {
			go func() {
				h, err := m.Acquire(context.Background(), r)
				if err == nil {
					h.Release()
				}
				ended <- err
			}()
		}
		eventually(t, "both wait", func() bool { return m.Contended(one.Place.Key) && m.Contended(two.Place.Key) })
		for range 20 {
			time.Sleep(stuckAfter / 2)
			if err := errors.Join(ha.Err(), hb.Err()); err != nil {
				t.Fatal(err)
			}
		}
		ha.Release()
		hb.Release()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Errorf("the waits ended with %v", err)
		}
	})
}

func TestLingerEndsForAnotherJob(t *testing.T) {
	d := t.TempDir()
	m := newHost().manager(t, 1, time.Hour, nil)
	one := Request{Place: place(t, d), Job: job(t, 1), Wait: Forever}
	acquire(t, m, one).Release()
	record := fmt.Sprint(names(t, d+"/.lockfs"))
	h := acquire(t, m, one)
	if got := fmt.Sprint(names(t, d+"/.lockfs")); got != record {
		t.Errorf("the same job took the lock anew: %s, want %s", got, record)
	}
	h.Release()
	acquire(t, m, Request{Place: place(t, d), Job: job(t, 2)}).Release()
}

func TestVacateLeavesAnEmptyDirectory(t *testing.T) {
	d := t.TempDir()
	h := newHost()
	m := h.manager(t, 1, 0, nil)
	hold := acquire(t, m, Request{Place: place(t, d), Job: job(t, 1), Wait: Forever})
	dir, err := OpenPath(d, cred.Own())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	waiting := newHolder(testID(2), h.judge).newAttempt(dir, Cause{})
	if _, err := waiting.try(); !errors.Is(err, errHeld) {
		t.Fatalf("try = %v, want held", err)
	}
	if err := m.Vacate(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	if got := names(t, d); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
	hold.Release()
	// The waiter's candidate is gone: it builds another and takes the lock.
	r, err := waiting.try()
	if err != nil {
		t.Fatal(err)
	}
	if err := waiting.h.release(dir, r); err != nil {
		t.Fatal(err)
	}
	if got := names(t, d); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

func TestErrorsAreThemselves(t *testing.T) {
	d := t.TempDir()
	m := newHost().manager(t, 1, 0, nil)
	for _, c := range []struct {
		what string
		make func() error
	}{
		{"a file", func() error { return os.WriteFile(d+"/.lockfs", nil, 0o644) }},
		{"a symbolic link", func() error { return os.Symlink("/", d+"/.lockfs") }},
	} {
		if err := c.make(); err != nil {
			t.Fatal(err)
		}
		_, err := m.Acquire(t.Context(), Request{Place: place(t, d), Job: job(t, 1), Wait: Forever})
		if Errno(err) != syscall.ENOTDIR {
			t.Errorf("%s in place of the lock: %v, want ENOTDIR", c.what, err)
		}
		if err := os.Remove(d + "/.lockfs"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "an empty directory", func() bool { return len(names(t, d)) == 0 })
	}
}

func TestForeignLockIsLeftAlone(t *testing.T) {
	d := t.TempDir()
	h := newHost()
	foreign := testID(9)
	foreign.Machine = strings.Repeat("f", 32)
	dir, err := OpenPath(d, cred.Own())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	r, err := newHolder(foreign, h.judge).newAttempt(dir, Cause{}).try()
	if err != nil {
		t.Fatal(err)
	}
	h.die(9) // a process of the same number has died here
	m := h.manager(t, 1, 0, nil)
	_, err = m.Acquire(t.Context(), Request{Place: place(t, d), Job: job(t, 1)})
	var held *HeldError
	if !errors.As(err, &held) || !held.Remote {
		t.Errorf("Acquire = %v, want held by another host", err)
	}
	if got := names(t, d+"/.lockfs"); len(got) != 1 || got[0] != r.name() {
		t.Errorf("the foreign lock holds %q, want %q", got, r.name())
	}
}

func TestCloseReleasesWhatIsInUse(t *testing.T) {
	d := t.TempDir()
	m := newHost().manager(t, 1, 0, nil)
	hold := acquire(t, m, Request{Place: place(t, d), Job: job(t, 1), Wait: Forever})
	failed := make(chan error)
	go func() {
		_, err := m.Acquire(t.Context(), Request{Place: place(t, d), Job: job(t, 2), Wait: Forever})
		failed <- err
	}()
	eventually(t, "a waiter", func() bool { return m.Contended(place(t, d).Key) })
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Errorf("the waiter: %v, want ErrClosed", err)
	}
	if err := hold.Err(); !errors.Is(err, ErrClosed) {
		t.Errorf("Err = %v, want ErrClosed", err)
	}
	if got := names(t, d); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
	if _, err := m.Acquire(t.Context(), Request{Place: place(t, d), Job: job(t, 2)}); !errors.Is(err, ErrClosed) {
		t.Errorf("Acquire = %v, want ErrClosed", err)
	}
}

// While a lock can't be released, since its file system has become read-only,
// nobody waits for it: that may last for ever.
func TestReadOnlyWhileALockIsHeld(t *testing.T) {
	d := t.TempDir()
	var readOnly atomic.Bool
	p := place(t, d)
	open := p.Open
	p.Open = func() (Dir, error) {
		dir, err := open()
		return &unfit{Dir: dir, fault: fault{wrong: func(call string, _ int, do func() error) error {
			if readOnly.Load() {
				return syscall.EROFS
			}
			return do()
		}}}, err
	}
	m := newHost().manager(t, 1, 0, nil)
	h := acquire(t, m, Request{Place: p, Job: job(t, 1), Wait: Forever})
	readOnly.Store(true)
	h.Release()
	for n := range 3 {
		if _, err := m.Acquire(t.Context(), Request{Place: p, Job: job(t, n), Wait: Forever}); Errno(err) != syscall.EROFS {
			t.Errorf("job %d: %v, want EROFS", n, err)
		}
	}
	readOnly.Store(false)
	acquire(t, m, Request{Place: p, Job: job(t, 1), Wait: Forever}).Release()
	eventually(t, "the lock is gone", func() bool { return len(names(t, d)) == 0 })
}
