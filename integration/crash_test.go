package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockfs/lockfs/internal/cred"
	"github.com/lockfs/lockfs/internal/played"
	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// A writer outlives its killed daemon in three ways; in none of them anything
// of what it writes then reaches the tree. The next daemon of that host
// recovers the lock, and only that host's.
func TestKilledDaemon(t *testing.T) {
	for name, start := range map[string]func(w *world) *played.Job{
		"handle": func(w *world) *played.Job {
			j := w.alpha.sh("exec 3>>f; echo one >&3; echo ready; read go; echo two >&3")
			w.expect(j, "ready")
			return j
		},
		"inherited descriptor": func(w *world) *played.Job {
			// The one who writes is a grandchild of who opened it, of another
			// session, has the descriptor too.
			j := w.alpha.sh("exec 3>>f; echo one >&3; exec setsid -w sh -c '(echo ready; read go; echo two >&3)'")
			w.expect(j, "ready")
			return j
		},
		"mapping": func(w *world) *played.Job {
			w.write("f", "one\n"+strings.Repeat("\x00", 4092))
			j := w.alpha.client("mmap", w.in("f"))
			w.expect(j, "mapped")
			return j
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			writer := start(w)
			w.heldBy(w.alpha)
			if err := w.alpha.daemon.Kill(); err != nil {
				t.Fatal(err)
			}
			before, record := w.read("f"), w.record()
			w.tell(writer)
			if err := w.ended(writer); err == nil {
				t.Error("the writer's write after the daemon's death succeeded")
			}
			if after := w.read("f"); after != before {
				t.Errorf("f was %q at the daemon's death and is %q", before, after)
			}
			// The other host leaves it alone.
			other := w.beta.sh("echo other >g")
			w.beta.waits(1)
			if r := w.record(); r != record {
				t.Errorf("the lock was %q and is %q", record, r)
			}
			// Its own host sees that it is stale, and frees it when it needs it.
			w.alpha.forget()
			w.alpha.mount()
			if st := w.alpha.status(); st.State != lock.Stale {
				t.Errorf("on its own host the lock is %s: %s", st.State, st.Reason)
			}
			w.done(w.alpha.sh("echo own >h"))
			if !w.alpha.recovered() {
				t.Error("nobody says that the lock was recovered")
			}
			w.done(other)
			w.free()
		})
	}
}

// A lock of before a reboot is left alone by others and recovered by its host.
func TestReboot(t *testing.T) {
	if !initialPIDNamespace() {
		unable(t, "needs the initial pid namespace: in a container no other boot is judged")
	}
	w := newWorld(t)
	w.alpha.hold()
	record := w.record()
	if err := w.alpha.Reboot(); err != nil {
		t.Fatal(err)
	}
	other := w.beta.sh("echo other >g")
	w.beta.waits(1)
	if r := w.record(); r != record {
		t.Errorf("the lock was %q and is %q", record, r)
	}
	w.alpha.forget()
	w.alpha.mount()
	if st := w.alpha.status(); st.State != lock.Stale {
		t.Errorf("after the reboot the lock is %s: %s", st.State, st.Reason)
	}
	w.done(w.alpha.sh("echo own >h"))
	w.done(other)
	w.free()
}

// forget loses the notes of what the host's daemons have held, so that a lock
// which is left is freed only when it is next needed there.
func (h *host) forget() {
	h.w.t.Helper()
	if err := os.RemoveAll(h.State()); err != nil {
		h.w.t.Fatal(err)
	}
}

