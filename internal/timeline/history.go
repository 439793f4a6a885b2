package timeline

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockfs/lockfs/lock"
)

// History is what the logs of all hosts tell, each time as its host's clock
// had it.
type History struct {
	Hosts []*Host
	// Dirs are the directories, the one that was waited for longest first.
	Dirs []*Dir
	// From and To are the first and the last time in any log.
	From, To time.Time
	// Skews are the pairs of hosts whose clocks are proved to differ.
	Skews []Skew
}

// Host is a host whose log was read.
type Host struct {
	Name string
	// Up are the times from the first to the last entry of each daemon.
	Up []*Span
}

// Span is a time from one moment to another.
type Span struct{ From, To time.Time }

// Length is how long the span is.
func (s Span) Length() time.Duration { return s.To.Sub(s.From) }

// Dir is a directory.
type Dir struct {
	// Tree is the tree as it is mounted from, Path the directory in it.
	Tree, Path string
	Holds      []*Hold
	Waits      []*Wait
	Marks      []Mark
}

// Waited is how long all waits for the directory's lock were together.
func (d *Dir) Waited() (sum time.Duration) {
	for _, w := range d.Waits {
		sum += w.Length()
	}
	return sum
}

// Who made a lock be taken.
type Who struct{ Host, Program, PID, User, Job, Mount string }

// Hold is a time in which a host's daemon held the lock.
type Hold struct {
	Who
	Span
	// Record is the short name of the lock's record.
	Record string
	// Let is when its release began: until then it stood for certain. Zero if
	// it was not released.
	Let time.Time
	// Alive is when the holder has logged its last; past it the lock was
	// a dead one's. Zero if it lived on.
	Alive time.Time
	End   End
	// Seen: the holder's own log does not have it, others saw it.
	Seen bool

	daemon daemon
}

// Wait is a time in which a program waited for the lock.
type Wait struct {
	Who
	Span
	// For says who was seen to hold meanwhile, in the order of their seeing.
	For []string
	// Behind is the short name of the record that was seen last.
	Behind string
	End    End
	// Why says why it ended without the lock.
	Why string

	daemon daemon
}

// End is how a hold or a wait ended.
type End string

// The ends. The last entry of a host's log may find a hold or wait Open.
const (
	Released  End = "released"
	Lost      End = "taken away"
	Recovered End = "recovered"
	Broken    End = "broken by an operator"
	Got       End = "got the lock"
	GaveUp    End = "gave up"
	Open      End = "still so at the end of the log"
)

// Mark is something odd that happened.
type Mark struct {
	Time time.Time
	Host string
	Kind lock.EventKind
	Text string
}

// Tell makes a history of the entries of all hosts.
func Tell(entries []Entry) *History {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return a.Time.Compare(b.Time) })
	t := &teller{
		trees: newTrees(entries),
		dirs:  map[dirKey]*Dir{}, holds: map[string]*Hold{}, hosts: map[string]*Host{},
		up: map[daemon]*Span{}, open: map[waiter][]*Wait{},
	}
	for _, e := range entries {
		t.entry(e)
	}
	return t.history(entries)
}

type dirKey struct{ tree, path string }

// teller makes a history out of entries in the order of their times.
type teller struct {
	trees trees
	dirs  map[dirKey]*Dir
	holds map[string]*Hold // by record
	hosts map[string]*Host
	up    map[daemon]*Span
	// open are the waits that have not ended.
	open map[waiter][]*Wait
}

// waiter is somebody who waits for the lock of a directory.
type waiter struct {
	dir *Dir
	who Who
}

