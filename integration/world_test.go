package integration

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockfs/lockfs/internal/played"
	"github.com/lockfs/lockfs/lock"
)

// bound is how long a test waits for a state. Only a failure reaches it.
const bound = time.Minute

// world is two hosts that have one tree mounted, each at mnt.
type world struct {
	t           *testing.T
	ctx         context.Context
	tree, mnt   string
	options     []string      // arguments of lockfs mount
	bound       time.Duration // as the constant, where not much more is to be waited for
	alpha, beta *host
}

// host is a played host and its newest daemon.
type host struct {
	*played.Host
	w      *world
	daemon *played.Daemon
}

// newWorld makes the tree with the directory D in it and mounts it on both
// hosts. When the test ends the daemons are told to end and must do so well,
// and nothing of lockfs may be left in the tree.
func newWorld(t *testing.T, options ...string) *world {
	t.Helper()
	canMount(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{t: t, ctx: ctx, tree: filepath.Join(dir, "tree"), mnt: filepath.Join(dir, "mnt"), options: options, bound: bound}
	for _, d := range []string{w.tree, w.mnt, w.back()} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.alpha, w.beta = w.newHost("alpha"), w.newHost("beta")
	// Before the hosts' own cleanups, which take everything away.
	t.Cleanup(func() {
		defer cancel()
		for _, h := range []*host{w.alpha, w.beta} {
			if t.Failed() {
				t.Logf("%s:\n%s", h.Name, h.daemon.Log())
			}
			if err := h.daemon.Stop(); err != nil {
				t.Errorf("%s: %v", h.Name, err)
			}
		}
		w.nothingLeft()
	})
	return w
}

func (w *world) newHost(name string) *host {
	w.t.Helper()
	p, err := played.New(name)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			w.t.Error(err)
		}
	})
	h := &host{Host: p, w: w}
	h.mount()
	return h
}

// mount starts a daemon on the host.
func (h *host) mount() {
	h.w.t.Helper()
	h.mountBy(lockfs)
}

// mountBy is mount by another program than lockfs.
func (h *host) mountBy(program string) {
	h.w.t.Helper()
	var err error
	if h.daemon, err = h.Mount(program, h.w.tree, h.w.mnt, h.w.options...); err != nil {
		h.w.t.Fatal(err)
	}
}

// back is D as it is in the tree; in returns a path below D in the mount.
func (w *world) back(name ...string) string {
	return filepath.Join(append([]string{w.tree, "D"}, name...)...)
}
func (w *world) in(name ...string) string {
	return filepath.Join(append([]string{w.mnt, "D"}, name...)...)
}

// sh starts a shell's script on the host, in D of the mount.
func (h *host) sh(script string) *played.Job {
	h.w.t.Helper()
	return h.start("sh", "-c", "cd "+h.w.in()+" || exit; "+script)
}

// client starts this test binary as a client on the host.
func (h *host) client(args ...string) *played.Job {
	h.w.t.Helper()
	return h.start("env", append([]string{clientEnv + "=1", client}, args...)...)
}

// start starts a job that is killed when the test ends.
func (h *host) start(name string, args ...string) *played.Job {
	h.w.t.Helper()
	j, err := h.Start(name, args...)
	if err != nil {
		h.w.t.Fatal(err)
	}
	h.w.t.Cleanup(j.Close)
	return j
}

// expect waits for the job's next line.
func (w *world) expect(j *played.Job, want string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, w.bound)
	defer cancel()
	if err := j.Expect(ctx, want); err != nil {
		w.t.Fatal(err)
	}
}

// line waits for the job's next line and returns it.
func (w *world) line(j *played.Job) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, w.bound)
	defer cancel()
	line, err := j.Line(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return line
}

// tell lets the job go on.
func (w *world) tell(j *played.Job) {
	w.t.Helper()
	if err := j.Tell(); err != nil {
		w.t.Fatal(err)
	}
}

// done waits for the job to end well.
func (w *world) done(j *played.Job) {
	w.t.Helper()
	if err := w.ended(j); err != nil {
		w.t.Fatal(err)
	}
}

// ended waits for the job to end and returns how.
func (w *world) ended(j *played.Job) error {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, w.bound)
	defer cancel()
	err := j.Wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		w.t.Fatal(err)
	}
	return err
}

