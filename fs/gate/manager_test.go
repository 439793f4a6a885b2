package gate

import (
	"context"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockfs/lockfs/internal/cred"
	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// tree is a directory on disk.
type tree string

func (p tree) Place(c cred.Cred) lock.Place {
	var st syscall.Stat_t
	if err := syscall.Stat(string(p), &st); err != nil {
		panic(err)
	}
	return lock.Place{
		Key: lock.Key{Dev: st.Dev, Ino: st.Ino}, Path: string(p),
		Open: func() (lock.Dir, error) { return lock.OpenPath(string(p), c) },
	}
}

// The gate with the lock manager, real directories and real threads: two jobs
// at a time, of which one is sent around, exclude each other in one directory
// and in two, and leave nothing behind.
func TestWithTheManager(t *testing.T) {
	self, err := procid.Self()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("the locks need this machine's identity (systemd-machine-id-setup, or LOCKFS_HOST_ID): %v", err)
	}
	m := lock.NewManager(lock.Config{Self: self})
	g := New(Config{Locks: m, Jobs: procid.ByUser, Wait: lock.Forever, LastResort: time.Minute})
	a, b := tree(t.TempDir()), tree(t.TempDir())

	var inside [2]sync.Mutex // locked by who is in the directory
	enter := func(i int) {
		if !inside[i].TryLock() {
			t.Errorf("two jobs are in directory %d", i)
			inside[i].Lock()
		}
	}
	var wg sync.WaitGroup
	for n := range 4 {
		p := stopped(t)
		c := Caller{TID: p.Process.Pid, Cred: cred.Cred{UID: uint32(n)}}
		dirs := []tree{a, b}
		if n%2 == 1 {
			dirs = []tree{b, a}
		}
		wg.Go(func() {
			for i := range 10 {
				ha, hb, no := g.AlterBoth(t.Context(), new(c), dirs[0], dirs[1])
				if no == syscall.ESTALE {
					if no = g.Attributes(t.Context(), c, dirs[i%2]); no == 0 {
						ha, hb, no = g.AlterBoth(t.Context(), new(c), dirs[0], dirs[1])
					}
				}
				if no != 0 {
					t.Errorf("both: %v", no)
					return
				}
				enter(0)
				enter(1)
				inside[0].Unlock()
				inside[1].Unlock()
				g.release([]*lock.Hold{ha, hb})

				h, no := g.Open(t.Context(), c, dirs[0])
				if no != 0 {
					t.Errorf("open: %v", no)
					return
				}
				enter(n % 2)
				inside[n%2].Unlock()
				h.Release()
			}
		})
	}
	wg.Wait()

	// A reservation that was made and not used ends with the gate.
	h, no := g.Open(t.Context(), Caller{TID: os.Getpid()}, a)
	if no != 0 {
		t.Fatal(no)
	}
	p := stopped(t)
	c := Caller{TID: p.Process.Pid, Cred: cred.Cred{UID: 1}}
	if _, no = g.Alter(t.Context(), new(c), a); no != syscall.ESTALE {
		t.Fatalf("first arrival: %v", no)
	}
	h.Release()
	if no = g.Attributes(t.Context(), c, a); no != 0 {
		t.Fatalf("attributes: %v", no)
	}
	g.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := m.Close(ctx); err != nil {
		t.Error(err)
	}
	for _, d := range []tree{a, b} {
		if left, err := os.ReadDir(string(d)); err != nil || len(left) != 0 {
			t.Errorf("left in the tree: %v, %v", left, err)
		}
	}
}
