package nfslab_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockfs/lockfs/integration/nfslab"
	"github.com/lockfs/lockfs/integration/nfslab/locker"
	"github.com/lockfs/lockfs/lock"
)

// mounted is a world with lockfs mounted on two clients, and an empty directory.
type mounted struct {
	*world
	a, b *overlay
	d    string
}

// export is the directory as the server has it.
func (m *mounted) export() string { return "/export/" + m.d }

// has asserts what a file contains on the server.
func (m *mounted) has(file, want string) {
	m.t.Helper()
	if got := sh(m.t, m.lab.Server, "cat "+m.export()+"/"+file); got != want {
		m.t.Errorf("%s has %q on the server, want %q", file, got, want)
	}
}

// stays asserts that, for longer than any lease, the waiter on b waits for the
// lock of a, while readers beside it are answered.
func (m *mounted) stays(waiter *writing) {
	m.t.Helper()
	// What is shown is that a time passes in which nothing happens.
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Second) {
		if got := m.b.must(m.d, "ls >/dev/null && cat kept"); got != "kept" {
			m.t.Errorf("a reader beside the waiter reads %q", got)
		}
		if !waiter.waits() {
			m.t.Fatalf("%s got the lock of %s: %s", m.b.Name, m.a.Name, m.b.log())
		}
	}
	if s := m.b.status(m.d); s.State != lock.Held || s.Host != m.a.Name {
		m.t.Errorf("the lock is %+v, want held by %s", s, m.a.Name)
	}
}

// got asserts that the waiter gets the lock, and that what it writes arrives.
func (m *mounted) got(waiter *writing) {
	m.t.Helper()
	waiter.opened()
	waiter.writes("of the waiter")
	waiter.close()
	m.has("other", "of the waiter")
}

// recovers has a take back what it left, at its next write, which then waits its
// turn with the waiter on b.
func (m *mounted) recovers(waiter *writing) {
	m.t.Helper()
	wrote := m.a.background(m.d, "echo new >new")
	m.a.told("recovered the lock of")
	m.got(waiter)
	if r := wrote(); r.Code != 0 {
		m.t.Errorf("%s: status %d: %s", m.a.Name, r.Code, r.Stderr)
	}
	m.has("new", "new")
}

// stands asserts that the writer on b has the lock, though a had it before.
func (m *mounted) stands(waiter *writing) {
	m.t.Helper()
	if s := m.b.status(m.d); s.State != lock.Held || s.Host != m.b.Name {
		m.t.Errorf("the lock is %+v, want held by %s", s, m.b.Name)
	}
	waiter.writes("more")
	waiter.close()
	m.has("other", "of the waiter\nmore")
}

