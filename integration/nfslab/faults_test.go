package nfslab_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockfs/lockfs/integration/nfslab"
	"github.com/lockfs/lockfs/integration/nfslab/locker"
	"github.com/lockfs/lockfs/lock"
)

// patience is longer than the lease of 10 s, after which the server forgets a
// client that is silent: a lock must not be forgotten with it.
const patience = 25 * time.Second

// faulty is a world with an empty directory.
type faulty struct {
	*world
	a, b *client
	d    string
}

// power calls a method of a host and has it succeed.
func (w *world) power(f func(context.Context) error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	if err := f(ctx); err != nil {
		w.t.Fatal(err)
	}
}

// at is power for what needs no context.
func (w *world) at(f func() error) {
	w.t.Helper()
	w.power(func(context.Context) error { return f() })
}

// heldBy asserts that the lock stands, for a and as b sees it, as long as any
// lease would.
func (f *faulty) heldBy(holder *client, seenBy *client) {
	f.t.Helper()
	got := seenBy.ask("Take", locker.Request{Path: f.d, Job: 7, Wait: patience})
	if got.Errno != syscall.EBUSY || !strings.Contains(got.Err, holder.Name) {
		f.t.Errorf("%s waited %v for the lock of %s: %q, want EBUSY and its name", seenBy.Name, patience, holder.Name, got.Err)
	}
	if got := seenBy.must("Recover", locker.Request{Path: f.d}); got.Freed {
		f.t.Errorf("%s recovered the lock of %s", seenBy.Name, holder.Name)
	}
}

// waiting begins a take and returns when it has built its candidate.
func (f *faulty) waiting(c *client) *asked {
	f.t.Helper()
	a := c.begin("Take", locker.Request{Path: f.d, Job: 1, Wait: lock.Forever})
	until(f.t, "a candidate of "+c.Name, func() bool {
		return sh(f.t, f.lab.Server, "ls -A "+strings.Replace(f.d, "/mnt", "/export", 1)+" | grep -c lockfs.*"+c.Name+" || true") != "0"
	})
	return a
}

// reboot takes the server's power and gives it back.
func (w *world) reboot() {
	w.t.Helper()
	w.at(w.lab.Server.PowerOff)
	w.power(w.lab.Server.Boot)
}

