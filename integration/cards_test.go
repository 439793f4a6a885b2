package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockfs/lockfs/lock"
)

// commons is a tree that hosts share over a network, as far as lockfs can see.
type commons struct {
	w                *world
	back, front, mnt string
}

func newCommons(t *testing.T) *commons {
	t.Helper()
	w := newWorld(t)
	dir := filepath.Join(filepath.Dir(w.tree), "commons")
	c := &commons{w, filepath.Join(dir, "back"), filepath.Join(dir, "front"), filepath.Join(dir, "mnt")}
	for _, d := range []string{c.back, c.front, c.mnt} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range []*host{w.alpha, w.beta} {
		w.expect(h.client("unfit", "none", c.back, c.front), "up")
	}
	return c
}

// mount mounts the tree on the host and unmounts it. env is the words of env(1)
// that change who the host is.
func (c *commons) mount(h *host, code int, says string, env ...string) {
	c.w.t.Helper()
	c.run(h, code, says, env, "mount", c.front, c.mnt)
	if code == 0 {
		c.run(h, 0, "", nil, "umount", c.mnt)
	}
}

// run runs lockfs on the host, which must end with the code and say the text;
// for "" nothing of hosts that are like it.
func (c *commons) run(h *host, code int, says string, env []string, args ...string) {
	c.w.t.Helper()
	b, err := h.Command("env", slices.Concat(env, []string{lockfs}, args)...).CombinedOutput()
	out := string(b)
	if got := exitCode(err); got != code || !strings.Contains(out, says) {
		c.w.t.Errorf("%s: lockfs %q: exit code %d, want %d and %q: %s", h.Name, args, got, code, says, out)
	}
	if says == "" && strings.Contains(out, "this host's identity") {
		c.w.t.Errorf("%s: lockfs %q speaks of another host: %s", h.Name, args, out)
	}
}

// hosts are the names on the cards in the tree.
func (c *commons) hosts() string {
	c.w.t.Helper()
	cards, err := os.ReadDir(filepath.Join(c.back, lock.CardsName))
	if err != nil && !os.IsNotExist(err) {
		c.w.t.Fatal(err)
	}
	var names []string
	for _, e := range cards {
		names = append(names, strings.Split(e.Name(), ",")[1])
	}
	return fmt.Sprint(names)
}

// Each host that mounts a tree leaves a card in it, one whatever becomes of it.
func TestCards(t *testing.T) {
	t.Parallel()
	c := newCommons(t)
	alpha, beta := c.w.alpha, c.w.beta
	for range 2 {
		c.mount(alpha, 0, "")
		c.mount(beta, 0, "")
	}
	if got := c.hosts(); got != "[alpha beta]" {
		t.Errorf("cards of %s", got)
	}
	c.run(alpha, 0, "ok       hosts", nil, "doctor", c.front)
	if err := alpha.Reboot(); err != nil {
		t.Fatal(err)
	}
	c.w.expect(alpha.client("unfit", "none", c.back, c.front), "up")
	c.mount(alpha, 0, "")
	if got := c.hosts(); got != "[alpha beta]" {
		t.Errorf("after a reboot cards of %s", got)
	}
	alpha.mount() // for the world's end
}

// Two hosts to which one LOCKFS_HOST_ID was given would take each other's
// locks: the second does not mount, until an operator says that it is the first.
func TestCardsOfTwins(t *testing.T) {
	t.Parallel()
	c := newCommons(t)
	same := []string{"LOCKFS_HOST_ID=copied"}
	c.mount(c.w.alpha, 0, "", same...)
	c.mount(c.w.beta, 69, "another host has mounted this tree with this host's identity", same...)
	c.run(c.w.beta, 69, "fault    hosts", same, "doctor", c.front)
	if got := c.hosts(); got != "[alpha]" {
		t.Errorf("cards of %s", got)
	}
	// A user's cards keep nobody from mounting.
	cards := filepath.Join(c.back, lock.CardsName)
	if err := os.Chmod(cards, 0o777); err != nil {
		t.Fatal(err)
	}
	c.mount(c.w.beta, 0, "another host with this host's identity has mounted this tree", same...)
	c.run(c.w.beta, 69, "is not root's alone", same, "doctor", c.front)
	if err := os.RemoveAll(cards); err != nil {
		t.Fatal(err)
	}
	c.mount(c.w.beta, 0, "", same...)
}

// Two hosts with one machine-id are told apart by more than that, and said.
func TestCardsOfClones(t *testing.T) {
	t.Parallel()
	c := newCommons(t)
	if _, err := os.Stat("/etc/machine-id"); err != nil {
		t.Skip("there is no /etc/machine-id to play with (systemd-machine-id-setup makes one)")
	}
	for _, h := range []*host{c.w.alpha, c.w.beta} {
		if out, err := h.Command("sh", "-c", "echo 0123456789abcdef0123456789abcdef >$STATE_DIRECTORY.id; mount --bind $STATE_DIRECTORY.id /etc/machine-id").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	byMachine := []string{"-u", "LOCKFS_HOST_ID"}
	c.mount(c.w.alpha, 0, "", byMachine...)
	c.mount(c.w.beta, 0, "another host with this host's identity has mounted this tree", byMachine...)
	c.mount(c.w.alpha, 0, "another host with this host's identity has mounted this tree", byMachine...)
	c.run(c.w.alpha, 0, "warning  hosts", byMachine, "doctor", c.front)
	if got := c.hosts(); got != "[alpha beta]" {
		t.Errorf("cards of %s", got)
	}
}
