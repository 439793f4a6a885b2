package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/lockfs/lockfs/procid"
)

// CardsName is the directory in a tree's root in which each host that has
// mounted the tree has left a card: the one thing of lockfs's that stays. A
// card is a symbolic link whose name is a record, of the process that left it,
// and whose target is for people. Only those who look for clones read them; no
// lock depends on them, and anybody who may can remove them at any time.
const CardsName = candidatePrefix + "hosts"

// cardsMode lets those make cards only who made the directory: one that
// everybody can make would have a mount refused for a host that there never was.
const cardsMode fs.FileMode = 0o755

// Card is what a host has left in a tree that it mounted.
type Card struct {
	// Name is its file name in CardsName.
	Name string
	ID   procid.ID
	// Since is when it was left, by that host's clock; zero if it is not known.
	Since time.Time
}

// String names the host for people.
func (c Card) String() string {
	if c.Since.IsZero() {
		return "host " + c.ID.Host
	}
	return fmt.Sprintf("host %s (%s)", c.ID.Host, c.Since.UTC().Format(time.DateTime+" MST"))
}

// Cards returns the cards in the tree whose root is d, by name. Of a tree that
// has none it is empty.
func Cards(d Dir) ([]Card, error) {
	names, err := d.List(CardsName)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var cards []Card
	for _, name := range names {
		r, err := parseRecord(name)
		if err != nil {
			continue // of a newer lockfs, or a .nfsXXXX
		}
		c := Card{Name: name, ID: r.holder}
		if target, err := d.Readlink(CardsName + "/" + name); err == nil {
			c.Since = parseNote(target).Since
		}
		cards = append(cards, c)
	}
	return cards, nil
}

// LeaveCard leaves a card of this host in the tree whose root is d, unless this
// boot of it has left one before, and removes those of its earlier boots.
// seen is what Cards has returned.
func LeaveCard(d Dir, self *procid.Local, seen []Card, cause Cause) error {
	return newHolder(self.ID(), self.Judge).leaveCard(d, seen, cause)
}

func (h *holder) leaveCard(d Dir, seen []Card, cause Cause) error {
	var earlier []Card
	for _, c := range seen {
		switch {
		case !h.own(c):
		case c.ID.Boot == h.self.Boot:
			return nil
		default:
			earlier = append(earlier, c)
		}
	}
	if err := d.Mkdir(CardsName, cardsMode); err != nil && !held(err) {
		return err
	}
	r := h.newRecord()
	defer drop(r)
	n := note{Cause: cause, Since: h.now()}
	if err := d.Symlink(n.String(), CardsName+"/"+r.name()); err != nil {
		return err
	}
	var failed error
	for _, c := range earlier {
		if err := d.Unlink(CardsName + "/" + c.Name); err != nil && !absent(err) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// own reports whether the card is of this host, in whichever boot. It is no
// judgement: a host without a fingerprint is told by its name.
func (h *holder) own(c Card) bool {
	return c.ID.Machine == h.self.Machine && c.ID.Fingerprint == h.self.Fingerprint && c.ID.Host == hostForName(h.self.Host)
}

// Clones are the cards of others under the identity of the host self.
type Clones struct {
	// Shared are told from self, and never judged: of another machine with its
	// machine-id, or of itself before its hardware or name was changed.
	Shared []Card
	// Twins cannot be told from self: their locks would be taken for what an
	// earlier boot of self has left, though another host of another name left
	// the card, or self before it was renamed.
	Twins []Card
}

// ClonesIn sorts out which of the cards are of clones of the host self.
func ClonesIn(cards []Card, self *procid.Local) Clones {
	return newHolder(self.ID(), self.Judge).clonesIn(cards)
}

func (h *holder) clonesIn(cards []Card) Clones {
	var cs Clones
	for _, c := range cards {
		if c.ID.Machine != h.self.Machine || h.own(c) {
			continue
		}
		switch j := h.judge(c.ID); {
		case j.SharedMachine:
			cs.Shared = append(cs.Shared, c)
		case c.ID.Boot != h.self.Boot && j.Stale():
			cs.Twins = append(cs.Twins, c)
		}
	}
	return cs
}

// discardCards removes all cards, for who removes the tree's root.
func discardCards(d Dir) error {
	names, err := d.List(CardsName)
	if absent(err) || noLock(err) {
		return nil // what is no directory is not lockfs's
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := d.Unlink(CardsName + "/" + name); err != nil && !absent(err) {
			return err
		}
	}
	if err := d.Rmdir(CardsName); err != nil && !absent(err) {
		return err
	}
	return nil
}
