package nfslab_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lockfs/lockfs/integration/nfslab"
	"github.com/lockfs/lockfs/integration/nfslab/locker"
	"github.com/lockfs/lockfs/lock"
)

// row is what was seen of one kind of mount, by column.
type row map[string]string

// columns of the table, in order: what must be is asserted, and its column
// says ok; the others say what was seen.
var columns = []string{"publish", "swap", "late rmdir", "fresh list", "old absence", "old record", "old size", "NOREPLACE",
	"replaced parent", "root in 0755", "take ms", "wait", "dead holder", "removed", "counted"}

// one calls and expects one of the answers.
func (c *client) expect(r row, column, what string, wants []string, format string, args ...any) {
	c.w.t.Helper()
	got := c.calls(format, args...)
	if !slices.Contains(wants, got[len(got)-1]) {
		r[column] = "FAILED"
		c.w.t.Errorf("%s: %s: got %q, want the last to be one of %q", c.Name, what, got, wants)
	} else if r[column] == "" {
		r[column] = "ok"
	}
}

var (
	ok     = []string{"ok"}
	full   = []string{"ENOTEMPTY", "EEXIST"}
	absent = []string{"ENOENT"}
)

// facts asserts what the protocol rests on, with the calls that it makes, and
// notes what caches say. root is where the clients have the export mounted.
func (w *world) facts(r row, root string) {
	w.t.Helper()
	a, b := w.c[0], w.c[1]
	name := w.unused("facts")
	w.dir(name)
	d := root + "/" + name

	// A prepared directory becomes the lock by rename: onto nothing, and onto
	// an empty directory; never onto one that holds a record.
	a.expect(r, "publish", "mkdir", ok, "mkdir %s/a", d)
	a.expect(r, "publish", "mkdir again", []string{"EEXIST"}, "mkdir %s/a", d)
	b.expect(r, "publish", "mkdir of the other", []string{"EEXIST"}, "mkdir %s/a", d)
	a.expect(r, "publish", "rename onto nothing", ok, "symlink x %[1]s/a/r1 , rename %[1]s/a %[1]s/L", d)
	b.expect(r, "publish", "rename onto a record", full, "mkdir %[1]s/b , symlink x %[1]s/b/r2 , rename %[1]s/b %[1]s/L", d)
	a.expect(r, "publish", "unlink", ok, "unlink %s/L/r1", d)
	b.expect(r, "publish", "rename onto an empty one", ok, "rename %[1]s/b %[1]s/L", d)

	// Whoever lists by opening sees what the server has.
	a.expect(r, "fresh list", "list", []string{"ok r2"}, "lstat %[1]s/L/r2 , list %[1]s/L", d)
	b.expect(r, "swap", "rename of the record", ok, "rename %[1]s/L/r2 %[1]s/L/r3", d)
	// A compare-and-swap with the name that was seen before fails.
	r["old record"] = fresh(a.calls("lstat %s/L/r2", d)[0] == "ENOENT")
	a.expect(r, "swap", "rename of a record that is no more", absent, "rename %[1]s/L/r2 %[1]s/L/r4", d)
	a.expect(r, "swap", "unlink of a record that is no more", absent, "unlink %s/L/r2", d)
	a.expect(r, "fresh list", "list after the other's rename", []string{"ok r3"}, "list %s/L", d)
	a.expect(r, "swap", "rename of the present record", ok, "rename %[1]s/L/r3 %[1]s/L/r5", d)
	b.expect(r, "fresh list", "list after the other's swap", []string{"ok r5"}, "list %s/L", d)

	// A releaser's rmdir comes after another has taken the lock.
	b.expect(r, "late rmdir", "rmdir of a lock that is held", full, "rmdir %s/L", d)
	a.expect(r, "late rmdir", "release", ok, "unlink %[1]s/L/r5 , rmdir %[1]s/L", d)

	// An absence that was seen stays, and rename knows better.
	b.calls("mkdir %[1]s/m , symlink x %[1]s/m/r7 , lstat %[1]s/N", d)
	a.expect(r, "publish", "take", ok, "mkdir %[1]s/n , symlink x %[1]s/n/r6 , rename %[1]s/n %[1]s/N", d)
	b.expect(r, "publish", "take of what seems absent", full, "rename %[1]s/m %[1]s/N", d)
	r["old absence"] = fresh(b.calls("lstat %s/N", d)[0] != "ENOENT")
	b.expect(r, "fresh list", "list of what seemed absent", []string{"ok r6"}, "list %[1]s , list %[1]s/N", d)
	b.expect(r, "late rmdir", "tidy", ok, "unlink %[1]s/m/r7 , rmdir %[1]s/m , unlink %[1]s/N/r6 , rmdir %[1]s/N", d)

	// Sizes and contents: an open sees what was closed.
	a.calls("write %s/f one", d)
	b.calls("lstat %s/f", d)
	a.calls("write %s/f longer", d)
	r["old size"] = fresh(strings.HasSuffix(b.calls("lstat %s/f", d)[0], " 6"))
	b.expect(r, "fresh list", "read after the other's close", []string{`ok "longer"`}, "read %s/f", d)
	r["NOREPLACE"] = a.calls("noreplace %[1]s/f %[1]s/g", d)[0]

	// A path that was walked before leads into the directory of that time.
	b.calls("mkdir %[1]s/p , lstat %[1]s/p", d)
	a.calls("rename %[1]s/p %[1]s/q , mkdir %[1]s/p", d)
	b.calls("mkdir %s/p/x", d)
	r["replaced parent"] = fresh(slices.Contains(a.calls("list %s/p", d), "ok x"))

}

