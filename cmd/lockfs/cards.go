package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// guests are the hosts that have left a card in a tree.
type guests struct {
	source string
	dir    lock.Dir
	cards  []lock.Card
	lock.Clones
}

// readGuests reads the cards in the tree source. It returns nil where there
// are none to be: on a file system that no other host comes to; and for a user
// without LOCKFS_HOST_ID, who can't read all of what tells machines apart, so
// that root's card would seem to be a clone's. close ends its use.
func readGuests(source string, self *procid.Local) (*guests, error) {
	if os.Geteuid() != 0 && os.Getenv(procid.EnvHostID) == "" {
		return nil, nil
	}
	m, err := treeMount(source)
	if err != nil || slices.Contains(localTypes, m.fsType) {
		return nil, err
	}
	d, err := lock.OpenPath(source, ownerOf(source))
	if err != nil {
		return nil, err
	}
	cards, err := lock.Cards(d)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", filepath.Join(source, lock.CardsName), err), d.Close())
	}
	return &guests{source: source, dir: d, cards: cards, Clones: lock.ClonesIn(cards, self)}, nil
}

func (g *guests) close() { g.dir.Close() } // of a directory: it has nothing to fail with

// trusted reports whether the cards are of those who may mount the tree for
// all: a user's could keep them from it.
func (g *guests) trusted() bool {
	const nobody = 65534 // root of a client, to an export with root_squash
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(g.source, lock.CardsName), &st); err != nil {
		return false
	}
	owner := ownerOf(g.source).UID
	return st.Mode&0o022 == 0 && (st.Uid == 0 || st.Uid == nobody || st.Uid == owner || int(st.Uid) == os.Geteuid())
}

// describe names the hosts of the cards, and where the cards are.
func (g *guests) describe(cards []lock.Card) string {
	const most = 3
	var b strings.Builder
	for i, c := range cards[:min(len(cards), most)] {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%v: %s", c, lock.Quote(filepath.Join(g.source, lock.CardsName, c.Name)))
	}
	if n := len(cards) - most; n > 0 {
		fmt.Fprintf(&b, "; and %d more", n)
	}
	return b.String()
}

// twins is the error of a mount that would take another host's locks for what
// this one's earlier boots have left.
func (g *guests) twins() error {
	if len(g.Twins) == 0 || !g.trusted() {
		return nil
	}
	return withCode(exitUnfit, fmt.Errorf("another host has mounted this tree with this host's identity, and each would take the other's locks: give each a LOCKFS_HOST_ID of its own; if it was this host under another name, remove its card (%s)", g.describe(g.Twins)))
}

// leaveCard leaves this host's card in the tree that is to be mounted, and
// says which other hosts have its identity. The error is for what would
// corrupt; that no card can be left is none.
func (r *mountRequest) leaveCard(self *procid.Local, log *logrus.Logger) error {
	g, err := readGuests(r.source, self)
	if err != nil {
		log.WithError(err).Warn("cards of hosts not read")
		return nil
	}
	if g == nil {
		return nil
	}
	defer g.close()
	if err := g.twins(); err != nil {
		return err
	}
	if others := slices.Concat(g.Shared, g.Twins); len(others) > 0 {
		log.WithField("cards", g.describe(others)).Warn("another host with this host's identity has mounted this tree")
	}
	err = lock.LeaveCard(g.dir, self, g.cards, lock.Cause{Program: "lockfs mount", Mount: r.target})
	switch {
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		log.WithError(err).Info("no card of this host left")
	case err != nil:
		log.WithError(err).Warn("no card of this host left")
	}
	return nil
}

// examineGuests says which hosts have mounted the tree, and which of them have
// this host's identity.
func examineGuests(source string) []finding {
	const check = "hosts"
	self, err := procid.Self()
	if err != nil {
		return nil // told by who looks at the host
	}
	g, err := readGuests(source, self)
	if err != nil {
		return []finding{warning(check, "", "%v", err)}
	}
	if g == nil {
		return nil
	}
	defer g.close()
	const own = "give each a machine-id or LOCKFS_HOST_ID of its own; if it was this host before its hardware or name was changed, remove its card"
	var findings []finding
	if len(g.cards) > 0 && !g.trusted() {
		findings = append(findings, warning(check, "remove it", "%s is not root's alone, so that what it says may be wrong", filepath.Join(source, lock.CardsName)))
	}
	if len(g.Twins) > 0 {
		findings = append(findings, fault(check, own, "another name has this host's whole identity, and each would take the other's locks: %s", g.describe(g.Twins)))
	}
	if len(g.Shared) > 0 {
		findings = append(findings, warning(check, own, "another machine has this host's machine-id, and neither recovers its locks by itself: %s", g.describe(g.Shared)))
	}
	if findings == nil {
		findings = append(findings, ok(check, "%d have mounted this tree since their cards were last cleared, and none with this host's identity", len(g.cards)))
	}
	return findings
}
