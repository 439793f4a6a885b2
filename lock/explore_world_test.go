package lock

import (
	"bytes"
	"strings"

	"github.com/lockfs/lockfs/procid"
)

// A state of the explorer: the directory, every process, who lives, and what
// may still go wrong.

const (
	maxProcs = 4
	maxRecs  = 40
	maxBind  = 24
	maxPend  = 2
	maxPast  = 3
)

// life says of a record's holder what the kernel of its host knows.
type life uint8

const (
	living life = iota
	ended       // in this boot; its pid is in use again if its slot lives
	lastBoot
)

// about is what is known of a record beside its number.
type about struct {
	proc uint8
	life life
	// taken: an outsider has had his hands on it. Its holder is not safe, and
	// must notice at its next check.
	taken bool
}

func (a about) code() byte {
	c := a.proc<<3 | byte(a.life)<<1
	if a.taken {
		c |= 1
	}
	return c
}

type phase uint8

const (
	asleep  phase = iota // dead, or not started
	running              // at a node of the code
	idle                 // alive, its rounds are over
)

type proc struct {
	phase  phase
	rounds uint8
	// waiting: it wants the lock, or was killed while it did.
	waiting bool
	// at is the node, and bind are the records of its slots.
	at   *node
	n    uint8
	bind [maxBind]rid
}

func (p *proc) slot(r rid) (rid, bool) {
	for i := range p.n {
		if p.bind[i] == r {
			return rid(i), true
		}
	}
	return 0, false
}

func (p *proc) bindTo(r rid) {
	if p.n == maxBind {
		panic("a process of the explorer knows too many records")
	}
	p.bind[p.n] = r
	p.n++
}

// believes reports whether the process believes that it holds the lock.
func (p *proc) believes() bool {
	if p.phase != running {
		return false
	}
	switch p.at.start.task {
	case tRelease:
		return p.at.root()
	case tCheck:
		return true
	case tVacate:
		return p.at.start.slots > 0
	}
	return false
}

// late is a request that is still under way, of a process that may have ended.
// The top names of its paths stand for handles: they move with the directory.
type late struct {
	call call
	proc uint8
}

// content is what the lock directory held at some time.
type content struct {
	n    uint8
	kids [maxKids]tok
}

type world struct {
	procs [maxProcs]proc
	tree  tree
	nrec  rid
	recs  [maxRecs]about

	npend uint8
	pend  [maxPend]late
	npast uint8
	past  [maxPast]content

	// What may still happen.
	crashes, faults, outside uint8
}

func (w *world) newRecord(a about) rid {
	if w.nrec == maxRecs {
		panic("too many records")
	}
	w.recs[w.nrec] = a
	w.nrec++
	return w.nrec - 1
}

// record returns the record in the lock directory, if there is just one.
func (w *world) record() (rid, bool) {
	l := w.tree.lock()
	found, n := rid(0), 0
	if l != nil {
		for _, k := range l.kids[:l.n] {
			if k.kind == nRec {
				found = k.rec
				n++
			}
		}
	}
	return found, n == 1
}

const (
	unnumbered = 0xff
	forgotten  = 0xfe // in a slot that the code makes no more use of
)

// numbering gives the records numbers that do not depend on their history.
type numbering struct {
	w    *world
	next rid
	of   [maxRecs]rid
	// was says which process stands now in each place.
	was [maxProcs]uint8
}

// sortProcs puts processes that differ in nothing but their number into an
// order of their own: which of two equals did what makes no other state.
func (n *numbering) sortProcs(alike *[maxProcs]uint8) {
	w := n.w
	before := func(p, q *proc) bool {
		k := func(p *proc) uint32 {
			k := uint32(p.phase)<<4 | uint32(p.rounds)<<1 | uint32(bit(p.waiting, 1))
			if p.phase == running {
				k |= uint32(p.at.id) << 8
			}
			return k
		}
		return k(p) < k(q)
	}
	for i := 1; i < len(w.procs); i++ {
		for j := i; j > 0 && alike[j] == alike[j-1] && before(&w.procs[j], &w.procs[j-1]); j-- {
			w.procs[j], w.procs[j-1] = w.procs[j-1], w.procs[j]
			n.was[j], n.was[j-1] = n.was[j-1], n.was[j]
		}
	}
	var now [maxProcs]uint8
	for i, p := range n.was {
		now[p] = uint8(i)
	}
	for r := range w.nrec {
		w.recs[r].proc = now[w.recs[r].proc]
	}
	for i := range w.npend {
		w.pend[i].proc = now[w.pend[i].proc]
	}
}