var faults = []struct {
	name string
	run  func(*faulty)
}{
	{"the holder loses its power and returns", func(f *faulty) {
		f.a.take(f.d, 1)
		waiter := f.waiting(f.b)
		f.at(f.a.PowerOff)
		f.heldBy(f.a, f.b)
		f.power(f.a.Boot)
		if !waiter.pending() {
			f.t.Error("the lock was got before its host had recovered it")
		}
		f.a.start()
		if got := f.a.must("Recover", locker.Request{Path: f.d}); !got.Freed {
			f.t.Errorf("the host that returned recovered nothing: %+v", f.a.must("Status", locker.Request{Path: f.d}).Status)
		}
		f.b.release(f.d, waiter.answer().Hold)
	}},
	{"a waiter loses its power", func(f *faulty) {
		h := f.a.take(f.d, 1)
		f.waiting(f.b)
		f.at(f.b.PowerOff)
		f.a.release(f.d, h)
		f.a.release(f.d, f.a.take(f.d, 1))
		// Its candidate is its own host's to remove.
		f.power(f.b.Boot)
		f.b.start()
		f.b.must("Recover", locker.Request{Path: f.d})
	}},
	{"the holder is killed", func(f *faulty) {
		f.a.take(f.d, 1)
		f.a.kill()
		f.heldBy(f.a, f.b)
		f.a.start()
		f.a.release(f.d, f.a.take(f.d, 1))
		if !f.a.told(lock.EventRecovered) {
			f.t.Error("no recovery was told of")
		}
	}},
	{"the holder's host is paused", func(f *faulty) {
		h := f.a.take(f.d, 1)
		f.at(f.a.Pause)
		f.heldBy(f.a, f.b)
		f.at(f.a.Resume)
		f.a.must("Check", locker.Request{Path: f.d, Hold: h})
		f.a.release(f.d, h)
	}},
	{"the holder is cut off", func(f *faulty) {
		h := f.a.take(f.d, 1)
		f.at(f.a.Cut)
		f.heldBy(f.a, f.b)
		f.at(f.a.Join)
		f.a.must("Check", locker.Request{Path: f.d, Hold: h})
		f.a.release(f.d, h)
	}},
	{"a release is cut off", func(f *faulty) {
		h := f.a.take(f.d, 1)
		f.at(f.a.Cut)
		release := f.a.begin("Release", locker.Request{Path: f.d, Hold: h})
		f.heldBy(f.a, f.b)
		f.at(f.a.Join)
		release.answer()
	}},
	{"a waiter is cut off", func(f *faulty) {
		h := f.a.take(f.d, 1)
		waiter := f.waiting(f.b)
		f.at(f.b.Cut)
		f.a.release(f.d, h)
		f.a.release(f.d, f.a.take(f.d, 1))
		f.at(f.b.Join)
		f.b.release(f.d, waiter.answer().Hold)
	}},
	{"a wait ends while cut off", func(f *faulty) {
		f.b.release(f.d, f.b.take(f.d, 1))
		f.at(f.b.Cut)
		got := f.b.ask("Take", locker.Request{Path: f.d, Job: 1, Wait: 5 * time.Second})
		if got.Errno != syscall.ETIMEDOUT {
			f.t.Errorf("a wait of 5 s without the server: %q, want ETIMEDOUT", got.Err)
		}
		f.at(f.b.Join)
		// What succeeds late is let go again.
		f.a.release(f.d, f.a.take(f.d, 1))
	}},
	{"the server reboots before a take", func(f *faulty) {
		f.a.release(f.d, f.a.take(f.d, 1))
		f.at(f.lab.Server.PowerOff)
		take := f.a.begin("Take", locker.Request{Path: f.d, Job: 1, Wait: lock.Forever})
		f.power(f.lab.Server.Boot)
		f.a.release(f.d, take.answer().Hold)
	}},
	{"the server reboots under a holder and a waiter", func(f *faulty) {
		h := f.a.take(f.d, 1)
		waiter := f.waiting(f.b)
		f.reboot()
		f.a.must("Check", locker.Request{Path: f.d, Hold: h})
		if !waiter.pending() {
			f.t.Error("the waiter has an answer while the lock is held")
		}
		f.a.release(f.d, h)
		f.b.release(f.d, waiter.answer().Hold)
	}},
	{"the server reboots before a release", func(f *faulty) {
		h := f.a.take(f.d, 1)
		waiter := f.waiting(f.b)
		f.at(f.lab.Server.PowerOff)
		release := f.a.begin("Release", locker.Request{Path: f.d, Hold: h})
		f.power(f.lab.Server.Boot)
		release.answer()
		f.b.release(f.d, waiter.answer().Hold)
	}},
	{"nfsd restarts under a holder and a waiter", func(f *faulty) {
		h := f.a.take(f.d, 1)
		waiter := f.waiting(f.b)
		f.power(f.lab.RestartNFSD)
		f.a.must("Check", locker.Request{Path: f.d, Hold: h})
		f.a.release(f.d, h)
		f.b.release(f.d, waiter.answer().Hold)
	}},
	{"an operator breaks the lock of a host that lives", func(f *faulty) {
		h := f.a.take(f.d, 1)
		s := f.b.must("Status", locker.Request{Path: f.d}).Status
		f.b.must("Break", locker.Request{Path: f.d, Record: s.Record})
		next := f.b.take(f.d, 1)
		if got := f.a.ask("Check", locker.Request{Path: f.d, Hold: h}); got.Errno != syscall.EIO {
			f.t.Errorf("the check of a broken lock: %q, want EIO", got.Err)
		}
		until(f.t, "the loss is told of", func() bool { return f.a.told(lock.EventLost) })
		f.a.ask("Release", locker.Request{Path: f.d, Hold: h})
		f.b.must("Check", locker.Request{Path: f.d, Hold: next})
		f.b.release(f.d, next)
	}},
}

// TestFaults has hosts, links and programs fail over the lock: it stands while
// its holder lives, wherever he is, and is taken back by his host alone.
func TestFaults(t *testing.T) {
	needMatrix(t)
	w := newWorld(t, nfslab.Config{})
	var table strings.Builder
	table.WriteString("| fault | seen | s |\n|---|---|---|\n")
	for i, fault := range faults {
		passed := t.Run(fault.name, func(t *testing.T) {
			outer := w.t
			w.t = t
			defer func() { w.t = outer }()
			name := w.unused("fault")
			w.dir(name)
			f := &faulty{world: w, a: w.c[i%2], b: w.c[1-i%2], d: "/mnt/" + name}
			began := time.Now()
			fault.run(f)
			w.clean()
			table.WriteString("| " + fault.name + " | ok | " + itoa(int(time.Since(began).Seconds())) + " |\n")
		})
		if !passed {
			table.WriteString("| " + fault.name + " | FAILED | |\n")
			break // the hosts are not what the next one expects
		}
	}
	report(t, "Faults", table.String())
}

