package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// prepare makes what the operations of the client work on.
func (w *world) prepare() {
	w.t.Helper()
	w.write("old", "old\n")
	w.write("gone", "gone\n")
	for _, d := range []string{w.back("sub"), filepath.Join(w.tree, "E")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.tree, "E", "x"), []byte("x\n"), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// reading is what a reader does in D: names, a name that is not there, and
// what is in files, twice, so that the second time may be from a cache.
const reading = `for i in 1 2; do
	ls -lA >/dev/null || exit 1
	[ -e nosuchfile.$$.$i ] && exit 1
	cat old held >/dev/null || exit 1
	ls -A . .. >/dev/null || exit 1
done; echo read`

// While a job waits to alter D, whatever it waits with, readers on its own
// host are answered. No time is measured: they must end while it still waits,
// and it waits for as long as the lock is held.
func TestReadersAreAnsweredWhileAWriterWaits(t *testing.T) {
	for _, op := range opNames() {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.prepare()
			j := w.beta.hold()
			waiter := w.alpha.client("op", op, w.in())
			w.alpha.waits(1)
			reader := w.alpha.sh(reading)
			w.expect(reader, "read")
			w.done(reader)
			if waiter.Over() {
				t.Errorf("%s did not wait", op)
			}
			if n := len(w.alpha.status().Waiters); n != 1 {
				t.Errorf("%d jobs wait, want 1", n)
			}
			w.tell(j)
			w.done(waiter)
			w.tell(j)
			w.done(j)
			w.free()
		})
	}
}

// However many wait on one host, it has one candidate in the tree: one of them
// asks the server.
func TestManyWaitersOnePoller(t *testing.T) {
	const many = 200
	w := newWorld(t)
	w.write("old", "old\n")
	j := w.beta.hold()
	waiters := w.alpha.client("many", w.in("old"), "200")
	w.alpha.waits(many)
	reader := w.alpha.sh(reading)
	w.expect(reader, "read")
	for range 100 {
		entries, err := os.ReadDir(w.back())
		if err != nil {
			t.Fatal(err)
		}
		candidates := 0
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".lockfs.") {
				candidates++
			}
		}
		if candidates > 1 {
			t.Fatalf("%d candidates of one host: %v", candidates, entries)
		}
	}
	w.tell(j)
	w.done(waiters)
	w.tell(j)
	w.done(j)
	w.free()
}

// The kernel reads ahead as much as one request can carry.
func TestReadAhead(t *testing.T) {
	if err := unix.Access("/sys/class/bdi", unix.W_OK); err != nil {
		t.Skip("needs a /sys that can be written, for a mount's read_ahead_kb: ", err)
	}
	w := newWorld(t)
	w.expect(w.alpha.sh("cat /sys/class/bdi/$(mountpoint -d "+w.mnt+")/read_ahead_kb"), "1024")
}

// Reading as much as one request can carry is nothing to warn of.
func TestLargeReads(t *testing.T) {
	w := newWorld(t)
	w.write("large", strings.Repeat("0123456789abcde\n", 1<<18))
	j := w.alpha.sh("dd if=large bs=4M iflag=direct status=none | cmp - large && dd if=large bs=4M status=none | cmp - large && echo same")
	w.expect(j, "same")
	w.done(j)
	events, err := w.alpha.daemon.Events()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e["library"] != nil {
			t.Errorf("the log says %v", e["msg"])
		}
	}
}
