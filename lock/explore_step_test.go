package lock

import (
	"fmt"
	"slices"
	"syscall"
	_ "unsafe" // for go:linkname

	"github.com/lockfs/lockfs/procid"
)

// judgeBoot is the real rule of machines and boots.
//
//go:linkname judgeBoot github.com/lockfs/lockfs/procid.judgeBoot
func judgeBoot(self, other procid.ID) (procid.Judgement, bool)

// role is what a process of the explorer does.
type role uint8

const (
	worker  role = iota // takes, holds and releases
	vacater             // the same, and discards all candidates while it holds
	breaker             // an operator: breaks the lock that it sees, once
	cleaner             // discards all candidates without holding the lock
)

type program struct {
	role   role
	host   int
	user   uint8
	rounds uint8
}

// world settings: who there is, and what may go wrong.
type settings struct {
	name     string
	hosts    []computer
	programs []program
	fs       fsKind
	// replayed: what Dir.Replayed says.
	replayed bool
	// begin prepares the first state.
	begin func(x *explorer, w *world)

	// crashes is how many processes or hosts may crash, and reboot says
	// that hosts may.
	crashes uint8
	reboot  bool
	// giveUp: a waiter may give up at any pause.
	giveUp bool
	// checks: holders look whether their record stands.
	checks bool

	// faults is how many of the faults below may happen.
	faults uint8
	// lost: a call is done, and its answer says otherwise.
	lost bool
	// refusals are the errors that any call may give instead of being done.
	refusals []syscall.Errno
	// cached: ENOENT for what is there.
	cached bool
	// stale: a look at the lock shows what it held before; staleChecks: so
	// does the look that checks and settles.
	stale, staleChecks bool
	// delayed: a call is done after its caller was killed.
	delayed bool
	// duplicates: a creation is done once more at any later time.
	duplicates bool

	// outside is how often an outsider meddles.
	outside uint8
	// outsider says what he does.
	outsider func(x *explorer, w *world, yield func(what string, w *world))

	// refine: every step is a step of the published model, or none.
	refine bool
	// progress: the graph of all states is kept, and searched for runs in
	// which nobody gets anywhere.
	progress bool
	// quiet: nothing goes wrong, so no operation may fail.
	quiet bool
	exact bool
	// odd: an outsider's junk may need a person.
	odd bool
	// harmOnly: nothing counts but two holders, or one whose lock is gone.
	harmOnly bool
}

// explorer explores one world.
type explorer struct {
	settings
	code *code
	// alike: see world.encode. Whoever asks what a run can go on for ever
	// must tell the processes apart.
	alike    *[maxProcs]uint8
	verdicts map[[3]uint8]procid.Judgement
}

func newExplorer(s settings) *explorer {
	x := &explorer{settings: s, code: newCode(s.replayed, s.exact), verdicts: map[[3]uint8]procid.Judgement{}}
	if !s.progress {
		x.alike = &[maxProcs]uint8{0, 1, 2, 3}
		for i, p := range s.programs {
			if i > 0 && p == s.programs[i-1] {
				x.alike[i] = x.alike[i-1]
			}
		}
	}
	return x
}

// first is the first state: nobody has started yet.
func (x *explorer) first() *world {
	w := &world{crashes: x.crashes, faults: x.faults, outside: x.outside}
	for i, p := range x.programs {
		w.procs[i].rounds = p.rounds
	}
	if x.begin != nil {
		x.begin(x, w)
	}
	return w
}

// wake starts a process, or starts it again after its crash.
func (x *explorer) wake(w *world, p int) {
	w.procs[p].phase = running
	x.begins(w, p, start{task: tSeek}, nil)
}

// begins lets the process begin an operation that knows the records.
func (x *explorer) begins(w *world, p int, s start, know []rid) string {
	q := &w.procs[p]
	q.n, q.bind = 0, [maxBind]rid{}
	for _, r := range know {
		q.bindTo(r)
	}
	if s.task == tSeek {
		q.waiting = true
	}
	return x.enters(w, p, x.code.root(s))
}