var overlayFaults = []struct {
	name string
	run  func(*mounted)
}{
	{"the holder loses its power and returns", func(m *mounted) {
		m.a.holding(m.d, "file").writes("of the dead")
		waiter := m.b.waiting(m.d, "other")
		m.at(m.a.PowerOff)
		m.stays(waiter)
		m.power(m.a.Boot)
		m.a.mount()
		if !waiter.waits() {
			m.t.Error("the lock was got before its host had recovered it")
		}
		m.recovers(waiter)
	}},
	{"the daemon is killed", func(m *mounted) {
		w := m.a.holding(m.d, "file")
		w.writes("before")
		waiter := m.b.waiting(m.d, "other")
		m.a.die()
		if w.write("after") == "" {
			m.t.Error("a write succeeded without a daemon")
		}
		m.stays(waiter)
		m.a.mount()
		m.recovers(waiter)
		m.has("file", "before")
	}},
	{"a writer is killed", func(m *mounted) {
		w := m.a.holding(m.d, "file")
		w.writes("all of it")
		waiter := m.b.waiting(m.d, "other")
		sh(m.t, m.a.Host, "kill -9 "+itoa(w.p.PID))
		m.got(waiter)
		m.has("file", "all of it")
	}},
	{"a waiter is killed", func(m *mounted) {
		w := m.a.holding(m.d, "file")
		waiter := m.b.waiting(m.d, "other")
		sh(m.t, m.b.Host, "kill -9 "+itoa(waiter.p.PID))
		until(m.t, "nobody waits", func() bool { return len(m.b.status(m.d).Waiters) == 0 })
		w.writes("all of it")
		w.close()
		m.has("file", "all of it")
	}},
	{"the holder's host is paused", func(m *mounted) {
		w := m.a.holding(m.d, "file")
		w.writes("before")
		waiter := m.b.waiting(m.d, "other")
		m.at(m.a.Pause)
		m.stays(waiter)
		m.at(m.a.Resume)
		w.writes("after")
		w.close()
		m.got(waiter)
		m.has("file", "before\nafter")
	}},
	{"an operator breaks the lock of a paused host", func(m *mounted) {
		w := m.a.holding(m.d, "file")
		w.writes("before")
		waiter := m.b.waiting(m.d, "other")
		m.at(m.a.Pause)
		m.b.start()
		at := locker.Request{Path: "/mnt/" + m.d}
		at.Record = m.b.client.must("Status", at).Status.Record
		m.b.client.must("Break", at)
		waiter.opened()
		waiter.writes("of the waiter")
		m.at(m.a.Resume)
		w.fenced()
		m.a.told("was taken away")
		w.close()
		m.stands(waiter)
	}},
	{"a cleaner removes empty directories", func(m *mounted) {
		w := m.a.holding(m.d, "file")
		waiter := m.b.waiting(m.d, "other")
		sh(m.t, m.lab.Server, "find "+m.export()+" -type d -empty -delete")
		m.stays(waiter)
		w.writes("written")
		w.close()
		m.got(waiter)
		m.has("file", "written")
	}},
	{"a cleaner removes dangling links", func(m *mounted) {
		w := m.a.holding(m.d, "file")
		waiter := m.b.waiting(m.d, "other")
		sh(m.t, m.lab.Server, "find "+m.export()+" -xtype l -delete")
		w.fenced()
		m.a.told("was taken away")
		waiter.opened()
		waiter.writes("of the waiter")
		w.close()
		m.stands(waiter)
	}},
	{"a cleaner removes the directory", func(m *mounted) {
		w := m.a.holding(m.d, "file")
		waiter := m.b.waiting(m.d, "other")
		m.remove(m.b.Host, m.export())
		w.fenced()
		m.a.told("was taken away")
		if got := waiter.line(); got == "open" {
			m.t.Error("a lock was got in a directory that is no more")
		}
		w.close()
	}},
	{"the export is full", func(m *mounted) {
		m.a.must(m.d, "echo small >small")
		sh(m.t, m.lab.Server, "! dd if=/dev/zero of=/export/fill bs=1M 2>/dev/null; ! dd if=/dev/zero of=/export/fill2 bs=4k 2>/dev/null; sync")
		for _, o := range []*overlay{m.a, m.b} {
			r := o.run(m.d, "cp small small2")
			if r.Code == 0 || !strings.Contains(r.Stderr, "No space left on device") {
				m.t.Errorf("%s: a write on a full export: status %d, %q, want no space", o.Name, r.Code, r.Stderr)
			}
		}
		m.clean()
		// Room for a lock, and not for what is written under it.
		sh(m.t, m.lab.Server, "rm /export/fill2; truncate -s -1M /export/fill; sync")
		sh(m.t, m.a.Host, "dd if=/dev/zero of=/tmp/big bs=1M count=16 2>/dev/null")
		r := m.a.run(m.d, "cp /tmp/big big")
		if r.Code == 0 || !strings.Contains(r.Stderr, "No space left on device") {
			m.t.Errorf("16 MiB on an export with 1 MiB left: status %d, %q, want no space", r.Code, r.Stderr)
		}
		m.clean()
		sh(m.t, m.lab.Server, "rm /export/fill "+m.export()+"/big; sync")
		m.b.must(m.d, "echo x >>small")
		m.has("small", "small\nx")
	}},
	{"the holder is cut off", func(m *mounted) {
		w := m.a.holding(m.d, "file")
		w.writes("before")
		waiter := m.b.waiting(m.d, "other")
		m.at(m.a.Cut)
		m.stays(waiter)
		m.at(m.a.Join)
		w.writes("after")
		w.close()
		m.got(waiter)
		m.has("file", "before\nafter")
	}},
	{"a waiter is cut off", func(m *mounted) {
		w := m.a.holding(m.d, "file")
		waiter := m.b.waiting(m.d, "other")
		m.at(m.b.Cut)
		w.writes("once")
		w.close()
		m.a.must(m.d, "echo again >>file")
		m.at(m.b.Join)
		m.got(waiter)
		m.has("file", "once\nagain")
	}},
	{"the server reboots during a take", func(m *mounted) {
		m.at(m.lab.Server.PowerOff)
		w := m.a.opening(m.d, "file")
		m.power(m.lab.Server.Boot)
		w.opened()
		w.writes("written")
		w.close()
		m.has("file", "written")
	}},
	{"the server reboots under a holder and a waiter", func(m *mounted) {
		w := m.a.holding(m.d, "file")
		w.writes("before")
		waiter := m.b.waiting(m.d, "other")
		m.reboot()
		w.writes("after")
		if !waiter.waits() {
			m.t.Error("the waiter got the lock while it was held")
		}
		w.close()
		m.got(waiter)
		m.has("file", "before\nafter")
	}},
	{"the server reboots during a release", func(m *mounted) {
		w := m.a.holding(m.d, "file")
		w.writes("written")
		waiter := m.b.waiting(m.d, "other")
		m.at(m.lab.Server.PowerOff)
		closed := make(chan struct{})
		go func() { defer close(closed); w.close() }()
		m.power(m.lab.Server.Boot)
		<-closed
		m.got(waiter)
		m.has("file", "written")
	}},
	{"the server reboots during a write", func(m *mounted) {
		sh(m.t, m.a.Host, "dd if=/dev/urandom of=/tmp/big bs=64k count=256 2>/dev/null")
		copied := m.a.background(m.d, "cp /tmp/big big")
		until(m.t, "some of the file is on the server", func() bool {
			return sh(m.t, m.lab.Server, "cd "+m.export()+" && [ -s big ] && echo some || true") == "some"
		})
		m.reboot()
		if r := copied(); r.Code != 0 {
			m.t.Errorf("cp over a server's reboot: status %d: %s", r.Code, r.Stderr)
		}
		want := strings.Fields(sh(m.t, m.a.Host, "md5sum /tmp/big"))[0]
		if got := strings.Fields(m.b.must(m.d, "md5sum big"))[0]; got != want {
			m.t.Errorf("the other host reads a file with the sum %s, not %s", got, want)
		}
	}},
}

