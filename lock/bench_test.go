package lock

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockfs/lockfs/internal/cred"
)

// recordingDir writes down each call that is a request to a server.
type recordingDir struct {
	Dir
	calls *calls
}

type calls struct {
	mu  sync.Mutex
	all []string
}

func (c *calls) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, name)
}

// take returns the calls since the last take.
func (c *calls) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	c.all = nil
	return all
}

func (d recordingDir) Mkdir(name string, mode fs.FileMode) error {
	d.calls.add("mkdir")
	return d.Dir.Mkdir(name, mode)
}

func (d recordingDir) Symlink(target, name string) error {
	d.calls.add("symlink")
	return d.Dir.Symlink(target, name)
}

func (d recordingDir) Rename(from, to string) error {
	d.calls.add("rename")
	return d.Dir.Rename(from, to)
}

func (d recordingDir) Unlink(name string) error {
	d.calls.add("unlink")
	return d.Dir.Unlink(name)
}

func (d recordingDir) Rmdir(name string) error {
	d.calls.add("rmdir")
	return d.Dir.Rmdir(name)
}

func (d recordingDir) List(name string) ([]string, error) {
	d.calls.add("list")
	return d.Dir.List(name)
}

func (d recordingDir) Refresh() error {
	d.calls.add("refresh")
	return d.Dir.Refresh()
}

// recorded is place, with its calls written down.
func recorded(tb testing.TB, path string) (Place, *calls) {
	c := &calls{}
	info, err := os.Stat(path)
	if err != nil {
		tb.Fatal(err)
	}
	return Place{
		Key:  keyOf(info),
		Path: path,
		Open: func() (Dir, error) {
			d, err := OpenPath(path, cred.Own())
			return recordingDir{d, c}, err
		},
	}, c
}

// A lock costs five requests, and each further try of a waiter three, of which
// one alone is needed to take it.
func TestRequests(t *testing.T) {
	dir := t.TempDir()
	h := newHost()
	one, two := newHolder(testID(1), h.judge), newHolder(testID(2), h.judge)
	p, c := recorded(t, dir)
	d, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	want := func(what, calls string) {
		t.Helper()
		if got := strings.Join(c.take(), " "); got != calls {
			t.Errorf("%s: %s, want %s", what, got, calls)
		}
	}
	a := one.newAttempt(d, Cause{})
	rec, err := a.try()
	if err != nil {
		t.Fatal(err)
	}
	want("a take", "mkdir symlink rename")
	b := two.newAttempt(d, Cause{})
	if _, err := b.try(); err != errHeld {
		t.Fatal(err)
	}
	want("a take of a held lock", "mkdir symlink rename")
	if _, err := b.try(); err != errHeld {
		t.Fatal(err)
	}
	want("a further try", "rename")
	if _, err := two.look(d); err != nil {
		t.Fatal(err)
	}
	want("a look", "refresh list")
	if stands, err := one.standing(d, rec); err != nil || !stands {
		t.Fatal(stands, err)
	}
	want("a check", "list")
	if err := one.release(d, rec); err != nil {
		t.Fatal(err)
	}
	want("a release", "unlink rmdir")
	if err := b.giveUp(); err != nil {
		t.Fatal(err)
	}
	want("giving up", "unlink rmdir")
}

// benchManager is a manager of a process of its own.
func benchManager(b *testing.B, h *host, pid int) *Manager {
	m := newManager(newHolder(testID(pid), h.judge), 0, nil)
	b.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return m
}

func BenchmarkTakeRelease(b *testing.B) {
	p, c := recorded(b, b.TempDir())
	m := benchManager(b, newHost(), 1)
	for b.Loop() {
		hold, err := m.Acquire(context.Background(), Request{Place: p, Wait: Forever})
		if err != nil {
			b.Fatal(err)
		}
		hold.Release()
		<-hold.t.ended
	}
	b.ReportMetric(float64(len(c.take()))/float64(b.N), "requests/op")
}

// The time from a release on one host until a waiter on another, which has
// waited for a while, has the lock.
func BenchmarkHandover(b *testing.B) {
	for _, waited := range []time.Duration{10 * time.Millisecond, time.Second} {
		b.Run(fmt.Sprintf("waited=%v", waited), func(b *testing.B) {
			dir := b.TempDir()
			h := newHost()
			one, two := benchManager(b, h, 1), benchManager(b, h, 2)
			p, _ := recorded(b, dir)
			var took []time.Duration
			for b.Loop() {
				hold, err := one.Acquire(context.Background(), Request{Place: p, Wait: Forever})
				if err != nil {
					b.Fatal(err)
				}
				got := make(chan time.Time)
				go func() {
					hold, err := two.Acquire(context.Background(), Request{Place: p, Wait: Forever})
					if err != nil {
						b.Error(err)
						close(got)
						return
					}
					got <- time.Now()
					hold.Release()
				}()
				time.Sleep(waited)
				released := time.Now()
				hold.Release()
				took = append(took, (<-got).Sub(released))
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1e3, "ms-median")
			b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "ms-p99")
		})
	}
}

// What a long wait costs the server, however many wait.
func BenchmarkLongWait(b *testing.B) {
	for _, waiters := range []int{1, 200} {
		b.Run(fmt.Sprintf("waiters=%d", waiters), func(b *testing.B) {
			h := newHost()
			p, c := recorded(b, b.TempDir())
			hold, err := benchManager(b, h, 1).Acquire(context.Background(), Request{Place: p})
			if err != nil {
				b.Fatal(err)
			}
			defer hold.Release()
			m := benchManager(b, h, 2)
			ctx, cancel := context.WithCancel(context.Background())
			var all sync.WaitGroup
			for range waiters {
				all.Go(func() { m.Acquire(ctx, Request{Place: p, Wait: Forever}) })
			}
			time.Sleep(4 * pauseMost) // until the pauses are at their longest
			c.take()
			began := time.Now()
			for b.Loop() {
				time.Sleep(time.Second)
			}
			b.ReportMetric(float64(len(c.take()))/time.Since(began).Seconds(), "requests/s")
			cancel()
			all.Wait()
		})
	}
}

// Ten thousand directories held at once.
func BenchmarkHeldLocks(b *testing.B) {
	const locks = 10_000
	dir := b.TempDir()
	var places []Place
	for i := range locks {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(path, 0o755); err != nil {
			b.Fatal(err)
		}
		p, _ := recorded(b, path)
		places = append(places, p)
	}
	m := benchManager(b, newHost(), 1)
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	for b.Loop() {
		before := heap()
		var holds []*Hold
		for _, p := range places {
			hold, err := m.Acquire(context.Background(), Request{Place: p})
			if err != nil {
				b.Fatal(err)
			}
			holds = append(holds, hold)
		}
		b.ReportMetric(float64(heap()-before)/locks, "B/lock")
		for _, hold := range holds {
			hold.Release()
		}
		for _, hold := range holds {
			<-hold.t.ended
		}
	}
}
