package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockfs/lockfs/lock"
)

// A file that is open for writing shows as a lock in the tree, and no longer.
func TestLockStandsWhileOpen(t *testing.T) {
	w := newWorld(t)
	j := w.alpha.hold()
	r := w.record()
	if !strings.Contains(r, fmt.Sprintf(",%d,", w.alpha.daemon.PID)) {
		t.Errorf("the record %q does not name the daemon, %d", r, w.alpha.daemon.PID)
	}
	st := w.alpha.status()
	if st.State != lock.Held || st.Verdict != "alive" || st.Holder == nil {
		t.Errorf("status on its own host: %+v", st)
	}
	if st := w.beta.status(); st.State != lock.Held || st.Verdict != "foreign" {
		t.Errorf("status on the other host: %+v", st)
	}
	// Our names are not to be seen through the mount.
	ls := w.beta.sh("ls -A")
	w.expect(ls, "held")
	w.done(ls)
	w.tell(j)
	w.expect(j, "closed")
	w.free()
	w.tell(j)
	w.done(j)
}

// Each operation takes the lock for itself and leaves none.
func TestOperationsLeaveNoLock(t *testing.T) {
	w := newWorld(t)
	w.done(w.alpha.sh("set -e; mkdir s; echo x >s/f; mv s/f f; ln -s f l; ln f h; chmod 600 f; rm -r s l h; touch f; truncate -s 3 f"))
	w.free()
	if got := w.read("f"); got != "x\n\x00" {
		t.Errorf("f has %q", got)
	}
	w.nothingLeft()
}

// A second host's writer waits and then writes; nothing is lost.
func TestSecondHostWaits(t *testing.T) {
	w := newWorld(t)
	j := w.alpha.hold()
	second := w.beta.sh("echo second >>held")
	w.beta.waits(1)
	if second.Over() {
		t.Error("the second writer did not wait")
	}
	w.tell(j)
	w.tell(j)
	w.done(j)
	w.done(second)
	if got := w.read("held"); got != "second\n" {
		t.Errorf("held has %q", got)
	}
	w.free()
}

// Two jobs of one host wait for each other like two hosts.
func TestSecondJobOfAHostWaits(t *testing.T) {
	w := newWorld(t)
	j := w.alpha.hold()
	second := w.alpha.sh("echo second >other")
	w.alpha.waits(1)
	if second.Over() || w.read("other") != "" {
		t.Error("the second job did not wait")
	}
	w.tell(j)
	w.done(second)
	w.tell(j)
	w.done(j)
	w.free()
}

// One job writes by many processes at once and never waits for itself.
func TestOneJobDoesNotWaitForItself(t *testing.T) {
	need(t, "make", "make")
	w := newWorld(t)
	makefile := "all: " + strings.Join(targets(40), " ")
	makefile += "\nt%:\n\tcat Makefile | tee $@.1 | sort >$@.2 && mv $@.2 $@ && rm $@.1\n"
	w.write("Makefile", makefile)
	for name, script := range map[string]string{
		"pipeline":        "{ echo a | tee p1; } >p2 | cat >p3 && seq 1 2000 | tee p4 | sort -n >p5 && cmp p4 p5",
		"pipeline of two": "seq 1 20000 >a1 | sh -c 'seq 1 20000 >a2' && cmp a1 a2",
		"nested":          "{ echo x >b1; cat b1; ( echo y >b2 ); cat b2; } >b3",
		"background":      "(for i in 1 2 3 4 5; do echo $i >>c1; done) & (for i in 1 2 3 4 5; do echo $i >>c2; done) & wait",
		"make":            "make -s -j8",
	} {
		t.Run(name, func(t *testing.T) {
			defer func(was *testing.T) { w.t = was }(w.t)
			w.t = t
			w.done(w.alpha.sh("set -e; " + script))
			w.free()
		})
	}
	if got := w.read("b3"); got != "x\ny\n" {
		t.Errorf("b3 has %q", got)
	}
	for _, name := range targets(40) {
		if w.read(name) == "" {
			t.Errorf("make did not make %s", name)
		}
	}
}

func targets(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("t%d", i))
	}
	return names
}

