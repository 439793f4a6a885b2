package nfslab_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockfs/lockfs/integration/nfslab"
)

// asClient runs the tests of package integration as a client.
const asClient = "LOCKFS_TEST_CLIENT=1 client "

// waitingOps are the operations of that client that wait for the directory's
// lock.
var waitingOps = []string{"create", "excl", "create-cwd", "mkdir", "mkdir-cwd", "unlink", "unlink-cwd", "rmdir", "rename", "rename-cwd",
	"rename-to", "symlink", "link", "mknod", "open", "truncate", "chmod"}

// TestWaiting has every kind of operation wait for the lock of another host on
// the kernels of the hosts: readers beside it are answered, and a signal ends it.
func TestWaiting(t *testing.T) {
	needMatrix(t)
	for _, kernel := range []string{"6.1", "6.12"} {
		t.Run(kernel, func(t *testing.T) {
			w := newWorld(t, nfslab.Config{Kernel: kernel, Tools: true})
			m := &mounted{world: w, a: w.c[0].overlay("/mnt", "/work"), b: w.c[1].overlay("/mnt", "/work")}
			m.b.install(clientProgram(t))
			release := sh(t, m.b.Host, "uname -r")
			if !strings.HasPrefix(release, kernel+".") {
				t.Fatalf("the hosts run kernel %s, not %s", release, kernel)
			}
			var table strings.Builder
			fmt.Fprintf(&table, "Kernel %s.\n\n| while it waits | seen |\n|---|---|\n", release)
			step := func(what string, f func(*mounted)) {
				seen := "ok"
				if !t.Run(what, func(t *testing.T) { m.step(t, f) }) {
					seen = "FAILED"
				}
				fmt.Fprintf(&table, "| %s | %s |\n", what, seen)
			}
			for _, op := range waitingOps {
				step("readers beside "+op, func(m *mounted) { m.readersBeside(op) })
			}
			for _, sig := range []struct {
				name   string
				number int
			}{{"INT", 2}, {"TERM", 15}, {"HUP", 1}, {"KILL", 9}} {
				for _, script := range []string{"exec 3>>old", "exec 3>new", "exec mkdir new"} {
					step("SIG"+sig.name+" ends "+strings.TrimPrefix(script, "exec "), func(m *mounted) { m.ends(sig.name, sig.number, script) })
				}
			}
			step("a handler that raises ends open", (*mounted).raises)
			step("O_NONBLOCK is answered at once", (*mounted).nonblock)
			step("a hundred wait, and all get it", (*mounted).hundred)
			for _, o := range []*overlay{m.a, m.b} {
				o.unmount()
			}
			w.clean()
			report(t, "Waiting, kernel "+kernel, table.String())
		})
	}
}

// step runs f with a new directory, in which there is what the operations of the
// client work on.
func (m *mounted) step(t *testing.T, f func(*mounted)) {
	outer := m.t
	m.t = t
	defer func() { m.t = outer }()
	base := m.unused("waiting")
	m.dir(base)
	m.d = base + "/D"
	sh(t, m.lab.Server, "cd /export/"+base+" && mkdir D D/sub E && echo old >D/old && echo gone >D/gone && echo x >E/x && echo kept >D/kept")
	f(m)
	m.clean()
}

// holdWhile holds the lock on a while f runs, to which it gives a function that
// lets it go.
func (m *mounted) holdWhile(f func(release func())) {
	w := m.a.holding(m.d, "held")
	f(w.close)
}

// waits waits until one job of b waits for the lock.
func (m *mounted) waits(n int) {
	m.t.Helper()
	until(m.t, itoa(n)+" wait on "+m.b.Name, func() bool { return len(m.b.status(m.d).Waiters) == n })
}

// readersBeside has b wait with the operation; meanwhile readers of b are
// answered, from the server and from caches.
func (m *mounted) readersBeside(op string) {
	m.holdWhile(func(release func()) {
		done := m.b.background(m.d, asClient+"op "+op+" "+m.b.to+"/"+m.d)
		m.waits(1)
		// They end while it still waits, since it waits for as long as a holds.
		for range 2 {
			m.b.must(m.d, "ls -lA >/dev/null && cat old kept >/dev/null && ls -A . .. >/dev/null && ! [ -e none.$$ ]")
		}
		m.waits(1)
		release()
		if r := done(); r.Code != 0 {
			m.t.Errorf("%s after its wait: status %d: %s", op, r.Code, r.Stderr)
		}
	})
}

// ends has a signal end the wait of a shell on b.
func (m *mounted) ends(name string, number int, script string) {
	m.holdWhile(func(release func()) {
		p, err := m.b.Start(m.ctx, "sh", "-c", "cd "+m.b.to+"/"+m.d+" || exit; "+script)
		if err != nil {
			m.t.Fatal(err)
		}
		defer p.Close()
		m.waits(1)
		sh(m.t, m.b.Host, "kill -s "+name+" "+itoa(p.PID))
		if code, err := p.Wait(); err != nil || code != 128+number {
			m.t.Errorf("the waiter ended with status %d, %v, want %d", code, err, 128+number)
		}
		m.waits(0)
		release()
	})
}

// raises has a signal's handler that wants out end the wait.
func (m *mounted) raises() {
	m.holdWhile(func(release func()) {
		got := m.b.must(m.d, `python3 -c '
import os, signal
def out(*_): raise TimeoutError
signal.signal(signal.SIGALRM, out)
signal.alarm(1)
try: os.open("old", os.O_WRONLY)
except TimeoutError: print("ended")
'`)
		if got != "ended" {
			m.t.Errorf("it says %q", got)
		}
		m.waits(0)
		release()
	})
}

// nonblock has an open that may not wait say so at once.
func (m *mounted) nonblock() {
	m.holdWhile(func(release func()) {
		got := m.b.must(m.d, `python3 -c '
import errno, os
try: os.open("old", os.O_WRONLY | os.O_NONBLOCK)
except OSError as e: print(errno.errorcode[e.errno])
'`)
		if got != "EAGAIN" {
			m.t.Errorf("it says %q", got)
		}
		release()
	})
}

// hundred has a hundred threads wait at once.
func (m *mounted) hundred() {
	m.holdWhile(func(release func()) {
		done := m.b.background(m.d, asClient+"many old 100")
		m.waits(100)
		m.b.must(m.d, "ls >/dev/null")
		release()
		if r := done(); r.Code != 0 {
			m.t.Errorf("status %d: %s", r.Code, r.Stderr)
		}
	})
}