// mend gives every host power, network and its processor.
func (w *world) mend() {
	w.t.Helper()
	for _, h := range w.lab.Hosts() {
		w.at(h.Join)
		if h.On() {
			w.at(h.Resume)
		} else {
			w.power(h.Boot)
		}
	}
}

// TestOverlayFaults has hosts, links and programs fail while shells write through
// lockfs: what is promised comes true, and nothing is lost.
func TestOverlayFaults(t *testing.T) {
	needMatrix(t)
	w := newWorld(t, nfslab.Config{Tools: true})
	o := [2]*overlay{w.c[0].overlay("/mnt", "/work"), w.c[1].overlay("/mnt", "/work")}
	var table strings.Builder
	table.WriteString("| fault | seen | s |\n|---|---|---|\n")
	for i, fault := range overlayFaults {
		passed := t.Run(fault.name, func(t *testing.T) {
			outer := w.t
			w.t = t
			defer func() { w.t = outer }()
			m := &mounted{world: w, a: o[i%2], b: o[1-i%2], d: w.unused("fault")}
			w.dir(m.d)
			sh(t, w.lab.Server, "echo kept >"+m.export()+"/kept && sync")
			began := time.Now()
			fault.run(m)
			w.clean()
			table.WriteString("| " + fault.name + " | ok | " + itoa(int(time.Since(began).Seconds())) + " |\n")
		})
		if !passed {
			table.WriteString("| " + fault.name + " | FAILED | |\n")
			w.mend() // as the next one expects it
		}
	}
	report(t, "Faults through the mount", table.String())
}

// TestOverlayCloned has two hosts that share a machine-id write through lockfs:
// neither ever takes the other's lock for its own, alive or dead, and both say
// what is wrong.
func TestOverlayCloned(t *testing.T) {
	needMatrix(t)
	w := newWorld(t, nfslab.Config{Cloned: true})
	o := [2]*overlay{w.c[0].overlay("/mnt", "/work"), w.c[1].overlay("/mnt", "/work")}
	for i := range o {
		m := &mounted{world: w, a: o[i], b: o[1-i], d: w.unused("cloned")}
		w.dir(m.d)
		sh(t, w.lab.Server, "echo kept >"+m.export()+"/kept && sync")
		m.a.holding(m.d, "file").writes("of the dead")
		waiter := m.b.waiting(m.d, "other")
		m.b.told("is of another host with this host's machine-id")
		m.stays(waiter)
		m.at(m.a.PowerOff)
		m.stays(waiter)
		m.power(m.a.Boot)
		m.a.mount()
		if !waiter.waits() {
			t.Error("the lock was got before its host had recovered it")
		}
		m.recovers(waiter)
	}
	w.clean()
	if !t.Failed() {
		report(t, "Clones through the mount", "Two hosts with one machine-id, each in turn: a writer waited "+patience.String()+" for the other's, and as long again for one whose host had no power, and its host said that the machine-id is shared; the host that returned recovered its own lock.")
	}
}
