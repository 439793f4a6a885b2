package nfslab_test

import (
	"strings"
	"testing"

	"github.com/lockfs/lockfs/integration/nfslab"
	"github.com/lockfs/lockfs/lock"
)

// TestMountedClones mounts lockfs on two hosts with one machine-id: the second
// says so as it mounts, the doctor of each says so, and neither takes a lock
// that the other holds.
func TestMountedClones(t *testing.T) {
	w := newWorld(t, nfslab.Config{Cloned: true})
	name := w.unused("clones")
	w.dir(name)
	a, b := w.c[0].overlay("/mnt", "/work"), w.c[1].overlay("/mnt", "/work")
	b.told("another host with this host's identity has mounted this tree")
	if strings.Contains(a.log(), "this host's identity") {
		t.Errorf("%s knew of its clone before that mounted: %s", a.Name, a.log())
	}
	for _, o := range []*overlay{a, b} {
		said := sh(t, o.Host, "lockfs doctor /mnt")
		for _, want := range []string{"warning  hosts", "ok       nfs hard or soft", "ok       nfs re-export", "the server has the files itself", "ok       of several one wins"} {
			if !strings.Contains(said, want) {
				t.Errorf("the doctor of %s does not say %q: %s", o.Name, want, said)
			}
		}
	}
	holder := a.holding(name, "f")
	waiter := b.waiting(name, "f")
	b.told("is of another host with this host's machine-id")
	holder.writes("one")
	if !waiter.waits() {
		t.Errorf("%s writes under the lock of %s", b.Name, a.Name)
	}
	holder.close()
	waiter.opened()
	waiter.writes("two")
	waiter.close()
	if got := a.must(name, "cat f"); got != "one\ntwo" {
		t.Errorf("the file holds %q", got)
	}
	if got := sh(t, w.lab.Server, "ls -a /export/"+lock.CardsName); len(strings.Fields(got)) != 2+2 {
		t.Errorf("cards: %s", got)
	}
}

// TestDoctorOfReexport has the doctor tell a re-export from an export.
func TestDoctorOfReexport(t *testing.T) {
	needMatrix(t)
	w := newWorld(t, nfslab.Config{Reexport: true, Clients: 1})
	w.dir(w.unused("any"))
	w.c[0].put("cmd/lockfs")
	if said := sh(t, w.c[0].Host, "lockfs doctor /mnt"); !strings.Contains(said, "warning  nfs re-export") {
		t.Errorf("the doctor says %s", said)
	}
}