func (t *teller) entry(e Entry) {
	t.runs(e)
	if e.Fields["event"] == "" || e.Fields["dir"] == "" {
		return
	}
	dir := t.dir(e)
	switch lock.EventKind(e.Fields["event"]) {
	case lock.EventTook:
		t.hold(e, dir).From = e.Time
	case lock.EventHeld:
		t.hold(e, dir)
	case lock.EventReleased:
		h := t.hold(e, dir)
		h.To, h.End, h.Let = e.Time, Released, e.Time.Add(-duration(e, "server"))
	case lock.EventLost:
		h := t.hold(e, dir)
		h.To, h.End = e.Time, Lost
		t.mark(e, dir)
	case lock.EventRecovered:
		t.ended(e, dir, Recovered)
		t.mark(e, dir)
	case lock.EventBroken:
		t.ended(e, dir, Broken)
		t.mark(e, dir)
	case lock.EventWaiting:
		t.sighting(e, dir, t.wait(e, dir))
	case lock.EventGot:
		t.sighting(e, dir, t.waited(e, dir, Got))
	case lock.EventGaveUp:
		w := t.waited(e, dir, GaveUp)
		w.Why = e.Fields["error"]
		t.sighting(e, dir, w)
	default:
		t.mark(e, dir)
	}
}

// shortName is the short name of a record that is given by its whole one.
func shortName(record string) string {
	f := strings.Split(record, ",")
	if len(f) != 10 {
		return record
	}
	return f[1] + "," + f[4] + "," + f[9]
}

func (e Entry) daemon() daemon { return daemon{e.Host, e.PID} }

// runs notes that the entry's daemon runs.
func (t *teller) runs(e Entry) {
	h := t.hosts[e.Host]
	if h == nil {
		h = &Host{Name: e.Host}
		t.hosts[e.Host] = h
	}
	up := t.up[e.daemon()]
	if up == nil {
		up = &Span{From: e.Time}
		t.up[e.daemon()] = up
		h.Up = append(h.Up, up)
	}
	up.To = e.Time
}

// dir is the directory that an entry is of.
func (t *teller) dir(e Entry) *Dir {
	tree, path := t.trees.place(e)
	k := dirKey{tree, path}
	if t.dirs[k] == nil {
		t.dirs[k] = &Dir{Tree: tree, Path: path}
	}
	return t.dirs[k]
}

func who(e Entry) Who {
	f := e.Fields
	return Who{Host: e.Host, Program: f["program"], PID: f["pid"], User: f["user"], Job: f["job"], Mount: f["mount"]}
}

// duration is a field's; 0 if there is none or it can't be read.
func duration(e Entry, key string) time.Duration {
	d, err := time.ParseDuration(e.Fields[key])
	if err != nil {
		return 0
	}
	return d
}

// hold is the hold that an entry of its holder is of.
func (t *teller) hold(e Entry, dir *Dir) *Hold {
	record := e.Fields["record"]
	h := t.holds[record]
	if h == nil || record == "" {
		h = &Hold{Record: record, Span: Span{From: e.Time.Add(-duration(e, "elapsed"))}, End: Open}
		t.add(h, dir)
	} else if h.Seen {
		// What others saw of it is less than its own log says.
		h.Seen, h.From = false, e.Time.Add(-duration(e, "elapsed"))
	}
	h.Who, h.daemon = who(e), e.daemon()
	return h
}

func (t *teller) add(h *Hold, dir *Dir) {
	dir.Holds = append(dir.Holds, h)
	t.holds[h.Record] = h
}

// seen is the hold of a record that another host saw; nil if it says no name.
func (t *teller) seen(record string, from time.Time, dir *Dir) *Hold {
	if h := t.holds[record]; h != nil {
		return h
	}
	host, _, ok := ofRecord(record)
	if !ok {
		return nil
	}
	h := &Hold{Who: Who{Host: host}, Record: record, Span: Span{from, from}, End: Open, Seen: true}
	t.add(h, dir)
	return h
}

// sighting notes whom a waiter saw hold.
func (t *teller) sighting(e Entry, dir *Dir, w *Wait) {
	by, record := e.Fields["holder"], e.Fields["holder_record"]
	if by != "" && !slices.Contains(w.For, by) {
		w.For = append(w.For, by)
	}
	if record == "" {
		return
	}
	w.Behind = record
	if h := t.seen(record, w.From, dir); h != nil && h.Seen && h.End == Open {
		h.To = e.Time
	}
}