// Both hosts append to one file; each line is there, whole, once.
func TestAppends(t *testing.T) {
	const lines = 200
	w := newWorld(t)
	script := "i=0; while [ $i -lt %d ]; do echo %s $i >>log || exit 1; i=$((i+1)); done"
	a, b := w.alpha.sh(fmt.Sprintf(script, lines, "a")), w.beta.sh(fmt.Sprintf(script, lines, "b"))
	w.done(a)
	w.done(b)
	seen := make(map[string]int)
	for l := range strings.Lines(w.read("log")) {
		seen[l]++
	}
	for i := range lines {
		for _, h := range []string{"a", "b"} {
			if l := fmt.Sprintf("%s %d\n", h, i); seen[l] != 1 {
				t.Errorf("line %q is there %d times", l, seen[l])
			}
		}
	}
	if len(seen) != 2*lines {
		t.Errorf("%d different lines, want %d", len(seen), 2*lines)
	}
	w.free()
}

// Unmounting returns when the daemon has ended and no lock is left, and a
// mount in use stays.
func TestUmount(t *testing.T) {
	w := newWorld(t, "-o", "linger=1h")
	w.done(w.alpha.sh("echo x >f"))
	if w.record() == "" {
		t.Error("no lock lingers: this test shows nothing")
	}
	user := w.alpha.sh("echo in; read go")
	w.expect(user, "in")
	err := w.alpha.Command(lockfs, "umount", w.mnt).Run()
	if code := exitCode(err); code != 75 {
		t.Errorf("umount of a mount in use: exit code %d (%v), want 75", code, err)
	}
	w.tell(user)
	w.done(user)
	if out, err := w.alpha.Command(lockfs, "umount", w.mnt).CombinedOutput(); err != nil {
		t.Errorf("umount: %v: %s", err, out)
	}
	w.nothingLeft()
	if code := exitCode(w.alpha.Command(lockfs, "umount", w.mnt).Run()); code != 64 {
		t.Errorf("umount of what is not mounted: exit code %d, want 64", code)
	}
}

// A daemon that is told to end releases the locks that are in use.
func TestTermination(t *testing.T) {
	w := newWorld(t)
	w.alpha.hold()
	if err := w.alpha.daemon.Stop(); err != nil {
		t.Error(err)
	}
	w.nothingLeft()
	w.done(w.beta.sh("echo x >f"))
}

// What a program has stored in a mapping is in the tree when the daemon that
// was told to end has ended.
func TestTerminationFlushesMappings(t *testing.T) {
	w := newWorld(t)
	w.write("f", strings.Repeat("\x00", 4096))
	j := w.alpha.client("mmap", w.in("f"))
	w.expect(j, "mapped")
	if err := w.alpha.daemon.Stop(); err != nil {
		t.Error(err)
	}
	if got := w.read("f"); got[0] != 'm' {
		t.Errorf("f begins with %q", got[0])
	}
	w.tell(j)
	if err := w.ended(j); err == nil {
		t.Error("a store after the daemon's end succeeded")
	}
	w.nothingLeft()
}

// What other mounts are for is refused with a name for it.
func TestMountRefuses(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"mount", "-o", "bogus,ro", w.tree, w.mnt}, 64, `"bogus"`},
		{[]string{"mount", w.tree}, 64, "MOUNTPOINT"},
		{[]string{"mount", "--log-format", "xml", w.tree, w.mnt}, 64, "xml"},
		{[]string{"mount", filepath.Join(w.tree, "none"), w.mnt}, 73, "none"},
		{[]string{"umount", "/"}, 64, "not of lockfs"},
		{[]string{"bogus"}, 64, "bogus"},
	} {
		out, err := w.alpha.Command(lockfs, tt.args...).CombinedOutput()
		if code := exitCode(err); code != tt.code || !strings.Contains(string(out), tt.says) {
			t.Errorf("lockfs %q: exit code %d, want %d; it says %q, which should name %q", tt.args, code, tt.code, out, tt.says)
		}
	}
}

// A waiter with a limit gets EBUSY, and one without blocking EAGAIN.
func TestWaitLimits(t *testing.T) {
	w := newWorld(t, "-o", "wait=100ms")
	w.write("old", "x")
	w.write("gone", "x")
	j := w.alpha.hold()
	for _, op := range []string{"create", "open", "unlink", "mkdir"} {
		err := w.ended(w.beta.client("op", op, w.in()))
		if err == nil || !strings.Contains(err.Error(), "device or resource busy") {
			t.Errorf("%s: %v, want EBUSY", op, err)
		}
	}
	w.tell(j)
	w.tell(j)
	w.done(j)
	w.free()
	if _, err := os.Lstat(w.back("new")); err == nil {
		t.Error("an operation that failed was done all the same")
	}
}
