package lock

import (
	"strings"
	"time"

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
	var st Status
	names, err := d.List("")
	if err != nil {
		return Status{}, err
	}
	for _, name := range names {
		if isCandidate(name) {
			st.Candidates = append(st.Candidates, name)
		}
	}
	st.show(s)
	if st.Record != "" {
		st.read(d, s.rec)
	}
	st.Advise(path)
	return st, nil
}

// show fills in what a look has shown.
func (st *Status) show(s sight) {
	st.State = s.state
	switch s.state {
	case Odd:
		st.Entries, st.Reason = s.entries, s.why
	case Held, Stale:
		st.Record, st.Host, st.PID, st.Boot = s.rec.name(), s.rec.holder.Host, s.rec.holder.PID, s.rec.holder.Boot
		st.Verdict, st.Reason = verdictName(s.judgement.Verdict), s.judgement.Reason
		st.SharedMachine = s.judgement.SharedMachine
	}
}

// read fills in what the holder wrote down for people; that it is gone already
// is no error.
func (st *Status) read(d Dir, r record) {
	target, err := d.Readlink(r.inLock())
	if err != nil {
		return
	}
	n := parseNote(target)
	st.Cause, st.Since = n.Cause, n.Since
	st.Copied = copied(d, r, st.Since)
}

// dater is a directory that can tell when a name of it was last modified, and
// when anything of it was last changed, by the server's clock.
type dater interface {
	Times(name string) (modified, changed time.Time, err error)
}

// copySlack is how much later than it was written a record that was never
// copied may seem to be: the clocks of two hosts, and a recovery's rename.
const copySlack = 10 * time.Minute

// copied reports whether the record seems to have come to where it stands long
// after it was written: by a copy of the tree (cp, rsync), or from a backup.
// It is a hint to people.
func copied(d Dir, r record, since time.Time) bool {
	t, ok := d.(dater)
	if !ok || since.IsZero() {
		return false
	}
	modified, changed, err := t.Times(r.inLock())
	return err == nil && (modified.Sub(since) > copySlack || changed.Sub(modified) > copySlack)
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

// Advise sets the path by which whoever asks reaches the directory, and the
// hint, whose command is for that path.
func (st *Status) Advise(path string) {
	st.Path = path
	dir := Quote(path)
	switch {
	case st.State == Odd && len(st.Entries) == 0:
		st.Hint = "nobody can judge this: look at " + Quote(path+"/"+lockName) + ", and remove it if it is no lock of yours"
	case st.State == Odd:
		st.Hint = "nobody can judge this; to remove a name that you know to be nobody's: lockfs break " + dir + " " + Quote(st.Entries[0])
		if looksLikeRecord(st.Entries[0]) {
			st.Hint += " --force"
		}
	case st.State == Stale:
		st.Hint = "the next write on this host recovers it, or now: lockfs recover " + dir
	case st.SharedMachine:
		st.Hint = "another host has this host's machine-id: set LOCKFS_HOST_ID to a distinct value on both"
	case st.Copied && st.Verdict == verdictName(procid.Alive):
		st.Hint = "this looks like a copy of the lock, made with its directory; if it is: lockfs break --force " + dir + " " + st.Record
	case st.Copied:
		st.Hint = "this looks like a copy of the lock, made with its directory; if it is: lockfs break " + dir + " " + st.Record
	case st.State == Held && st.Verdict == verdictName(procid.Alive):
		st.Hint = "wait for it, or end the job that holds it"
	case st.State == Held:
		st.Hint = "wait for it; if host " + st.Host + " never comes back: lockfs break " + dir + " " + st.Record
	default:
		st.Hint = ""
	}
}

// Quote writes a word as a shell reads it.
func Quote(s string) string {
	plain := func(c rune) bool {
		return isHostByte(byte(c)) && c < 0x80 || strings.ContainsRune("/,:+=@%", c)
	}
	if s != "" && strings.TrimLeftFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
