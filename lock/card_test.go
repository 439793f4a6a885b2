package lock

import (
	"os"
	"slices"
	"testing"

	"github.com/lockfs/lockfs/procid"
)

// The hosts of the card tests: each has booted as often as its Boot says.
const (
	machineA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	machineB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	boot1    = "11111111111111111111111111111111"
	boot2    = "22222222222222222222222222222222"
	printA   = "aaaaaaaaaaaaaaaa"
	printX   = "cccccccccccccccc"
	// What a machine has that nothing tells from a clone.
	printNone = "0000000000000000"
)

func hostID(host, machine, fingerprint, boot string) procid.ID {
	return procid.ID{Host: host, Machine: machine, Boot: boot, PID: 7, Start: 1, PIDNS: 1, TimeNS: 1, Fingerprint: fingerprint}
}

// judgeAs judges as the host id does, whose present boot has no dead process.
func judgeAs(self procid.ID) Judge {
	return func(id procid.ID) procid.Judgement {
		switch {
		case id.Machine != self.Machine:
			return procid.Judgement{Verdict: procid.Foreign}
		case id.Boot == self.Boot:
			return procid.Judgement{Verdict: procid.Alive}
		case id.Fingerprint != self.Fingerprint, self.Fingerprint == printNone:
			return procid.Judgement{Verdict: procid.Foreign, SharedMachine: true}
		}
		return procid.Judgement{Verdict: procid.Dead}
	}
}

// mountedBy leaves cards as a mount by each of the hosts does, one after the other.
func mountedBy(t *testing.T, d Dir, ids ...procid.ID) {
	t.Helper()
	for _, id := range ids {
		cards, err := Cards(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := newHolder(id, judgeAs(id)).leaveCard(d, cards, Cause{Mount: "/m"}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCards(t *testing.T) {
	a1, a2 := hostID("a", machineA, printA, boot1), hostID("a", machineA, printA, boot2)
	bare1, bare2 := hostID("a", machineA, printNone, boot1), hostID("a", machineA, printNone, boot2)
	b := hostID("b", machineB, printX, boot1)
	clone := hostID("a", machineA, printX, boot2) // other hardware
	twin := hostID("t", machineA, printA, boot2)  // the same LOCKFS_HOST_ID
	for _, c := range []struct {
		name   string
		mounts []procid.ID
		seenBy procid.ID
		stay   []procid.ID
		shared []procid.ID
		twins  []procid.ID
	}{
		{"nobody has mounted it", nil, a1, nil, nil, nil},
		{"one card a boot, however often it mounts", []procid.ID{a1, a1}, a1, []procid.ID{a1}, nil, nil},
		{"a boot takes the card of an earlier one away", []procid.ID{a1, a2}, a2, []procid.ID{a2}, nil, nil},
		{"though nothing tells the host from a clone", []procid.ID{bare1, bare2}, bare2, []procid.ID{bare2}, nil, nil},
		{"another host is no clone", []procid.ID{a1, b}, a1, []procid.ID{a1, b}, nil, nil},
		{"a clone with hardware of its own", []procid.ID{a1, clone}, a1, []procid.ID{a1, clone}, []procid.ID{clone}, nil},
		{"and the clone sees the first", []procid.ID{a1, clone}, clone, []procid.ID{a1, clone}, []procid.ID{a1}, nil},
		{"one identity under two names", []procid.ID{a1, twin}, twin, []procid.ID{a1, twin}, nil, []procid.ID{a1}},
		{"and the first sees the second", []procid.ID{a1, twin}, a1, []procid.ID{a1, twin}, nil, []procid.ID{twin}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := t.TempDir()
			d := openDir(t, path)
			mountedBy(t, d, c.mounts...)
			cards, err := Cards(d)
			if err != nil {
				t.Fatal(err)
			}
			got := newHolder(c.seenBy, judgeAs(c.seenBy)).clonesIn(cards)
			for _, of := range []struct {
				what  string
				cards []Card
				want  []procid.ID
			}{{"cards", cards, c.stay}, {"shared", got.Shared, c.shared}, {"twins", got.Twins, c.twins}} {
				var ids []procid.ID
				for _, card := range of.cards {
					ids = append(ids, card.ID)
					if card.Since.IsZero() || card.String() == "" {
						t.Errorf("a card that says nothing: %+v", card)
					}
				}
				if !sameIDs(ids, of.want) {
					t.Errorf("%s: %v, want %v", of.what, ids, of.want)
				}
			}
			if st, err := StatusOf(d, path, judgeAs(a1)); err != nil || st.State != Free || len(st.Candidates) != 0 {
				t.Errorf("cards show in the status: %+v, %v", st, err)
			}
			if err := discardCards(d); err != nil {
				t.Fatal(err)
			}
			if left := names(t, path); len(left) != 0 {
				t.Errorf("left is %q", left)
			}
		})
	}
}

// sameIDs reports whether a and b have the same elements.
func sameIDs(a, b []procid.ID) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(id procid.ID) bool { return !slices.Contains(b, id) })
}

// What else stands among the cards, or in their place, is left alone.
func TestCardsAmongJunk(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path)
	if err := os.WriteFile(path+"/"+CardsName, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Cards(d); !noLock(err) {
		t.Errorf("a file in place of the cards: %v", err)
	}
	if err := discardCards(d); err != nil {
		t.Error(err)
	}
	if got := names(t, path); len(got) != 1 {
		t.Errorf("a file was taken for cards: %q", got)
	}
	if err := os.Remove(path + "/" + CardsName); err != nil {
		t.Fatal(err)
	}
	a := hostID("a", machineA, printA, boot1)
	mountedBy(t, d, a)
	junk := path + "/" + CardsName + "/v9,of,a,later,lockfs"
	if err := os.Symlink("{}", junk); err != nil {
		t.Fatal(err)
	}
	mountedBy(t, d, a)
	if cards, err := Cards(d); err != nil || len(cards) != 1 || cards[0].ID != a {
		t.Errorf("%+v, %v", cards, err)
	}
	if _, err := os.Lstat(junk); err != nil {
		t.Error(err)
	}
}

// A directory that hosts have mounted can be removed through the mount of a
// directory above it.
func TestVacateRemovesCards(t *testing.T) {
	path := t.TempDir()
	mountedBy(t, openDir(t, path), hostID("a", machineA, printA, boot1))
	m := newHost().manager(t, 1, 0, nil)
	hold := acquire(t, m, Request{Place: place(t, path), Job: job(t, 1), Wait: Forever})
	if err := m.Vacate(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	hold.Release()
	if left := names(t, path); len(left) != 0 {
		t.Errorf("left is %q", left)
	}
}