func (n *numbering) see(r rid) {
	if n.of[r] == unnumbered {
		n.of[r] = n.next
		n.next++
	}
}

// code is the token as it is compared before all records have their number.
func (n *numbering) code(t tok) (byte, byte) {
	switch {
	case !t.bears():
		return byte(t.kind), 0
	case n.of[t.rec] != unnumbered:
		return byte(t.kind), byte(n.of[t.rec])
	}
	return byte(t.kind), 0x80 | n.w.recs[t.rec].code()
}

func (n *numbering) less(a, b tok) bool {
	ak, ar := n.code(a)
	bk, br := n.code(b)
	return ak < bk || ak == bk && ar < br
}

func (n *numbering) sort(kids []tok) {
	for i := 1; i < len(kids); i++ {
		for j := i; j > 0 && n.less(kids[j], kids[j-1]); j-- {
			kids[j], kids[j-1] = kids[j-1], kids[j]
		}
	}
}

func (n *numbering) seeAll(kids []tok) {
	n.sort(kids)
	for _, k := range kids {
		if k.bears() {
			n.see(k.rec)
		}
	}
}

// shape is how an entry sorts.
func (n *numbering) shape(e *ent) (s [3 + 2*maxKids]byte) {
	s[2+2*maxKids] = e.owner
	s[0], s[1] = n.code(e.name)
	n.sort(e.kids[:e.n])
	for i, k := range e.kids[:e.n] {
		s[2+2*i], s[3+2*i] = n.code(k)
	}
	return s
}

func (n *numbering) sortEnts(t *tree) {
	var shapes [maxEnts][3 + 2*maxKids]byte
	for i := range int(t.n) {
		shapes[i] = n.shape(&t.ents[i])
	}
	for i := 1; i < int(t.n); i++ {
		for j := i; j > 0 && bytes.Compare(shapes[j][:], shapes[j-1][:]) < 0; j-- {
			shapes[j], shapes[j-1] = shapes[j-1], shapes[j]
			t.ents[j], t.ents[j-1] = t.ents[j-1], t.ents[j]
		}
	}
}

// number numbers every record that matters, and sorts w's directory by it.
func (w *world) number(alike *[maxProcs]uint8) *numbering {
	n := &numbering{w: w, was: [maxProcs]uint8{0, 1, 2, 3}}
	for i := range n.of {
		n.of[i] = unnumbered
	}
	if alike != nil {
		n.sortProcs(alike)
	}
	for i := range w.procs {
		p := &w.procs[i]
		if p.phase == running {
			for _, r := range p.bind[:p.n] {
				if r != forgotten {
					n.see(r)
				}
			}
		}
	}
	if l := w.tree.lock(); l != nil {
		n.seeAll(l.kids[:l.n])
	}
	for i := range int(w.npend) {
		c := &w.pend[i].call
		for _, t := range [...]tok{c.a.top, c.a.sub, c.b.top, c.b.sub} {
			if t.bears() {
				n.see(t.rec)
			}
		}
	}
	n.sortEnts(&w.tree)
	for i := range int(w.tree.n) {
		e := &w.tree.ents[i]
		if e.name.bears() {
			n.see(e.name.rec)
		}
		n.seeAll(e.kids[:e.n])
	}
	n.sortEnts(&w.tree)
	for i := range int(w.npast) {
		n.seeAll(w.past[i].kids[:w.past[i].n])
	}
	return n
}

func (n *numbering) put(b []byte, t tok) []byte {
	if !t.bears() {
		return append(b, byte(t.kind))
	}
	return append(b, byte(t.kind), byte(n.of[t.rec]))
}

func bit(set bool, b byte) byte {
	if set {
		return b
	}
	return 0
}