func fresh(b bool) string {
	if b {
		return "fresh"
	}
	return "stale"
}

// ownership asserts what root may do in another user's directory: with
// root_squash it is nobody.
func (w *world) ownership(r row, root string, squash bool) {
	w.t.Helper()
	name := w.unused("owned")
	sh(w.t, w.lab.Server, "mkdir -m 755 /export/"+name+" && chown 1000:1000 /export/"+name)
	const column = "root in 0755"
	want := "ok"
	if squash {
		want = "EACCES"
	}
	d := root + "/" + name
	w.c[0].expect(r, column, "mkdir by root in a user's directory", []string{want}, "mkdir %s/byroot", d)
	w.c[0].expect(r, column, "mkdir by the user", ok, "as 1000 , mkdir %s/byuser", d)
	if r[column] == "ok" {
		r[column] = want
	}
}

// counts is how often each of the hosts takes the contended lock.
const counts = 15

// protocol has two hosts work the lock of a directory by package lock: one holds,
// the other is told so, waits, gets it; a dead holder's lock is recovered by its
// own host only; and what is done under the lock is never done twice at once.
func (w *world) protocol(r row, root string) {
	w.t.Helper()
	t, a, b := w.t, w.c[0], w.c[1]
	name := w.unused("protocol")
	w.dir(name)
	d := root + "/" + name

	h := a.must("Take", locker.Request{Path: d, Job: 1, Wait: lock.Forever})
	r["take ms"] = ms(h.Elapsed)
	if got := b.ask("Take", locker.Request{Path: d, Job: 1}); got.Errno != syscall.EBUSY || !strings.Contains(got.Err, a.Name) {
		t.Errorf("a try of the other host: %q, want EBUSY and the name of %s", got.Err, a.Name)
	}
	for _, c := range w.c {
		s := c.must("Status", locker.Request{Path: d}).Status
		if s.State != lock.Held || s.Host != a.Name || s.PID != a.proc.PID {
			t.Errorf("status on %s: %+v, want held by process %d of %s", c.Name, s, a.proc.PID, a.Name)
		}
	}
	waiter := b.begin("Take", locker.Request{Path: d, Job: 1, Wait: lock.Forever})
	until(t, "a candidate of the waiter", func() bool {
		return len(a.must("Status", locker.Request{Path: d}).Status.Candidates) > 0
	})
	if !waiter.pending() {
		t.Error("the waiter has an answer while the lock is held")
	}
	a.must("Check", locker.Request{Path: d, Hold: h.Hold})
	a.release(d, h.Hold)
	b.release(d, waiter.answer().Hold)
	r["wait"] = "ok"

	// A holder that was killed: its host recovers, others don't.
	a.take(d, 1)
	a.kill()
	if got := b.ask("Take", locker.Request{Path: d, Job: 1}); got.Errno == 0 {
		t.Error("a lock of another host's dead process was taken")
	}
	if got := b.ask("Recover", locker.Request{Path: d}); got.Freed {
		t.Error("another host recovered the lock")
	}
	waiter = b.begin("Take", locker.Request{Path: d, Job: 1, Wait: lock.Forever})
	a.start()
	hold := a.begin("Take", locker.Request{Path: d, Job: 1, Wait: lock.Forever})
	// Which of the two comes first is nobody's business.
	select {
	case <-hold.done:
		a.release(d, hold.answer().Hold)
		b.release(d, waiter.answer().Hold)
	case <-waiter.done:
		b.release(d, waiter.answer().Hold)
		a.release(d, hold.answer().Hold)
	}
	if !a.told(lock.EventRecovered) {
		t.Error("the host of the dead holder told of no recovery")
	}
	r["dead holder"] = "ok"

	sh(t, w.lab.Server, "cd /export/"+name+" && echo 0 >count && chmod 666 count")
	var all []*asked
	for _, c := range w.c {
		all = append(all, c.begin("Count", locker.Request{Path: d, N: counts, Wait: lock.Forever}))
	}
	for _, one := range all {
		one.answer()
	}
	got := sh(t, w.lab.Server, "cat /export/"+name+"/count")
	r["counted"] = got
	if want := itoa(counts * len(w.c)); got != want {
		r["counted"] = "FAILED " + got
		t.Errorf("%d hosts counted to %s under the lock, not %s", len(w.c), got, want)
	}
	w.clean()
}

