package nfslab_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockfs/lockfs/integration/nfslab"
	"github.com/lockfs/lockfs/integration/nfslab/locker"
	"github.com/lockfs/lockfs/lock"
)

var (
	matrix  = flag.Bool("nfslab.matrix", false, "test every kind of mount and export, both kernels, faults and figures: hours")
	results = flag.String("nfslab.results", "", "put what the matrix showed into this `file`, in Markdown")
)

// bound is how long anything that has to happen may take. Only a failure
// reaches it.
const bound = 6 * time.Minute

// needMatrix skips what is not worth its time at every change.
func needMatrix(t *testing.T) {
	t.Helper()
	if !*matrix {
		t.Skip("takes long; run with: go test ./integration/nfslab -timeout 4h -args -nfslab.matrix")
	}
}

// built holds the programs for the hosts, each made once.
var built struct {
	sync.Mutex
	dir string
}

// program returns the path of a program of this module for the hosts.
func program(t *testing.T, pkg string) string {
	t.Helper()
	return madeOnce(t, filepath.Base(pkg), func(path string) error {
		return nfslab.Build(context.Background(), path, "github.com/lockfs/lockfs/"+pkg)
	})
}

// clientProgram returns the path of the tests of package integration, which are
// the programs too that act in its mounts: see its client_test.go.
func clientProgram(t *testing.T) string {
	t.Helper()
	return madeOnce(t, "client", func(path string) error {
		cmd := exec.Command("go", "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", path, "..")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go test -c: %w: %s", err, text)
		}
		return nil
	})
}

// madeOnce returns the path of a file that build makes.
func madeOnce(t *testing.T, name string, build func(path string) error) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "programs-nfslab-")
		if err != nil {
			t.Fatal(err)
		}
		built.dir = dir
	}
	path := filepath.Join(built.dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := build(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := os.RemoveAll(built.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// world is a lab with a locker on each client.
type world struct {
	t   *testing.T
	ctx context.Context
	lab *nfslab.Lab
	c   []*client
	// names counts what unused returned.
	names int
}

type client struct {
	*nfslab.Host
	w      *world
	proc   *nfslab.Process
	locker *locker.Client
}

// newWorld starts a lab. What the hosts' consoles said is shown if the test
// fails.
func newWorld(t *testing.T, config nfslab.Config) *world {
	t.Helper()
	nfslab.Need(t)
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	began := time.Now()
	lab, err := nfslab.Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the lab of %d hosts was up after %v", len(lab.Hosts()), time.Since(began).Round(time.Millisecond))
	w := &world{t: t, lab: lab, ctx: context.Background()}
	t.Cleanup(func() {
		if t.Failed() {
			for _, h := range lab.Hosts() {
				t.Logf("%s: %s", h.Name, h.Log())
			}
		}
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, h := range lab.Clients {
		c := &client{Host: h, w: w}
		w.c = append(w.c, c)
		c.start()
		// The one of that time: a host's locker may die and be started anew.
		t.Cleanup(func() { c.locker.Close() })
	}
	return w
}

// start puts the locker into the host and starts it.
func (c *client) start() {
	c.w.t.Helper()
	c.put("integration/nfslab/lockerd")
	var err error
	if c.proc, err = c.Start(c.w.ctx, "lockerd"); err != nil {
		c.w.t.Fatal(err)
	}
	c.locker = locker.NewClient(c.proc)
}

// put puts a program of this module into the host's /bin.
func (c *client) put(pkg string) {
	c.w.t.Helper()
	c.install(program(c.w.t, pkg))
}

// install puts a file into the host's /bin.
func (c *client) install(path string) {
	c.w.t.Helper()
	ctx, cancel := context.WithTimeout(c.w.ctx, bound)
	defer cancel()
	if err := c.Put(ctx, path, "/bin/"+filepath.Base(path), 0o755); err != nil {
		c.w.t.Fatal(err)
	}
}

// sh runs a shell's script, which must succeed, in the host.
func sh(t *testing.T, h *nfslab.Host, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	out, err := h.Sh(ctx, script)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// calls makes system calls in the host and returns what each said: see the
// agent's call. They are separated by " , ".
func (c *client) calls(format string, args ...any) []string {
	c.w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	answers, err := c.Call(ctx, strings.Fields(fmt.Sprintf(format, args...))...)
	if err != nil {
		c.w.t.Fatal(err)
	}
	return answers
}

// ask calls a method of the locker.
func (c *client) ask(method string, in locker.Request) locker.Reply {
	c.w.t.Helper()
	r, err := c.try(method, in)
	if err != nil {
		c.w.t.Fatalf("%s: %s: %v", c.Name, method, err)
	}
	return r
}

func (c *client) try(method string, in locker.Request) (locker.Reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	return c.locker.Call(ctx, method, in)
}

// must is ask of what must succeed.
func (c *client) must(method string, in locker.Request) locker.Reply {
	c.w.t.Helper()
	r := c.ask(method, in)
	if r.Err != "" {
		c.w.t.Fatalf("%s: %s %s: %s", c.Name, method, in.Path, r.Err)
	}
	return r
}

// take takes a lock and release lets it go.
func (c *client) take(dir string, job uint32) (hold int) {
	c.w.t.Helper()
	return c.must("Take", locker.Request{Path: dir, Job: job, Wait: lock.Forever}).Hold
}

func (c *client) release(dir string, hold int) {
	c.w.t.Helper()
	c.must("Release", locker.Request{Path: dir, Hold: hold})
}

// asked is a call that is under way.
type asked struct {
	c    *client
	done chan struct{}
	r    locker.Reply
	err  error
}

// begin calls a method and does not wait.
func (c *client) begin(method string, in locker.Request) *asked {
	a := &asked{c: c, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.r, a.err = c.try(method, in)
	}()
	return a
}

// pending reports whether there is no answer yet.
func (a *asked) pending() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// answer waits for the answer, which must be a success.
func (a *asked) answer() locker.Reply {
	a.c.w.t.Helper()
	<-a.done
	if a.err != nil {
		a.c.w.t.Fatalf("%s: %v", a.c.Name, a.err)
	}
	if a.r.Err != "" {
		a.c.w.t.Fatalf("%s: %s", a.c.Name, a.r.Err)
	}
	return a.r
}

// until polls for a state.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v still not: %s", bound, what)
		}
	}
}

// dir makes a directory that everybody may use, on the server, since root may
// be nobody elsewhere. It is on the disk, and so outlives the server's power-off.
// name must be new: what a re-exporter has seen it believes.
func (w *world) dir(name string) {
	w.t.Helper()
	sh(w.t, w.lab.Server, "mkdir -m 777 /export/"+name+" && sync")
}

// unused returns a name that was not used before.
func (w *world) unused(kind string) string {
	w.names++
	return kind + itoa(w.names)
}