// until waits for a state.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(w.bound); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("not seen within %v: %s", w.bound, what)
		}
	}
}

// status asks the host's daemon for the status of D, or of what is below it.
func (h *host) status(name ...string) lock.Status {
	h.w.t.Helper()
	out, err := h.Command(lockfs, "status", "--json", h.w.in(name...)).Output()
	var st lock.Status
	if err == nil {
		err = json.Unmarshal(out, &st)
	}
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			h.w.t.Fatalf("status on %s: %v: %s", h.Name, err, failed.Stderr)
		}
		h.w.t.Fatalf("status on %s: %v: %q", h.Name, err, out)
	}
	return st
}

// waits waits until n jobs on the host wait for the lock of D.
func (h *host) waits(n int) {
	h.w.t.Helper()
	h.w.until("waiters on "+h.Name, func() bool { return len(h.status().Waiters) == n })
}

// record returns the record in the lock of D, as the tree has it; "" if free.
func (w *world) record() string {
	w.t.Helper()
	names, err := os.ReadDir(w.back(lock.Reserved))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0].Name()
	}
	w.t.Fatalf("%d records in one lock: %v", len(names), names)
	return ""
}

// heldBy waits until a daemon of the host holds the lock of D.
func (w *world) heldBy(h *host) {
	w.t.Helper()
	w.until("a lock of "+h.Name, func() bool { return strings.Contains(w.record(), ","+h.Name+",") })
}

// free waits until the lock of D is gone.
func (w *world) free() {
	w.t.Helper()
	w.until("the end of the lock", func() bool {
		_, err := os.Lstat(w.back(lock.Reserved))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// hold starts a job on the host that holds the lock of D through an open file
// until it is told to go on.
func (h *host) hold() *played.Job {
	h.w.t.Helper()
	j := h.sh("exec 3>>held; echo opened; read go; exec 3>&-; echo closed; read go")
	h.w.expect(j, "opened")
	h.w.heldBy(h)
	return j
}

// read returns a file of D as the tree has it; "" if it is not there.
func (w *world) read(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(w.back(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	return string(b)
}

// write makes a file of D in the tree, beside all locks.
func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(w.back(name), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// nothingLeft waits until no name of lockfs is in the tree: a daemon answers
// who waits or releases before it has cleaned up.
func (w *world) nothingLeft() {
	w.t.Helper()
	var left []string
	for deadline := time.Now().Add(w.bound); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if left = w.left(); len(left) == 0 {
			return
		}
	}
	for _, path := range left {
		w.t.Errorf("left behind: %s", path)
	}
}

// left returns the paths of lockfs's own that are in the tree.
func (w *world) left() []string {
	w.t.Helper()
	var all []string
	err := filepath.WalkDir(w.tree, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone since its directory was read
		}
		if err == nil && strings.HasPrefix(e.Name(), lock.Reserved) {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// recovered reports whether the host's daemon has said that it recovered a
// lock.
func (h *host) recovered() bool {
	h.w.t.Helper()
	events, err := h.daemon.Events()
	if err != nil {
		h.w.t.Fatal(err)
	}
	for _, e := range events {
		if msg, _ := e["msg"].(string); strings.HasPrefix(msg, "recovered the lock") {
			return true
		}
	}
	return false
}

// exitedBy reports whether err says that a program was ended by the signal.
func exitedBy(err error, sig syscall.Signal) bool {
	var failed *exec.ExitError
	if !errors.As(err, &failed) {
		return false
	}
	ws, ok := failed.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == sig
}

// canMount skips the test where no host with mounts can be played.
func canMount(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		unable(t, "needs root: hosts are namespaces, and they mount")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		unable(t, "needs /dev/fuse: modprobe fuse, or docker run --device /dev/fuse --cap-add SYS_ADMIN")
	}
	need(t, "nsenter", "util-linux")
	if err := lookAtProgram(); err != nil {
		t.Fatal(err)
	}
}

// need skips the test if a program is missing.
func need(t *testing.T, program, pkg string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		unable(t, "needs "+program+": apt-get install "+pkg)
	}
}

// unable skips a test that cannot run here; in CI that is a failure.
func unable(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}
