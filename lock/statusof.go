package lock

import (
	"strings"

	"github.com/lockfs/lockfs/procid"
)

// StatusOf looks at the lock of the directory d, whose name for people is
// path, and judges its holder with judge. It changes nothing.
func StatusOf(d Dir, path string, judge Judge) (Status, error) {
	h := &holder{judge: judge}
	s, err := h.look(d)
	if err != nil {
		return Status{}, err
	}
	st := Status{Path: path, State: s.state}
	names, err := d.List("")
	if err != nil {
		return Status{}, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, candidatePrefix) {
			st.Candidates = append(st.Candidates, name)
		}
	}
	switch s.state {
	case Odd:
		st.Entries, st.Reason = s.entries, s.why
		st.Hint = "nobody can judge this: see what stands in " + path + "/" + lockName + ", and remove what is no lock"
	case Held, Stale:
		st.describe(d, s)
	}
	return st, nil
}

// describe fills in who holds.
func (st *Status) describe(d Dir, s sight) {
	st.Record, st.Host, st.PID, st.Boot = s.rec.name(), s.rec.holder.Host, s.rec.holder.PID, s.rec.holder.Boot
	st.Verdict, st.Reason = verdictName(s.judgement.Verdict), s.judgement.Reason
	// The target is for people: that it is gone already is no error.
	if target, err := d.Readlink(s.rec.inLock()); err == nil {
		n := parseNote(target)
		st.Cause, st.Since = n.Cause, n.Since
	}
	switch {
	case s.state == Stale:
		st.Hint = "the next take on this host recovers it"
	case s.judgement.SharedMachine:
		st.Hint = "another host has this host's machine-id: set LOCKFS_HOST_ID on both"
	default:
		st.Hint = "wait for it; if its host never comes back, an operator must break it"
	}
}

// verdictName is the verdict as Status shows it.
func verdictName(v procid.Verdict) string {
	switch v {
	case procid.Alive:
		return "alive"
	case procid.Dead:
		return "dead"
	case procid.Foreign:
		return "foreign"
	default:
		return "unknown"
	}
}
