package lock

import (
	"errors"
	"strings"
	"syscall"

	"github.com/lockfs/lockfs/procid"
)

// sight is what a fresh look at the lock of a directory shows.
type sight struct {
	state State
	// rec is the holder's record if state is Held or Stale.
	rec       record
	judgement procid.Judgement
	// empty: the lock directory stands and holds nothing.
	empty bool
	// entries are the names in the lock directory.
	entries []string
	// why says in words what is odd.
	why string
}

// look says who holds the lock of d, by a fresh listing, and judges him. The
// answer may be outdated when it arrives: nothing safe rests on it.
func (h *holder) look(d Dir) (sight, error) {
	if err := d.Refresh(); err != nil {
		return sight{}, err
	}
	names, err := d.List(lockName)
	switch {
	case absent(err):
		return sight{state: Free}, nil
	case errors.Is(err, syscall.ENOTDIR):
		return sight{state: Odd, why: lockName + " is no directory"}, nil
	case errors.Is(err, syscall.ELOOP):
		return sight{state: Odd, why: lockName + " is a symbolic link"}, nil
	case errors.Is(err, syscall.EXDEV):
		return sight{state: Odd, why: lockName + " is a mount point"}, nil
	case err != nil:
		return sight{}, err
	}
	s := classify(names)
	if s.state == Held {
		s.judgement = h.judge(s.rec.holder)
		if s.judgement.Stale() {
			s.state = Stale
		}
	}
	return s, nil
}

// classify says what a lock directory with these names is, before anybody is
// judged.
func classify(names []string) sight {
	s := sight{entries: names}
	var records []string
	for _, name := range names {
		if looksLikeRecord(name) {
			records = append(records, name)
		}
	}
	switch {
	case len(names) == 0:
		s.state, s.empty = Free, true
	case len(records) == 0:
		s.state, s.why = Odd, lockName+" holds no record but "+strings.Join(names, ", ")
	case len(records) > 1:
		s.state, s.why = Odd, lockName+" holds more than one record"
	default:
		r, err := parseRecord(records[0])
		if err != nil {
			s.state, s.why = Odd, lockName+"/"+records[0]+": "+err.Error()
			break
		}
		s.state, s.rec = Held, r
	}
	return s
}

// by says in words who keeps a taker out.
func (s sight) by() string {
	if s.state == Odd {
		return "nobody that can be named: " + s.why
	}
	return s.rec.String()
}

// id is that of the holder's record; "" if nobody can be named.
func (s sight) id() string {
	if s.state != Held && s.state != Stale {
		return ""
	}
	return s.rec.id()
}
