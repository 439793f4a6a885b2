package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lockfs/lockfs/lock"
)

// run runs lockfs on the host and returns what it says and its exit code.
func (h *host) run(args ...string) (output string, code int) {
	h.w.t.Helper()
	out, err := h.Command(lockfs, args...).CombinedOutput()
	return string(out), exitCode(err)
}

// runs runs lockfs on the host, which must end with the code and say each of
// the texts.
func (h *host) runs(code int, args []string, says ...string) string {
	h.w.t.Helper()
	out, got := h.run(args...)
	if got != code {
		h.w.t.Errorf("lockfs %q: exit code %d, want %d: %s", args, got, code, out)
	}
	for _, want := range says {
		if !strings.Contains(out, want) {
			h.w.t.Errorf("lockfs %q does not say %q but %q", args, want, out)
		}
	}
	return out
}

// leaveLocks makes locks of alpha in D, and below it, whose daemon is dead and
// has left no notes.
func (w *world) leaveLocks() {
	w.t.Helper()
	deep := w.back("a b", "deep")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		w.t.Fatal(err)
	}
	j := w.alpha.sh("exec 3>f 4>'a b/deep/f'; echo opened; read go")
	w.expect(j, "opened")
	if err := w.alpha.daemon.Kill(); err != nil {
		w.t.Fatal(err)
	}
	w.alpha.forget() // or its next daemon would free them
	w.record()
	if _, err := os.Lstat(filepath.Join(deep, lock.Reserved)); err != nil {
		w.t.Fatal(err)
	}
}

// recover frees its own host's dead locks, and nothing else, in the tree itself
// and through a mount, which works though another user's were needed for it.
func TestRecoverCommand(t *testing.T) {
	for name, where := range map[string]func(w *world) string{
		"tree":  func(w *world) string { return w.tree },
		"mount": func(w *world) string { return w.mnt },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.leaveLocks()
			w.beta.runs(0, []string{"recover", where(w)}, "0 locks recovered, 2 held (2 by other hosts)")
			if w.record() == "" {
				t.Fatal("another host's lock was recovered")
			}
			w.alpha.mount()
			w.alpha.runs(0, []string{"recover", "-d", filepath.Join(where(w), "D")}, "/D: recovered from process", "of host alpha: ", "1 locks recovered")
			w.free()
			if _, err := os.Lstat(w.back("a b", "deep", lock.Reserved)); err != nil {
				t.Error("recover -d went below the directory")
			}
			w.alpha.runs(0, []string{"recover", where(w)}, "a b/deep: recovered", "1 locks recovered, 0 held")
			w.nothingLeft()
		})
	}
}

// A lock of this host's that lives is held, whoever asks; and one that goes
// while it is looked at is no error.
func TestRecoverLeavesTheLiving(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.alpha.hold()
	for _, path := range []string{w.tree, w.mnt} {
		w.alpha.runs(0, []string{"recover", path}, "0 locks recovered, 1 held (0 by other hosts)")
	}
	w.tell(j)
	w.tell(j)
	w.done(j)
}

// break takes the lock that was seen and no other, and is logged.
func TestBreakCommand(t *testing.T) {
	for name, where := range map[string]func(w *world) string{
		"tree":  func(w *world) string { return w.back() },
		"mount": func(w *world) string { return w.in() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			dir := where(w)
			old := "v1,alpha,0123456789abcdef0123456789abcdef,0123456789abcdef0123456789abcdef,1,1,1,1,0123456789abcdef,0123456789abcdef"
			j := w.alpha.hold()
			record := w.record()
			w.alpha.runs(64, []string{"break", dir}, "RECORD")
			w.alpha.runs(75, []string{"break", dir, old}, "changed hands", record)
			w.alpha.runs(75, []string{"break", dir, record}, "lives on this host", "--force")
			if w.record() != record {
				t.Fatal("a refused break took the lock away")
			}
			w.beta.runs(0, []string{"break", dir, record}, "broke the lock of "+dir+", which process", "of host alpha held", "foreign")
			w.free()
			w.beta.runs(75, []string{"break", dir, record}, "changed hands", "now it is free")
			j.Close() // which looks whether the lock stands
			w.until("the loss on alpha", w.alpha.lost)

			j = w.alpha.hold()
			w.alpha.runs(0, []string{"break", "--force", dir, w.record()}, "broke the lock")
			w.free()
			j.Close()

			// Junk that is no record.
			if err := os.MkdirAll(w.back(lock.Reserved, "@eaDir"), 0o755); err != nil {
				t.Fatal(err)
			}
			w.alpha.runs(70, []string{"recover", dir}, "@eaDir", "lockfs break ")
			w.alpha.runs(70, []string{"status", dir}, "odd", "@eaDir", "lockfs break ")
			w.alpha.runs(0, []string{"break", dir, "@eaDir"}, "removed what stood in the way")
			w.nothingLeft()
			if name == "mount" && !w.alpha.says("broke the lock of ") {
				t.Error("the daemon does not log that a lock was broken")
			}
		})
	}
}

// A user can break through the mount what he can break in the tree, and no more.
func TestBreakByUser(t *testing.T) {
	need(t, "setpriv", "util-linux")
	t.Parallel()
	const user = "1234"
	w := newWorld(t)
	for p := w.tree; p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The program under test must be his to run.
	if err := os.Chmod(filepath.Dir(lockfs), 0o755); err != nil {
		t.Fatal(err)
	}
	as := func(args ...string) *exec.Cmd {
		return w.beta.Command("setpriv", append([]string{"--reuid", user, "--regid", user, "--clear-groups", lockfs}, args...)...)
	}
	for _, mode := range []os.FileMode{0o755, 0o777} {
		if err := os.Chmod(w.back(), mode); err != nil {
			t.Fatal(err)
		}
		j := w.alpha.hold()
		record := w.record()
		var codes []int
		for _, dir := range []string{w.back(), w.in()} {
			out, err := as("break", dir, record).CombinedOutput()
			codes = append(codes, exitCode(err))
			if code := exitCode(err); code != 0 && code != 77 && code != 75 {
				t.Errorf("mode %o, %s: exit code %d: %s", mode, dir, code, out)
			}
		}
		if mode == 0o755 && (codes[0] != 77 || codes[1] != 77 || w.record() != record) {
			t.Errorf("mode %o: exit codes %v, and the record is %q", mode, codes, w.record())
		}
		if mode == 0o777 && (codes[0] != 0 || codes[1] != 75) {
			t.Errorf("mode %o: exit codes %v", mode, codes)
		}
		j.Close()
		w.free()
	}
	// Again through the mount, where nobody has broken it in the tree before.
	j := w.alpha.hold()
	if out, err := as("break", w.in(), w.record()).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	w.free()
	j.Close()
	// An attribute of lockfs's own is nobody's to set otherwise.
	for _, attr := range []string{"user.lockfs.status", "user.lockfs.x"} {
		if err := w.ended(w.alpha.client("setxattr", w.in(), attr)); err == nil || !strings.Contains(err.Error(), syscall.EPERM.Error()) {
			t.Errorf("setting %s: %v", attr, err)
		}
	}
}

// says reports whether the host's daemon has logged a message that begins so.
func (h *host) says(text string) bool {
	h.w.t.Helper()
	events, err := h.daemon.Events()
	if err != nil {
		h.w.t.Fatal(err)
	}
	for _, e := range events {
		if msg, _ := e["msg"].(string); strings.HasPrefix(msg, text) {
			return true
		}
	}
	return false
}