// enters brings the process to a node, and on through all that nobody else
// can see. It returns what is wrong, or "".
func (x *explorer) enters(w *world, p int, n *node) string {
	q := &w.procs[p]
	for {
		for range n.slots - n.ownFrom {
			q.bindTo(w.newRecord(about{proc: uint8(p)}))
		}
		n = q.joins(n)
		q.at = n
		if n.done {
			return x.ends(w, p, n)
		}
		if !x.unseen(w, p, n.call) {
			return ""
		}
		n = x.code.next(n, result{verdict: x.ownVerdict(n.call)})
	}
}

// joins brings the process to the node at which the code is as at n. What it
// has known and makes no more use of is forgotten.
func (q *proc) joins(n *node) *node {
	if n.join == n {
		return n
	}
	var att rid
	if n.attSlot >= 0 {
		att = q.bind[n.attSlot]
	}
	q.n, q.bind = uint8(n.join.slots), [maxBind]rid{}
	for i := range q.n {
		q.bind[i] = forgotten
	}
	if n.attSlot >= 0 {
		q.bind[n.join.attSlot] = att
	}
	return n.join
}

// unseen reports whether nobody but the caller can see the call: it needs no
// step of its own, unless it may fail.
func (x *explorer) unseen(w *world, p int, c call) bool {
	if w.faults > 0 && len(x.refusals) > 0 {
		return false
	}
	return c.op.local() || c.op == cList && c.a == (path{}) && c.in == "standing" && !x.exact
}

func (x *explorer) ownVerdict(call) (j procid.Judgement) { return j }

// ends is what a process does when an operation of it has ended: what
// Manager.take, finish and insist do. It returns what is wrong, or "".
func (x *explorer) ends(w *world, p int, n *node) string {
	q, o := &w.procs[p], &n.out
	if n.flaw != "" {
		return n.flaw
	}
	if x.quiet && o.err != nil {
		return fmt.Sprintf("%v failed though nothing went wrong: %v", n.start.task, o.err)
	}
	var att []rid
	if o.attSlot >= 0 {
		att = []rid{q.bind[o.attSlot]}
	}
	attempt := start{att: o.att, slots: rid(len(att))}
	hold := start{task: tRelease, slots: 1}
	switch n.start.task {
	case tSeek:
		switch {
		case o.turn == unfreed:
			attempt.task = tFree
			attempt.slots++
			return x.begins(w, p, attempt, append(att, q.bind[o.rec]))
		case o.err != nil:
			attempt.task = tGiveUp
			return x.begins(w, p, attempt, att)
		case o.turn == got:
			q.waiting = false
			if att != nil {
				return "a take has left a candidate"
			}
			return x.begins(w, p, hold, []rid{q.bind[o.rec]})
		}
		return x.begins(w, p, attempt, att)
	case tGiveUp:
		if o.err != nil {
			attempt.task = tGiveUp
			return x.begins(w, p, attempt, att)
		}
		if att != nil {
			return "a take that was given up has left a candidate"
		}
		if n.start.slots > 0 && x.leaves(w, q.bind[0]) {
			return "a take that was given up has left something, and says that it has not"
		}
		return x.roundOver(w, p)
	case tFree:
		freed := q.bind[n.start.slots-1]
		if o.err == nil && x.holds(w, freed) && !w.recs[freed].taken && w.npend == 0 {
			return "a lock that was to be freed stands"
		}
		attempt.task = tGiveUp
		if o.err != nil {
			attempt.task = tFree
			attempt.slots++
			att = append(att, freed)
		}
		return x.begins(w, p, attempt, att)
	case tRelease, tRemove:
		lost := o.err == ErrLost
		if lost && !w.recs[q.bind[0]].taken {
			return "a release says that the lock was lost, and nobody took it"
		}
		if o.err != nil && !lost {
			return x.begins(w, p, start{task: tRemove, slots: 1}, []rid{q.bind[0]})
		}
		if x.holds(w, q.bind[0]) && !w.recs[q.bind[0]].taken {
			return "a release that succeeded has left the record"
		}
		return x.roundOver(w, p)
	case tCheck:
		taken := w.recs[q.bind[0]].taken
		switch {
		case o.err == nil && o.stands && taken && !x.holds(w, q.bind[0]):
			return "a check says that the lock stands, which was taken away"
		case o.err == nil && !o.stands && !taken:
			return "a check says that the lock is lost, and nobody took it"
		case o.err == nil && !o.stands:
			return x.roundOver(w, p)
		}
		return x.begins(w, p, hold, []rid{q.bind[0]})
	case tVacate:
		if x.programs[p].role == cleaner {
			return x.roundOver(w, p)
		}
		hold.force = true // it lets go then
		return x.begins(w, p, hold, []rid{q.bind[0]})
	}
	return x.roundOver(w, p)
}