// What a killed daemon, or a host without power, has left is freed by the next
// one there though nobody there needs it. A link that is planted in the place
// of a directory leads nowhere.
func TestLeftLocks(t *testing.T) {
	for name, end := range map[string]func(w *world) error{
		"killed": func(w *world) error { return w.alpha.daemon.Kill() },
		"reboot": func(w *world) error { return w.alpha.Reboot() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "reboot" && !initialPIDNamespace() {
				unable(t, "needs the initial pid namespace: in a container no other boot is judged")
			}
			w := newWorld(t)
			for _, d := range []string{"a\nb", "gone"} {
				if err := os.Mkdir(filepath.Join(w.tree, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			w.alpha.hold()
			j := w.alpha.start("sh", "-c", "cd "+w.mnt+" && exec 3>'a\nb/f' 4>gone/f && echo held && read x")
			w.expect(j, "held")
			other := w.beta.sh("echo other >g")
			w.beta.waits(1)
			// Its notes are written at once, but not before it goes on.
			w.until("the notes", func() bool { return strings.Count(w.alpha.notes(), "+") >= 3 })
			if err := end(w); err != nil {
				t.Fatal(err)
			}
			outside := filepath.Join(t.TempDir(), "outside")
			if err := os.Rename(filepath.Join(w.tree, "gone"), outside); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, filepath.Join(w.tree, "gone")); err != nil {
				t.Fatal(err)
			}
			w.alpha.mount()
			w.done(other)
			w.nothingLeft()
			if left, err := os.ReadDir(filepath.Join(outside, lock.Reserved)); err != nil || len(left) != 1 {
				t.Errorf("the lock behind a link: %v, %v", left, err)
			}
			if !w.alpha.recovered() {
				t.Error("nobody says that a lock was recovered")
			}
			// Nothing is left to be noted.
			w.until("the end of the notes", func() bool {
				return !strings.Contains(w.alpha.notes(), `"D"`) || strings.Contains(w.alpha.notes(), `-"D"`)
			})
			w.done(w.alpha.sh("echo own >h"))
		})
	}
}

// notes returns the notes of what the host's daemons hold.
func (h *host) notes() string {
	h.w.t.Helper()
	files, err := filepath.Glob(filepath.Join(h.State(), "held/*/*"))
	if err != nil {
		h.w.t.Fatal(err)
	}
	var all string
	for _, f := range files {
		b, _ := os.ReadFile(f) // one may have been replaced since
		all += string(b)
	}
	return all
}

// An operator breaks the lock of a host that was alive after all. The next
// holder writes; the old one's handles fail at the next write after it was
// noticed, at fsync and at close, and it does not touch the new holder's lock.
func TestBrokenLock(t *testing.T) {
	self, err := procid.Self()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		before  []string
		noticed bool // the holder has been told before it goes on
		does    []string
	}{
		"write, after it was noticed": {[]string{"write"}, true, []string{"write", "fsync", "close"}},
		"fsync":                       {[]string{"write"}, false, []string{"fsync", "write", "close"}},
		"close":                       {[]string{"write"}, false, []string{"close"}},
		"close of a duplicate":        {[]string{"write"}, false, []string{"dup", "close"}},
		// What was safe already does not make what came after it so.
		"close, written to again":     {[]string{"dup", "write", "dup", "write"}, false, []string{"close"}},
		"close, after it was noticed": {nil, true, []string{"dup", "close"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.write("f", "")
			writer := w.alpha.client(slices.Concat([]string{"write", w.in("f")}, test.before, test.does)...)
			w.expect(writer, "open ok")
			w.heldBy(w.alpha)
			for _, what := range test.before {
				w.tell(writer)
				w.expect(writer, what+" ok")
			}

			d, err := lock.OpenPath(w.back(), cred.Own())
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if err := lock.Break(d, w.back(), w.record(), self, false); err != nil {
				t.Fatal(err)
			}
			next := w.beta.hold()
			record := w.record()
			if test.noticed {
				w.until("the daemon's note of the loss", w.alpha.lost)
			}
			text := w.read("f")
			for _, what := range test.does {
				w.tell(writer)
				w.expect(writer, what+" EIO")
			}
			w.done(writer)
			if got := w.read("f"); got != text {
				t.Errorf("f was %q at the loss and is %q", text, got)
			}
			if got := w.record(); got != record {
				t.Errorf("the record of the new holder became %q", got)
			}
			w.until("the log says that the lock was taken away", w.alpha.lost)
			w.tell(next)
			w.tell(next)
			w.done(next)
			w.done(w.alpha.sh("echo again >g"))
			w.free()
		})
	}
}

// lost reports whether the host's daemon has said that a lock was taken away.
func (h *host) lost() bool {
	h.w.t.Helper()
	events, err := h.daemon.Events()
	if err != nil {
		h.w.t.Fatal(err)
	}
	return slices.ContainsFunc(events, func(e map[string]any) bool {
		msg, _ := e["msg"].(string)
		return strings.Contains(msg, "was taken away")
	})
}