// encode appends the state, canonically, and returns the numbering it chose.
// alike says which processes (neighbours of equal numbers) may change places;
// nil: none.
func (w *world) encode(b []byte, alike *[maxProcs]uint8) ([]byte, *numbering) {
	n := w.number(alike)
	b = append(b, w.crashes, w.faults, w.outside)
	for i := range w.procs {
		p := &w.procs[i]
		b = append(b, byte(p.phase)|bit(p.waiting, 4)|p.rounds<<3)
		if p.phase != running {
			continue
		}
		b = append(b, byte(p.at.id), byte(p.at.id>>8), byte(p.at.id>>16), p.n)
		for _, r := range p.bind[:p.n] {
			if r != forgotten {
				r = n.of[r]
			}
			b = append(b, byte(r))
		}
	}
	b = append(b, w.tree.n)
	for i := range int(w.tree.n) {
		e := &w.tree.ents[i]
		b = n.put(b, e.name)
		b = append(b, bit(e.file, 0x80)|e.owner<<4|e.n)
		for _, k := range e.kids[:e.n] {
			b = n.put(b, k)
		}
	}
	b = append(b, w.npend|w.npast<<4)
	for i := range int(w.npend) {
		l := &w.pend[i]
		b = append(b, byte(l.call.op), l.proc)
		for _, t := range [...]tok{l.call.a.top, l.call.a.sub, l.call.b.top, l.call.b.sub} {
			b = n.put(b, t)
		}
	}
	for i := range int(w.npast) {
		c := &w.past[i]
		b = append(b, c.n)
		for _, k := range c.kids[:c.n] {
			b = n.put(b, k)
		}
	}
	var recs [maxRecs]byte
	for r, i := range n.of {
		if i != unnumbered {
			recs[i] = w.recs[r].code()
		}
	}
	b = append(b, byte(n.next))
	return append(b, recs[:n.next]...), n
}

// reader reads what encode wrote.
type reader struct{ b []byte }

func (r *reader) byte() byte {
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) tok() tok {
	t := tok{kind: kind(r.byte())}
	if t.bears() {
		t.rec = rid(r.byte())
	}
	return t
}

func (w *world) decode(b []byte, c *code) {
	*w = world{}
	r := &reader{b}
	w.crashes, w.faults, w.outside = r.byte(), r.byte(), r.byte()
	for i := range w.procs {
		p := &w.procs[i]
		f := r.byte()
		p.phase, p.waiting, p.rounds = phase(f&3), f&4 != 0, f>>3
		if p.phase != running {
			continue
		}
		id := int32(r.byte()) | int32(r.byte())<<8 | int32(r.byte())<<16
		p.at = c.node(id)
		p.n = r.byte()
		for j := range p.n {
			p.bind[j] = rid(r.byte())
		}
	}
	w.tree.n = r.byte()
	for i := range int(w.tree.n) {
		e := &w.tree.ents[i]
		e.name = r.tok()
		f := r.byte()
		e.file, e.owner, e.n = f&0x80 != 0, f>>4&7, f&0xf
		for j := range e.n {
			e.kids[j] = r.tok()
		}
	}
	f := r.byte()
	w.npend, w.npast = f&15, f>>4
	for i := range int(w.npend) {
		l := &w.pend[i]
		l.call.op, l.proc = op(r.byte()), r.byte()
		l.call.a, l.call.b = path{r.tok(), r.tok()}, path{r.tok(), r.tok()}
	}
	for i := range int(w.npast) {
		c := &w.past[i]
		c.n = r.byte()
		for j := range c.n {
			c.kids[j] = r.tok()
		}
	}
	w.nrec = rid(r.byte())
	for i := range w.nrec {
		c := r.byte()
		w.recs[i] = about{proc: c >> 3, life: life(c >> 1 & 3), taken: c&1 != 0}
	}
}

// computer is a host as its records show it.
type computer struct {
	machine, fingerprint string
	// boot is a digit of its boot id.
	boot  string
	pidNS uint64
}

const firstPIDNS = 0xEFFFFFFC // PROC_PID_INIT_INO of linux/proc_ns.h

func (c computer) id(pid int, l life) procid.ID {
	boot := c.boot
	if l == lastBoot {
		boot += "0"
	} else {
		boot += "1"
	}
	return procid.ID{Host: "h", Machine: strings.Repeat(c.machine, 32), Boot: strings.Repeat(boot, 16),
		Fingerprint: strings.Repeat(c.fingerprint, 16), PID: pid, Start: 50, PIDNS: c.pidNS, TimeNS: 4026531834}
}