// holds reports whether the record stands in the lock directory.
func (x *explorer) holds(w *world, r rid) bool {
	l := w.tree.lock()
	return l != nil && l.find(tok{nRec, r}) >= 0
}

// leaves reports whether anything that bears the record is there.
func (x *explorer) leaves(w *world, r rid) bool {
	if w.recs[r].taken || w.npend > 0 {
		return false
	}
	return x.holds(w, r) || w.tree.find(tok{nCand, r}) >= 0 || w.tree.find(tok{nBeside, r}) >= 0
}

func (x *explorer) roundOver(w *world, p int) string {
	q := &w.procs[p]
	q.n, q.bind, q.at = 0, [maxBind]rid{}, nil
	q.rounds--
	if q.rounds == 0 {
		q.phase = idle
		return ""
	}
	return x.begins(w, p, start{task: tSeek}, nil)
}

// kills ends a process.
func (x *explorer) kills(w *world, p int, l life) {
	q := &w.procs[p]
	rounds, waiting := q.rounds, q.waiting
	*q = proc{rounds: rounds, waiting: waiting}
	for r := range w.nrec {
		if a := &w.recs[r]; int(a.proc) == p && a.life < l {
			a.life = l
		}
	}
}

// reboots ends all processes of a host, and its boot.
func (x *explorer) reboots(w *world, host int) {
	for p, pr := range x.programs {
		if pr.host == host {
			x.kills(w, p, lastBoot)
		}
	}
}

// global is the call with the records' numbers in the state.
func (q *proc) global(c call) call {
	for _, t := range [...]*tok{&c.a.top, &c.a.sub, &c.b.top, &c.b.sub} {
		if t.bears() {
			t.rec = q.bind[t.rec]
		}
	}
	return c
}

// does carries out the call that the process is at, and returns its answer.
// wrong says what the call must never do.
func (x *explorer) does(w *world, p int, c call) (err syscall.Errno, names []tok, v procid.Judgement, wrong string) {
	switch {
	case c.op.changes():
		err, wrong = x.changes(w, p, c)
	case c.op == cList:
		names, err = w.tree.list(c.a.top)
	case c.op == cJudge:
		v = x.judge(w, p, c.a.sub.rec)
	}
	return err, names, v, wrong
}

// judge is the verdict of process p on the holder of the record.
func (x *explorer) judge(w *world, p int, r rid) procid.Judgement {
	a := w.recs[r]
	key := [3]uint8{uint8(p), a.proc, uint8(a.life)}
	v, known := x.verdicts[key]
	if !known {
		v = x.verdict(p, a)
		x.verdicts[key] = v
	}
	return v
}

func (x *explorer) verdict(p int, a about) procid.Judgement {
	me, he := x.hosts[x.programs[p].host], x.hosts[x.programs[a.proc].host]
	self, holder := me.id(100+p, living), he.id(100+int(a.proc), a.life)
	if j, ok := judgeBoot(self, holder); ok {
		return j
	}
	if self.PIDNS == holder.PIDNS && x.programs[p].host != x.programs[a.proc].host {
		panic("two hosts of one boot and pid namespace")
	}
	switch {
	case self.PIDNS != holder.PIDNS:
		return procid.Judgement{Verdict: procid.Unknown}
	case a.life == living:
		return procid.Judgement{Verdict: procid.Alive}
	default:
		return procid.Judgement{Verdict: procid.Dead}
	}
}

// changes carries out a call that changes the directory, of the process p
// (which may have ended since).
func (x *explorer) changes(w *world, p int, c call) (syscall.Errno, string) {
	wrong := x.touches(w, p, c)
	var before content
	keep := x.stale || x.staleChecks
	if keep {
		before = w.content()
	}
	err := w.tree.apply(c, x.fs, x.programs[p].user)
	if err != 0 {
		return err, ""
	}
	if keep {
		w.remember(before)
	}
	w.moved(c)
	return err, wrong
}

