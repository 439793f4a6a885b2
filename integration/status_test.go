package integration

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lockfs/lockfs/lock"
)

// line is a line of status --json.
type line struct {
	Kind, Mount, Source, State, Reason string
	Path, Record, Host, Verdict, Hint  string
	PID, Holds                         int
	Copied                             bool
	Holder                             *lock.LocalHolder
	// Waiters is a number of a mount, and a list of a lock.
	Waiters json.RawMessage
}

// lines runs status --json on the host; its exit code must be the one given.
func (h *host) lines(code int, args ...string) []line {
	h.w.t.Helper()
	cmd := h.Command(lockfs, append([]string{"status", "--json"}, args...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if got := exitCode(err); got != code {
		h.w.t.Fatalf("status %q: exit code %d, want %d: %s", args, got, code, errs.String())
	}
	var all []line
	for text := range strings.Lines(string(out)) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			h.w.t.Fatalf("%q: %v", text, err)
		}
		all = append(all, l)
	}
	return all
}

// So many wait that what is to be said of them is more than an extended attribute
// can have.
func TestStatusOfManyWaiters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	holder := w.alpha.hold()
	const n = 400
	j := w.alpha.client("many", w.in("held"), strconv.Itoa(n))
	w.alpha.waits(n)
	w.tell(holder)
	w.expect(holder, "closed")
	w.done(j)
}

// What a host holds and waits for is told without a path, by its mountpoint,
// and in a tree; to root alone.
func TestStatusOfHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	holder := w.alpha.hold()
	waiter := w.beta.sh("echo x >g")
	w.beta.waits(1)

	for _, args := range [][]string{nil, {w.mnt}} {
		got := w.alpha.lines(0, args...)
		if len(got) != 2 || got[0].Kind != "mount" || got[0].State != "served" || got[0].Mount != w.mnt || got[0].Source != w.tree ||
			got[0].PID != w.alpha.daemon.PID || got[0].Holds != 1 || string(got[0].Waiters) != "0" {
			t.Fatalf("on the holder's host, %q: %+v", args, got)
		}
		if l := got[1]; l.Kind != "lock" || l.Path != w.in() || l.State != "held" || l.Verdict != "alive" || l.Host != "alpha" || l.Holder == nil {
			t.Errorf("on the holder's host, %q: %+v", args, l)
		}
		got = w.beta.lines(0, args...)
		if len(got) != 2 || got[0].Holds != 0 || string(got[0].Waiters) != "1" {
			t.Fatalf("on the waiter's host, %q: %+v", args, got)
		}
		if l := got[1]; l.Path != w.in() || l.State != "held" || l.Verdict != "foreign" || l.Host != "alpha" || l.Record != w.record() ||
			!strings.Contains(l.Hint, "lockfs break "+w.in()+" "+w.record()) {
			t.Errorf("on the waiter's host, %q: %+v", args, l)
		}
	}
	for _, root := range []string{w.tree, w.mnt} {
		got := w.beta.lines(0, "-r", root)
		if len(got) != 1 || got[0].Path != filepath.Join(root, "D") || got[0].State != "held" || got[0].Record != w.record() {
			t.Errorf("the tree %s: %+v", root, got)
		}
	}
	w.beta.runs(0, []string{"status"}, w.mnt+": "+w.tree+", served by process ", "STATE", "waiting", "never comes back: lockfs break ")
	w.beta.runs(0, []string{"status", "-r", w.tree}, "2 directories: 1 held, 0 stale, 0 odd")

	// Nobody else is told what all users do, and the file is hidden.
	file := filepath.Join(w.mnt, ".lockfs.mount")
	if out, err := w.alpha.Command("setpriv", "--reuid", "1234", "--clear-groups", "cat", file).CombinedOutput(); err == nil {
		t.Errorf("any user may read %s", out)
	}
	for script, want := range map[string]string{
		"ls -A " + w.mnt: "D\n",
		"cat " + w.in(".lockfs.mount") + " 2>&1; true":    "No such file",
		"echo x 2>&1 >" + file + "; true":                 "not permitted",
		"rm -f " + file + " 2>&1; true":                   "not permitted",
		"stat -c '%a %u %s' " + file:                      "400 0 0\n",
		"head -c 1 " + file + "; cat " + file + "| wc -l": "{",
	} {
		out, err := w.alpha.Command("sh", "-c", script).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %q, want %q", script, err, out, want)
		}
	}
	w.tell(holder)
	w.tell(holder)
	w.done(holder)
	w.done(waiter)
}

