package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/lockfs/lockfs/procid"
)

// The real code as a state machine. What it does next is a function of how it
// was started and of the results it has got since: a tree of results, each of
// whose nodes knows the next call, or the outcome. A new node is found by
// running the real code again from the start over a Dir that answers what is
// known, and stops the goroutine at the first call beyond it.
//
// Records are slots here: numbers in the order in which this operation came to
// know them, so that all processes share one tree.

// task is an operation of a process, from its start to its end or to the next
// pause of a wait.
type task uint8

const (
	tSeek    task = iota // Manager.round
	tGiveUp              // attempt.giveUp
	tRelease             // holder.release
	tRemove              // holder.remove
	tFree                // holder.remove of a lock that a take was to free
	tCheck               // holder.standing, as every check of a hold
	tVacate              // holder.discardAll, as Vacate
	tRecover             // the operator's Recover
	tBreak               // the operator's Break
)

var taskNames = [...]string{"take", "give up", "release", "remove", "free", "check", "vacate", "recover", "break"}

func (t task) String() string { return taskNames[t] }

// kin is what a record's name shows of its holder to the process that reads it.
type kin uint8

const (
	mine   kin = iota
	other      // of another process
	sooner     // of my pid in this boot, started before me
	bygone     // of my pid, in a boot before
)

// start is all that an operation begins with. The attempt is the real one,
// whatever its fields are, less what every round shares.
type start struct {
	task  task
	att   attempt
	kin   kin // of slot 0, if there is one
	slots rid // how many records the operation begins with
	force bool
}

// result is what a call returned.
type result struct {
	err     syscall.Errno
	names   []tok
	verdict procid.Judgement
	kins    []kin // of the slots that names bears for the first time
}

func (r result) key() string {
	var b strings.Builder
	b.WriteByte(byte(r.err))
	b.WriteByte(byte(r.verdict.Verdict))
	for _, t := range r.names {
		b.WriteByte(byte(t.kind))
		b.WriteByte(byte(t.rec))
	}
	b.WriteByte(0xff)
	for _, k := range r.kins {
		b.WriteByte(byte(k))
	}
	return b.String()
}

// outcome is how an operation ended.
type outcomeOf struct {
	err  error
	turn turn
	// att is the attempt that is left, its record made slot 0; attSlot is
	// the slot that the record had, or -1.
	att     attempt
	attSlot int
	// rec is the slot of the record that was taken, or -1.
	rec    int
	stands bool
}

type node struct {
	start  start
	parent *node
	res    result
	kids   map[string]*node
	id     int32

	// own are the slots of the records that the code made on its way here
	// from the parent: [ownFrom, slots).
	ownFrom, slots rid
	done           bool
	call           call
	out            outcomeOf
	// att and attSlot are the attempt as it is at the call.
	att     attempt
	attSlot int
	// join is the node at which the code is in the same state as at this
	// one: it is this one, unless another was found first.
	join *node
	// flaw says what is wrong with the outcome whatever others did.
	flaw string
}

// root reports whether the operation has not called anything yet.
func (n *node) root() bool { return n.parent == nil }

// code is the tree of everything that the real code was seen to do.
type code struct {
	replayed bool
	exact    bool
	roots    map[start]*node
	nodes    []*node
	joins    map[point]*node
}

// point is a point of the code at which nothing matters of what it did before
// but the attempt that it has in hand.
type point struct {
	task task
	in   string
	att  attempt
	kept bool // what the outcome is judged by: see keptOut
}

// joined notes the node if the code is at such a point: between a try and the
// look that follows it, and between a recovery and the sweep.
func (c *code) joined(n *node) {
	n.join = n
	look := n.call.op == cRefresh && n.call.in == "look"
	sweep := n.call.op == cList && n.call.in == "discardAll"
	if n.done || c.exact || n.start.task != tSeek || !look && !sweep {
		return
	}
	at := point{n.start.task, n.call.in, n.att, n.keptOut()}
	if c.joins[at] == nil {
		c.joins[at] = n
	}
	n.join = c.joins[at]
}