// removed has a directory be removed beside its lock: its holder and who waits
// for it are told, and nothing is tried for ever. Through a re-export the holder
// learns of it when the re-exporter no longer answers from its own cache, and the
// waiter may see ESTALE.
func (w *world) removed(r row, root string, reexported bool) {
	w.t.Helper()
	t, a, b := w.t, w.c[0], w.c[1]
	name := w.unused("removed")
	w.dir(name)
	d := root + "/" + name
	h := a.take(d, 1)
	waiter := b.begin("Take", locker.Request{Path: d, Job: 1, Wait: lock.Forever})
	until(t, "a candidate of the waiter", func() bool {
		return len(a.must("Status", locker.Request{Path: d}).Status.Candidates) > 0
	})
	w.remove(b.Host, "/export/"+name)
	r["removed"] = "ok"
	check := func() bool { return a.ask("Check", locker.Request{Path: d, Hold: h}).Errno == syscall.EIO }
	if reexported {
		began := time.Now()
		until(t, "the check of a lock whose directory was removed fails with EIO", check)
		r["removed"] = fmt.Sprintf("ok after %.0f s", time.Since(began).Seconds())
	} else if !check() {
		r["removed"] = "FAILED"
		t.Error("the check of a lock whose directory was removed does not fail with EIO")
	}
	a.ask("Release", locker.Request{Path: d, Hold: h})
	<-waiter.done
	if no := waiter.r.Errno; waiter.err != nil || no != syscall.ENOENT && !(reexported && no == syscall.ESTALE) {
		r["removed"] = "FAILED"
		t.Errorf("the wait for the lock of a directory that was removed: %q, %v, want ENOENT", waiter.r.Err, waiter.err)
	}
	until(t, "the loss is told of", func() bool { return a.told(lock.EventLost) })
}

// remove removes a directory on the server while the host of who waits for its
// lock is paused, so that he does not take that in the midst of it.
func (w *world) remove(waiter *nfslab.Host, path string) {
	w.t.Helper()
	w.at(waiter.Pause)
	sh(w.t, w.lab.Server, "rm -rf "+path)
	w.at(waiter.Resume)
}

// clean waits until nothing of lockfs is left in the export, but the cards of the
// hosts that have mounted it.
func (w *world) clean() {
	w.t.Helper()
	until(w.t, "nothing of lockfs is left", func() bool {
		// find fails if what it has just seen is gone.
		return sh(w.t, w.lab.Server, "cd /export && { find . -path ./.lockfs.hosts -prune -o '(' -name '.lockfs*' -o -name '.nfs*' ')' -print 2>&1 || echo status $?; }") == ""
	})
}

// kill kills the locker, as kill -9 does, and waits for its end.
func (c *client) kill() {
	c.w.t.Helper()
	sh(c.w.t, c.Host, "kill -9 "+itoa(c.proc.PID))
	if code, err := c.proc.Wait(); err != nil || code != 128+9 {
		c.w.t.Fatalf("%s: the killed locker: status %d, %v", c.Name, code, err)
	}
}

// told reports whether the locker told of such an event since it was last asked.
func (c *client) told(kind lock.EventKind) bool {
	c.w.t.Helper()
	return slices.ContainsFunc(c.ask("Events", locker.Request{}).Events, func(e locker.Event) bool { return e.Kind == kind })
}