// A mount whose daemon is stopped says nothing, and one whose daemon is dead is
// named: both at once, and nobody waits for ever.
func TestStatusOfSilentMounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := syscall.Kill(w.alpha.daemon.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	got := w.alpha.lines(0)
	if err := syscall.Kill(w.alpha.daemon.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].State != "silent" || !strings.Contains(got[0].Reason, "does not answer") {
		t.Errorf("a stopped daemon: %+v", got)
	}
	if err := w.beta.daemon.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := w.beta.lines(0); len(got) != 1 || got[0].State != "dead" || got[0].Mount != w.mnt {
		t.Errorf("a dead daemon: %+v", got)
	}
	w.beta.mount()
}

// A tree that was copied with a lock in it is told from the tree.
func TestStatusOfCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	holder := w.alpha.hold()
	twin := filepath.Join(w.tree, "copy")
	if out, err := exec.Command("cp", "-a", w.back(), twin).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := w.alpha.lines(0, "-r", w.tree)
	if len(got) != 2 || !got[0].Copied || !got[1].Copied || !strings.Contains(got[1].Hint, "looks like a copy") {
		t.Errorf("%+v", got)
	}
	w.alpha.runs(0, []string{"break", "--force", twin, w.record()})
	if w.record() == "" {
		t.Error("the lock was broken with its copy")
	}
	w.tell(holder)
	w.tell(holder)
	w.done(holder)
}

// A watch draws in a terminal, which it gives back as it was, goes on until
// Ctrl-C, and writes plain text into a pipe.
func TestStatusWatch(t *testing.T) {
	t.Parallel()
	need(t, "script", "bsdutils")
	w := newWorld(t)
	// script(1) makes the terminal; its input ends the watch like a person. A
	// shell that waited for the watch would end by the signal, as dash does.
	command := "exec " + lockfs + " status --watch=100ms " + w.in()
	j := w.alpha.start("script", "-qefc", command, "/dev/null")
	var seen strings.Builder
	frames := func(n int) func() bool {
		return func() bool {
			for strings.Count(seen.String(), "/D: free") < n {
				l, err := j.Line(w.ctx)
				if err != nil {
					t.Fatalf("%v; seen %q", err, seen.String())
				}
				seen.WriteString(l + "\n")
			}
			return true
		}
	}
	w.until("two frames", frames(2))
	holder := w.alpha.hold()
	if err := j.Write("\x03"); err != nil {
		t.Fatal(err)
	}
	w.done(j)
	for l, err := j.Line(w.ctx); err == nil; l, err = j.Line(w.ctx) {
		seen.WriteString(l + "\n")
	}
	text := seen.String()
	if !strings.Contains(text, "\x1b[?1049h") || strings.Count(text, "\x1b[H") < 2 || !strings.HasSuffix(strings.TrimSpace(text), "\x1b[?25h\x1b[?1049l") {
		t.Errorf("in a terminal it writes %q", text)
	}
	piped := w.alpha.start(lockfs, "status", "--watch=100ms", "--json", w.in())
	for range 2 {
		l, err := piped.Line(w.ctx)
		if err != nil || !strings.HasPrefix(l, `{"kind":"lock"`) {
			t.Fatalf("in a pipe it writes %q, %v", l, err)
		}
	}
	if err := piped.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	w.done(piped)
	w.tell(holder)
	w.tell(holder)
	w.done(holder)
}
