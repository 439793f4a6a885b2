package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lockfs/lockfs/lock"
)

// places are where a command runs under D's lock: through the mount, and in the
// tree itself.
func (w *world) places() map[string]string {
	return map[string]string{"mount": w.in(), "tree": w.back()}
}

// status is the exit status as a shell has it.
func status(err error) int {
	var failed *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &failed):
		return -1
	}
	if ws := failed.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return failed.ExitCode()
}

// A command's exit status is its own, and one that can't be run has the
// shell's; a directory that can't be locked keeps it from running.
func TestRunStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("plain", "no program")
	for name, d := range w.places() {
		for _, tt := range []struct {
			args []string
			want int
		}{
			{[]string{d, "--", "true"}, 0},
			{[]string{d, "--", "sh", "-c", "exit 3"}, 3},
			{[]string{d, "-c", "exit 4"}, 4},
			{[]string{d, "--", "sh", "-c", "kill -9 $$"}, 137},
			{[]string{d, "--", "no-such-program"}, 127},
			{[]string{d, "--", d + "/plain"}, 126},
			{[]string{d + "/none", "--", "touch", d + "/ran"}, 74},
			{[]string{d, d + "/.", d, "--", "true"}, 0},
		} {
			out, err := w.alpha.Command(lockfs, append([]string{"run"}, tt.args...)...).CombinedOutput()
			if got := status(err); got != tt.want {
				t.Errorf("in the %s: run %q: %d, want %d: %s", name, tt.args, got, tt.want, out)
			}
			w.free()
		}
	}
	if _, err := os.Stat(w.back("ran")); err == nil {
		t.Error("a command ran without the lock")
	}
}

// While a command runs, another host's waits, or ends as it was told to; a wait
// that is interrupted leaves nothing.
func TestRunHolds(t *testing.T) {
	for _, place := range []string{"mount", "tree"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			d := w.places()[place]
			// A new session that writes there is of the job whose descriptor it has.
			j := w.alpha.start(lockfs, "run", d, "--", "sh", "-c", "cd "+d+"; setsid -w sh -c 'echo x >f'; echo in; read go; echo out; exit 7")
			w.expect(j, "in")
			for _, tt := range []struct {
				args []string
				want int
			}{
				{[]string{"-n", d, "--", "touch", d + "/ran"}, 75},
				{[]string{"-n", "-E", "9", d, "--", "touch", d + "/ran"}, 9},
				{[]string{"-w", "0.3", d, "--", "touch", d + "/ran"}, 75},
			} {
				for _, h := range []*host{w.alpha, w.beta} {
					out, err := h.Command(lockfs, append([]string{"run"}, tt.args...)...).CombinedOutput()
					if got := status(err); got != tt.want || !strings.Contains(string(out), "lock of "+d) && !strings.Contains(string(out), "alpha") {
						t.Errorf("on %s: run %q: %d, want %d: %s", h.Name, tt.args, got, tt.want, out)
					}
				}
			}
			waiting, err := os.Create(filepath.Join(t.TempDir(), "said"))
			if err != nil {
				t.Fatal(err)
			}
			cmd := w.beta.Command(lockfs, "run", d, "--", "touch", d+"/ran")
			cmd.Stderr = waiting
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.until("that the waiting command says who holds", func() bool {
				said, err := os.ReadFile(waiting.Name())
				return err == nil && strings.Contains(string(said), "waiting for the lock of "+d) && strings.Contains(string(said), "host alpha")
			})
			cmd.Process.Signal(syscall.SIGINT)
			if got := status(cmd.Wait()); got != 130 {
				t.Errorf("an interrupted wait: %d, want 130", got)
			}
			w.until("the end of the candidates", func() bool { return len(w.left()) == 1 }) // the lock itself
			if _, err := os.Stat(w.back("ran")); err == nil {
				t.Error("a command ran without the lock")
			}
			next := w.beta.start(lockfs, "run", d, "--", "echo", "next")
			w.tell(j)
			w.expect(j, "out")
			if got := statusOf(w.ended(j)); got != 7 {
				t.Errorf("the command's status is %d, want 7", got)
			}
			w.expect(next, "next")
			w.done(next)
		})
	}
}

// statusOf is status of a job's end.
func statusOf(err error) int {
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return status(failed)
	}
	return status(err)
}

// Commands that want the same two locks, named in different orders, get on.
func TestRunBoth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := os.Mkdir(filepath.Join(w.tree, "E"), 0o755); err != nil {
		t.Fatal(err)
	}
	const loop = `n=0; while [ $((n = n + 1)) -le 15 ]; do "$0" run "$1" "$2" -- true || exit; done; echo well`
	d, e := w.in(), filepath.Join(w.mnt, "E")
	bd, be := w.back(), filepath.Join(w.tree, "E")
	a := w.alpha.start("sh", "-c", loop, lockfs, d, e)
	b := w.beta.start("sh", "-c", loop, lockfs, e, d)
	c := w.beta.start("sh", "-c", loop, lockfs, be, bd)
	w.expect(a, "well")
	w.expect(b, "well")
	w.expect(c, "well")
}

// Signals reach the command on a tree without a mount; and it does not outlive
// the holder, whose lock is recovered by the next one of its host.
func TestRunSupervises(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.back()
	j := w.alpha.start(lockfs, "run", d, "--", "sh", "-c", `trap 'echo usr1' USR1; trap 'echo term; exit 5' TERM; echo in; while :; do sleep 0.05; done`)
	w.expect(j, "in")
	for sig, want := range map[syscall.Signal]string{syscall.SIGUSR1: "usr1"} {
		if err := j.Signal(sig); err != nil {
			t.Fatal(err)
		}
		w.expect(j, want)
	}
	if err := j.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.expect(j, "term")
	if got := statusOf(w.ended(j)); got != 5 {
		t.Errorf("status %d, want 5", got)
	}
	w.free()

	j = w.alpha.start(lockfs, "run", d, "--", "sh", "-c", `echo $$; exec sleep 1000`)
	ctx := t.Context()
	child, err := j.Line(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w.heldBy(w.alpha)
	if err := j.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.until("the child's end", func() bool {
		b, err := os.ReadFile("/proc/" + child + "/stat")
		return err != nil || strings.Contains(string(b), ") Z")
	})
	if w.record() == "" {
		t.Error("the lock of a killed holder is gone: this test shows nothing")
	}
	if out, err := w.beta.Command(lockfs, "run", "-n", d, "--", "true").CombinedOutput(); status(err) != 75 {
		t.Errorf("another host does not leave it alone: %v: %s", err, out)
	}
	if out, err := w.alpha.Command(lockfs, "run", "-w", "60", d, "--", "true").CombinedOutput(); err != nil {
		t.Errorf("its own host does not recover it: %v: %s", err, out)
	}
	w.free()
}

// A command whose lock is taken away is killed.
func TestRunLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.back()
	j := w.alpha.start(lockfs, "run", d, "--", "sh", "-c", "echo in; exec sleep 1000")
	w.expect(j, "in")
	if err := os.RemoveAll(filepath.Join(d, lock.Reserved)); err != nil {
		t.Fatal(err)
	}
	if got := statusOf(w.ended(j)); got != 76 {
		t.Errorf("status %d, want 76", got)
	}
}