// TestCountOverReboots has two hosts count under the lock while the server
// fails again and again.
func TestCountOverReboots(t *testing.T) {
	needMatrix(t)
	w := newWorld(t, nfslab.Config{})
	var text strings.Builder
	text.WriteString("Two hosts count under the lock, while nfsd is restarted and then the server twice loses its power.\n\n| NFS | counted |\n|---|---|\n")
	for _, version := range []string{"4.2", "4.0", "3"} {
		t.Run(version, func(t *testing.T) {
			outer := w.t
			w.t = t
			defer func() { w.t = outer }()
			const n = 40
			name, root := w.unused("reboots"), "/m/"+w.unused("m")
			sh(t, w.lab.Server, "mkdir -m 777 /export/"+name+" && cd /export/"+name+" && echo 0 >count && chmod 666 count")
			var all []*asked
			for _, c := range w.c {
				w.power(func(ctx context.Context) error { return c.Mount(ctx, w.lab.Server, version, "hard", root) })
				all = append(all, c.begin("Count", locker.Request{Path: root + "/" + name, N: n, Wait: lock.Forever}))
			}
			count := func() string { return sh(t, w.lab.Server, "cat /export/"+name+"/count") }
			for _, fail := range []func(){func() { w.power(w.lab.RestartNFSD) }, w.reboot, w.reboot} {
				before := count()
				until(t, "the count goes on", func() bool { return count() != before || !all[0].pending() && !all[1].pending() })
				fail()
			}
			for _, one := range all {
				one.answer()
			}
			got := count()
			if got != itoa(n*len(w.c)) {
				t.Errorf("counted to %s, not %d", got, n*len(w.c))
			}
			w.clean()
			text.WriteString("| " + version + " | " + got + " of " + itoa(n*len(w.c)) + " |\n")
		})
	}
	report(t, "Server failures under load", text.String())
}

// TestCloned has two hosts share a machine-id: neither ever takes the other's
// lock for that of a dead process of its own, and both say what is wrong.
func TestCloned(t *testing.T) {
	needMatrix(t)
	w := newWorld(t, nfslab.Config{Cloned: true})
	name := w.unused("cloned")
	w.dir(name)
	ids := [2]locker.Reply{w.c[0].must("Who", locker.Request{}), w.c[1].must("Who", locker.Request{})}
	if ids[0].ID.Machine != ids[1].ID.Machine || ids[0].ID.Fingerprint == ids[1].ID.Fingerprint {
		t.Fatalf("the hosts are no clones, or can't be told apart: %+v, %+v", ids[0].ID, ids[1].ID)
	}
	for i := range w.c {
		f := &faulty{world: w, a: w.c[i], b: w.c[1-i], d: "/mnt/" + name}
		f.a.take(f.d, 1)
		f.heldBy(f.a, f.b)
		if !f.b.told(lock.EventCloned) {
			t.Errorf("%s does not say that its machine-id is shared", f.b.Name)
		}
		// Dead, it is its own host's to recover, and nobody's else.
		f.at(f.a.PowerOff)
		f.heldBy(f.a, f.b)
		f.power(f.a.Boot)
		f.a.start()
		if got := f.a.must("Recover", locker.Request{Path: f.d}); !got.Freed {
			t.Errorf("%s did not recover its own lock: %+v", f.a.Name, f.a.must("Status", locker.Request{Path: f.d}).Status)
		}
	}
	w.clean()
	if !t.Failed() {
		report(t, "Clones", "Two hosts with one machine-id: each waited "+patience.String()+" for the other's lock, while its holder lived and while it had no power, said that the machine-id is shared, and recovered nothing but its own.")
	}
}

// TestSoft has a soft mount give up in the middle: whatever the outcome, the
// error says so, and no lock is left.
func TestSoft(t *testing.T) {
	needMatrix(t)
	w := newWorld(t, nfslab.Config{Options: "soft,timeo=10,retrans=1"})
	name := w.unused("soft")
	w.dir(name)
	f := &faulty{world: w, a: w.c[0], b: w.c[1], d: "/mnt/" + name}
	f.a.release(f.d, f.a.take(f.d, 1))
	f.at(f.a.Cut)
	cut := f.a.ask("Take", locker.Request{Path: f.d, Job: 1, Wait: lock.Forever})
	if cut.Errno == 0 || cut.Errno == syscall.EBUSY {
		t.Errorf("a take without the server: %v (%q)", cut.Errno, cut.Err)
	}
	f.at(f.a.Join)
	f.b.release(f.d, f.b.take(f.d, 1))
	h := f.a.take(f.d, 1)
	f.at(f.a.Cut)
	release := f.a.begin("Release", locker.Request{Path: f.d, Hold: h})
	got := f.b.ask("Take", locker.Request{Path: f.d, Job: 1, Wait: patience})
	if got.Errno != syscall.EBUSY {
		t.Errorf("the lock of a host that is cut off: %q, want EBUSY", got.Err)
	}
	f.at(f.a.Join)
	release.answer()
	w.clean()
	if !t.Failed() {
		report(t, "Soft mounts", "A take over a soft mount (timeo=10,retrans=1) that is cut off: "+cut.Errno.Error()+". A release that is cut off leaves the lock held until it gets through. Nothing was left.")
	}
}