func newCode(replayed, exact bool) *code {
	return &code{replayed: replayed, exact: exact, roots: map[start]*node{}, joins: map[point]*node{}}
}

func (c *code) root(s start) *node {
	n := c.roots[s]
	if n == nil {
		n = &node{start: s, ownFrom: s.slots}
		c.roots[s] = n
		c.add(n)
	}
	return n
}

// next is the node after the call of n has returned r.
func (c *code) next(n *node, r result) *node {
	k := r.key()
	kid := n.kids[k]
	if kid == nil {
		kid = &node{start: n.start, parent: n, res: r, ownFrom: n.slots + rid(len(r.kins))}
		if n.kids == nil {
			n.kids = map[string]*node{}
		}
		n.kids[k] = kid
		c.add(kid)
	}
	return kid
}

func (c *code) node(id int32) *node { return c.nodes[id] }

func (c *code) add(n *node) {
	n.id = int32(len(c.nodes))
	c.nodes = append(c.nodes, n)
	run := &run{code: c, node: n}
	for p := n; p.parent != nil; p = p.parent {
		run.results = append(run.results, p.res)
	}
	for i, j := 0, len(run.results)-1; i < j; i, j = i+1, j-1 {
		run.results[i], run.results[j] = run.results[j], run.results[i]
	}
	if n.start.slots > 0 {
		run.kins = append(run.kins, n.start.kin)
	}
	if n.start.slots > 1 {
		run.kins = append(run.kins, mine)
	}
	ended := make(chan any)
	go func() {
		var p any
		defer func() { ended <- p }()
		defer func() {
			if p = recover(); p != nil {
				buf := make([]byte, 4096)
				p = fmt.Sprintf("%v\n%s", p, buf[:runtime.Stack(buf, false)])
			}
		}()
		run.do()
	}()
	if p := <-ended; p != nil {
		panic(fmt.Sprintf("the real code, at %v after %v: %v", n.start.task, run.results, p))
	}
	n.slots = rid(len(run.kins))
	c.joined(n)
}

// run is one run of the real code.
type run struct {
	code    *code
	node    *node
	results []result
	got     int
	kins    []kin
	att     *attempt
}

var nobody = procid.ID{Host: "h", Machine: strings.Repeat("e", 32), Boot: strings.Repeat("b", 32),
	Fingerprint: strings.Repeat("c", 16), PID: 100, Start: 50, PIDNS: 4026531836, TimeNS: 4026531834}

// record returns the record of a slot as this run writes it.
func (r *run) record(slot rid) record {
	id := nobody
	switch r.kins[slot] {
	case other:
		id.PID = 200 + int(slot)
	case sooner:
		id.Start -= 1 + uint64(slot)
	case bygone:
		id.Boot, id.Start = strings.Repeat("a", 32), 1+uint64(slot)
	}
	return record{holder: id, nonce: uint64(slot) + 1}
}

func (r *run) slot(rec record) rid {
	s := rid(rec.nonce - 1)
	if int(s) >= len(r.kins) || r.record(s) != rec {
		panic("the code made up a record: " + rec.name())
	}
	return s
}

// exploring is the waiter of the operations under exploration: one that waits.
var exploring = Request{Wait: Forever}