// content is what the lock directory holds.
func (w *world) content() (c content) {
	if l := w.tree.lock(); l != nil {
		c.n, c.kids = l.n, l.kids
	}
	return c
}

// remember keeps a former content, for reads that are out of date.
func (w *world) remember(c content) {
	if c.n == 0 || c == w.content() || slices.Contains(w.past[:w.npast], c) {
		return
	}
	if w.npast == maxPast {
		copy(w.past[:], w.past[1:])
		w.npast--
	}
	w.past[w.npast] = c
	w.npast++
}

// moved lets requests under way follow the directories that they are for.
func (w *world) moved(c call) {
	var kept uint8
	for _, l := range w.pend[:w.npend] {
		gone := false
		for _, q := range [...]*path{&l.call.a, &l.call.b} {
			if q.sub.kind == noName {
				continue // it is for the directory itself
			}
			switch {
			case c.op == cRename && c.a.sub.kind == noName && c.b.sub.kind == noName && q.top == c.b.top:
				gone = true // the empty directory was replaced
			case c.op == cRename && c.a.sub.kind == noName && c.b.sub.kind == noName && q.top == c.a.top:
				q.top = c.b.top
			case c.op == cRmdir && q.top == c.a.top:
				gone = true
			}
		}
		if !gone {
			w.pend[kept] = l
			kept++
		}
	}
	for i := kept; i < w.npend; i++ {
		w.pend[i] = late{}
	}
	w.npend = kept
}

// touches says whether the call takes from a process what only that process
// may change: its record, or its candidate.
func (x *explorer) touches(w *world, p int, c call) string {
	if x.harmOnly || c.op == cMkdir || c.op == cSymlink || x.programs[p].role == breaker {
		return ""
	}
	t := c.a.top // what is in a candidate is its owner's, whoever made it
	if t.kind == nLock {
		t = c.a.sub
	}
	if !t.bears() {
		return ""
	}
	a := w.recs[t.rec]
	if int(a.proc) == p || a.life != living && x.programs[a.proc].host == x.programs[p].host {
		return ""
	}
	if (x.programs[p].role == vacater || x.programs[p].role == cleaner) && c.a.top.kind != nLock && c.a.sub.kind == noName {
		return ""
	}
	return fmt.Sprintf("%v changes what is not its host's, or of a process that lives", c.op)
}

// goes on: the process at a call gets its answer.
func (x *explorer) answers(w *world, p int, err syscall.Errno, names []tok, v procid.Judgement) string {
	q := &w.procs[p]
	n := q.at
	res := result{err: err, verdict: procid.Judgement{Verdict: v.Verdict}}
	next := n.slots
	for _, t := range x.project(w, p, n.call, names) {
		if t.bears() {
			s, known := q.slot(t.rec)
			if !known {
				s = next
				next++
				q.bindTo(t.rec)
				res.kins = append(res.kins, x.kin(w, p, t.rec))
			}
			t.rec = s
		}
		res.names = append(res.names, t)
	}
	return x.enters(w, p, x.code.next(n, res))
}

// project leaves out of a listing what the code that asked makes no use of, so
// that what it was does not tell states apart. (With exact it stays.)
func (x *explorer) project(w *world, p int, c call, names []tok) []tok {
	if c.op != cList || x.exact {
		return names
	}
	switch c.in {
	case "standing": // looks for one record of its own
		var own []tok
		for _, t := range names {
			if _, known := w.procs[p].slot(t.rec); t.kind == nRec && known && x.kin(w, p, t.rec) == mine && c.a.top.kind == nLock {
				own = append(own, t)
			}
		}
		return own
	case "removeEmpty": // asks whether there is anything but .nfs*
		for _, t := range names {
			if t.kind != nSilly {
				return []tok{{kind: nOther}}
			}
		}
		return names
	case "discardAll": // goes through the candidates
		var some []tok
		for _, t := range names {
			if t.kind == nCand || t.kind == nBeside {
				some = append(some, t)
			}
		}
		return some
	}
	return names
}

// kin is how the process sees the record's holder.
func (x *explorer) kin(w *world, p int, r rid) kin {
	a := w.recs[r]
	switch {
	case int(a.proc) != p:
		return other
	case a.life == living:
		return mine
	case a.life == ended:
		return sooner
	default:
		return bygone
	}
}