// ended notes that a hold was ended by somebody else.
func (t *teller) ended(e Entry, dir *Dir, end End) {
	// An operator's command says the whole record.
	record := cmp.Or(e.Fields["holder_record"], shortName(e.Fields["holder"]))
	h := t.seen(record, e.Time, dir)
	if h == nil {
		return
	}
	h.To, h.End = e.Time, end
	host, pid, _ := ofRecord(record)
	if up := t.up[daemon{host, pid}]; up != nil && end == Recovered {
		h.Alive = up.To
	}
}

// wait is the wait that an entry is of: each says how long it has lasted.
func (t *teller) wait(e Entry, dir *Dir) *Wait {
	from := e.Time.Add(-duration(e, "elapsed"))
	k := waiter{dir, who(e)}
	for _, w := range t.open[k] {
		if w.From.Sub(from).Abs() < sameWait {
			return w
		}
	}
	w := &Wait{Who: k.who, Span: Span{From: from}, End: Open, daemon: e.daemon()}
	dir.Waits = append(dir.Waits, w)
	t.open[k] = append(t.open[k], w)
	return w
}

// waited is the wait that has ended with an entry.
func (t *teller) waited(e Entry, dir *Dir, end End) *Wait {
	w := t.wait(e, dir)
	w.To, w.End = e.Time, end
	k := waiter{dir, w.Who}
	t.open[k] = slices.DeleteFunc(t.open[k], func(o *Wait) bool { return o == w })
	if len(t.open[k]) == 0 {
		delete(t.open, k)
	}
	return w
}

// sameWait is how far apart the beginnings may be that are reckoned from two
// entries of one wait: an entry is written some time after it was measured.
const sameWait = 50 * time.Millisecond

func (t *teller) mark(e Entry, dir *Dir) {
	text := e.Fields["msg"]
	for _, key := range []string{"holder", "reason", "error"} {
		if v := e.Fields[key]; v != "" && !strings.Contains(text, v) {
			text += "; " + key + ": " + v
		}
	}
	dir.Marks = append(dir.Marks, Mark{e.Time, e.Host, lock.EventKind(e.Fields["event"]), text})
}

// history brings what was told into its order, once all was.
func (t *teller) history(entries []Entry) *History {
	h := &History{}
	if len(entries) > 0 {
		h.From, h.To = entries[0].Time, entries[len(entries)-1].Time
	}
	for _, name := range slices.Sorted(maps.Keys(t.hosts)) {
		h.Hosts = append(h.Hosts, t.hosts[name])
	}
	for _, d := range t.dirs {
		t.finish(d)
		for _, hold := range d.Holds {
			h.From = earlier(h.From, hold.From)
		}
		for _, w := range d.Waits {
			h.From = earlier(h.From, w.From)
		}
		h.Dirs = append(h.Dirs, d)
	}
	slices.SortFunc(h.Dirs, func(a, b *Dir) int {
		return cmp.Or(cmp.Compare(b.Waited(), a.Waited()), cmp.Compare(a.Tree, b.Tree), cmp.Compare(a.Path, b.Path))
	})
	h.Skews = skews(h.Dirs)
	return h
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// finish ends what no entry has ended where its daemon's log ends, and sorts.
func (t *teller) finish(d *Dir) {
	for _, h := range d.Holds {
		if h.End == Open && !h.Seen {
			h.To = t.up[h.daemon].To
		}
	}
	for _, w := range d.Waits {
		if w.End == Open {
			w.To = t.up[w.daemon].To
		}
	}
	byTime := func(a, b Span) int { return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To)) }
	slices.SortStableFunc(d.Holds, func(a, b *Hold) int { return byTime(a.Span, b.Span) })
	slices.SortStableFunc(d.Waits, func(a, b *Wait) int { return byTime(a.Span, b.Span) })
}