func (r *run) do() {
	kept.Clear()
	s := r.node.start
	h := &holder{self: nobody, judge: r.judge, now: func() time.Time { return time.Time{} }, nonce: func() uint64 {
		r.kins = append(r.kins, mine)
		return uint64(len(r.kins))
	}}
	var first record
	if s.slots > 0 {
		if first = r.record(0); s.kin == mine {
			kept.Store(first, true)
		}
	}
	last := first
	if s.slots > 1 {
		last = r.record(1)
		kept.Store(last, true)
	}
	o := outcomeOf{attSlot: -1, rec: -1}
	a := s.att
	a.h, a.d = h, r
	r.att = &a
	var mineNow record
	switch s.task {
	case tSeek:
		m := newManager(h, 0, nil)
		w := &waiter{r: exploring}
		e := &entry{waiters: []*waiter{w}, wake: make(chan struct{}, 1)}
		mineNow, o.turn, o.err = m.round(e, w, &a, &sights{})
	case tGiveUp:
		o.err = a.giveUp()
	case tRelease:
		o.err = h.release(r, first)
	case tRemove, tFree:
		o.err = h.remove(r, last)
	case tCheck:
		o.stands, o.err = h.standing(r, first)
	case tVacate:
		o.err = h.discardAll(r, func(record) bool { return true })
	case tRecover:
		_, o.err = h.recoverDead(r)
	case tBreak:
		o.err = h.breakLock(r, "D", first.name(), s.force)
	}
	if r.got != len(r.results) {
		panic("the code is not a function of its results")
	}
	if mineNow != (record{}) {
		o.rec = int(r.slot(mineNow))
	}
	o.att, o.attSlot = r.attempt()
	r.answersFor(s, o, mineNow)
	r.node.done, r.node.out = true, o
	r.node.flaw = r.node.judge()
}

// attempt is the attempt less what every round shares, its record made slot 0;
// and the slot that the record has, or -1.
func (r *run) attempt() (attempt, int) {
	a, slot := *r.att, -1
	a.h, a.d = nil, nil
	if a.built() {
		slot = int(r.slot(a.rec))
		a.rec = record{holder: nobody, nonce: 1}
	}
	return a, slot
}

// answersFor checks that the process answers for what it has, and for nothing
// else: a forgotten record would be taken for a left-over of its own, and one
// that is never dropped would keep everybody out.
func (r *run) answersFor(s start, o outcomeOf, mineNow record) {
	want := map[record]bool{}
	switch {
	case s.task == tFree:
		want[r.record(s.slots-1)] = true
	case s.slots > 0 && s.kin == mine && s.task != tSeek && s.task != tGiveUp:
		want[r.record(0)] = true
	}
	for i, slot := range []int{o.attSlot, o.rec} {
		if slot >= 0 && !(i == 1 && o.turn == unfreed) {
			want[r.record(rid(slot))] = true
		}
	}
	kept.Range(func(k, _ any) bool {
		if rec := k.(record); o.turn == unfreed && rec == mineNow {
			return true // unless it was left over
		}
		if !want[k.(record)] {
			panic("after " + s.task.String() + " a record is still answered for")
		}
		delete(want, k.(record))
		return true
	})
	if len(want) > 0 {
		panic("after " + s.task.String() + " a record is not answered for")
	}
}

// answer is the result of the call, or the end of this goroutine.
func (r *run) answer(c call) result {
	if r.got < len(r.results) {
		res := r.results[r.got]
		r.got++
		r.kins = append(r.kins, res.kins...)
		return res
	}
	c.in = caller()
	r.node.call = c
	r.node.att, r.node.attSlot = r.attempt()
	runtime.Goexit()
	panic("unreachable")
}

// caller names the function of the package's own code that made the call.
func caller() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasSuffix(f.File, "_test.go") {
			return f.Function[strings.LastIndexByte(f.Function, '.')+1:]
		}
		if !more {
			return ""
		}
	}
}

func errorOf(no syscall.Errno) error {
	if no == 0 {
		return nil
	}
	return no
}

// path reads a name that the code has used.
func (r *run) path(name string) path {
	top, sub, _ := strings.Cut(name, "/")
	p := path{top: r.tok(top)}
	if sub != "" {
		p.sub = r.tok(sub)
	}
	return p
}

func (r *run) tok(name string) tok {
	if name == "" {
		return tok{}
	}
	if name == lockName {
		return tok{kind: nLock}
	}
	if rec, beside, ok := parseCandidate(name); ok {
		if beside {
			return tok{nBeside, r.slot(rec)}
		}
		return tok{nCand, r.slot(rec)}
	}
	if rec, err := parseRecord(name); err == nil {
		return tok{nRec, r.slot(rec)}
	}
	if isSilly(name) {
		return tok{kind: nSilly}
	}
	return tok{kind: nJunk}
}

func (r *run) name(t tok) string {
	switch t.kind {
	case nLock:
		return lockName
	case nCand:
		return r.record(t.rec).candidate()
	case nBeside:
		return besidePrefix + r.record(t.rec).name()
	case nRec:
		return r.record(t.rec).name()
	case nSilly:
		return ".nfs0001"
	}
	return "@eaDir"
}

func (r *run) Mkdir(name string, _ fs.FileMode) error {
	return errorOf(r.answer(call{op: cMkdir, a: r.path(name)}).err)
}

func (r *run) Symlink(_, name string) error {
	return errorOf(r.answer(call{op: cSymlink, a: r.path(name)}).err)
}

func (r *run) Rename(from, to string) error {
	return errorOf(r.answer(call{op: cRename, a: r.path(from), b: r.path(to)}).err)
}

func (r *run) Unlink(name string) error {
	return errorOf(r.answer(call{op: cUnlink, a: r.path(name)}).err)
}

func (r *run) Rmdir(name string) error {
	return errorOf(r.answer(call{op: cRmdir, a: r.path(name)}).err)
}

func (r *run) List(name string) ([]string, error) {
	res := r.answer(call{op: cList, a: r.path(name)})
	var names []string
	for _, t := range res.names {
		names = append(names, r.name(t))
	}
	return names, errorOf(res.err)
}

func (r *run) Refresh() error { return errorOf(r.answer(call{op: cRefresh}).err) }

func (r *run) Readlink(name string) (string, error) {
	return "", errorOf(r.answer(call{op: cReadlink, a: r.path(name)}).err)
}

func (r *run) Mode() (fs.FileMode, error) {
	return 0o755, errorOf(r.answer(call{op: cMode}).err)
}

func (r *run) Sync() error    { return errorOf(r.answer(call{op: cSync}).err) }
func (r *run) Replayed() bool { return r.code.replayed }
func (r *run) Close() error   { return nil }

func (r *run) judge(id procid.ID) procid.Judgement {
	for slot := range rid(len(r.kins)) {
		if rec := r.record(slot); rec.holder == id {
			return r.answer(call{op: cJudge, a: path{sub: tok{nRec, slot}}}).verdict
		}
	}
	panic("a judgement of nobody")
}

// judge says what is wrong with an outcome in the light of the results: an error
// that no call returned, or a wait for a lock that no call found held.
func (n *node) judge() string {
	err := n.out.err
	own := errors.Is(err, errHeld) || errors.Is(err, ErrOdd) || isHeld(err)
	switch {
	case own:
		return fmt.Sprintf("%v ended with %v, which is no error of a call", n.start.task, err)
	case err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrOutdated) && !n.explains(err):
		return fmt.Sprintf("%v ended with %v, which no call returned", n.start.task, err)
	case err == nil && n.start.task == tSeek && n.out.turn == wait && !n.keptOut():
		return "a take waits though no call has found the lock held"
	}
	return ""
}

// keptOut reports whether the last try for the lock was answered by "held".
func (n *node) keptOut() bool {
	for p := n; p.parent != nil; p = p.parent {
		c := p.parent.call
		if c.op == cRename && c.b == (path{top: tok{kind: nLock}}) || c.op == cRmdir && c.in == "makeRoom" || c.op == cMkdir && c.a.top.kind == nLock {
			switch p.res.err {
			case syscall.ENOTEMPTY, syscall.EEXIST:
				return true
			case syscall.ENOENT: // the rename was refused for a lock that is gone
				return c.in == "makeRoom"
			}
			return false
		}
		if c.in == "waitForOwner" { // what the rename was refused for
			return p.res.err == 0 || p.res.err == syscall.ENOENT
		}
	}
	return false
}

// explains reports whether the error of an operation is one that a call of it
// returned: none is ever made up or renamed.
func (n *node) explains(err error) bool {
	for p := n; p.parent != nil; p = p.parent {
		if p.res.err != 0 && errors.Is(err, p.res.err) {
			return true
		}
	}
	return false
}
