package lock

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"os"
	"strings"
	"time"
)

// seen is the set of the states found so far, by a 128-bit hash: with ten
// million states two share one with a probability below 10^-24.
type seen struct {
	a, b  maphash.Seed
	table []int32 // 1 + number
	keys  [][2]uint64
}

func newSeen() *seen {
	return &seen{a: maphash.MakeSeed(), b: maphash.MakeSeed(), table: make([]int32, 1<<12)}
}

// add returns the number of the state, and whether it is new.
func (s *seen) add(state []byte) (int, bool) {
	k := [2]uint64{maphash.Bytes(s.a, state), maphash.Bytes(s.b, state)}
	mask := uint64(len(s.table) - 1)
	i := k[0] & mask
	for ; s.table[i] != 0; i = (i + 1) & mask {
		if n := s.table[i] - 1; s.keys[n] == k {
			return int(n), false
		}
	}
	s.keys = append(s.keys, k)
	s.table[i] = int32(len(s.keys))
	if len(s.keys)*2 > len(s.table) {
		s.grow()
	}
	return len(s.keys) - 1, true
}

func (s *seen) grow() {
	s.table = make([]int32, 2*len(s.table))
	mask := uint64(len(s.table) - 1)
	for n, k := range s.keys {
		i := k[0] & mask
		for s.table[i] != 0 {
			i = (i + 1) & mask
		}
		s.table[i] = int32(n + 1)
	}
}

// edge leads from a state to another, by a process that acts (or -1: by
// nobody that must).
type edge struct {
	to   int32
	proc int8
}

// search is one exploration, breadth first.
type search struct {
	x     *explorer
	seen  *seen
	trees *seen // those from which a lone process was run
	// parent and choice say how each state was first reached: by which step
	// from which state.
	parent []int32
	choice []uint16
	// first[i]:first[i+1] are the edges of state i, if they are kept.
	first []int32
	edges []edge
	// blocked are the states in which whoever lives may wait for ever.
	blocked []bool

	steps   int
	solos   int
	model   map[shared]bool
	problem *problem
	cut     bool // not all states were visited
	took    time.Duration
}

// problem is a violation, and the shortest run to it.
type problem struct {
	what    string
	choices []int
}

// explore visits every reachable state, or stops at the first violation or
// after limit states.
func (x *explorer) explore(limit int) *search {
	began := time.Now()
	s := &search{x: x, seen: newSeen(), trees: newSeen(), model: map[shared]bool{}}
	w := x.first()
	buf, _ := w.encode(nil, x.alike)
	s.seen.add(buf)
	s.parent, s.choice = []int32{-1}, []uint16{0}
	// The states of this layer, one after the other, and of the next.
	layer, next := append(binary.AppendUvarint(nil, uint64(len(buf))), buf...), []byte(nil)
	if what := s.arrives(w, 0); what != "" {
		s.fails(what, 0, -1)
	}
	var from world
	for at := 0; len(layer) > 0 && s.problem == nil; layer, next = next, layer[:0] {
		for rest := layer; len(rest) > 0 && s.problem == nil; at++ {
			n, k := binary.Uvarint(rest)
			state := rest[k : k+int(n)]
			rest = rest[k+int(n):]
			from.decode(state, x.code)
			if x.progress {
				s.first = append(s.first, int32(len(s.edges)))
				s.blocked = append(s.blocked, x.blockedIn(&from))
			}
			choice := -1
			x.next(&from, func(st step, after *world, wrong string) {
				choice++
				s.steps++
				if s.problem != nil {
					return
				}
				if wrong == "" {
					wrong = s.passes(&from, after, st)
				} else if x.harmOnly {
					return
				}
				if wrong != "" {
					s.fails(wrong, at, choice)
					return
				}
				var fresh bool
				var to int
				buf, _ = after.encode(buf[:0], x.alike)
				if to, fresh = s.seen.add(buf); fresh {
					s.parent = append(s.parent, int32(at))
					s.choice = append(s.choice, uint16(choice))
					next = append(binary.AppendUvarint(next, uint64(len(buf))), buf...)
					if wrong := s.arrives(after, to); wrong != "" {
						s.fails(wrong, at, choice)
					}
				}
				if x.progress {
					e := edge{int32(to), int8(st.proc)}
					if st.fault {
						e.proc = -1
					}
					s.edges = append(s.edges, e)
				}
			})
			if s.problem == nil && choice < 0 && !x.harmOnly {
				if wrong := x.atTheEnd(&from); wrong != "" {
					s.fails(wrong, at, -1)
				}
			}
			if at&(1<<21-1) == 1<<21-1 {
				fmt.Fprintf(os.Stderr, "%s: %d states, %d to go on from, %v\n", x.name, s.states(), s.states()-at, time.Since(began).Round(time.Second))
			}
			if limit > 0 && s.states() > limit {
				s.cut = true
				return s
			}
		}
	}
	if x.progress && s.problem == nil {
		s.first = append(s.first, int32(len(s.edges)))
		s.progresses()
	}
	s.took = time.Since(began)
	return s
}

func (s *search) states() int { return len(s.seen.keys) }

// fails notes a violation, by the step of that number from the state at, or in
// the state itself.
func (s *search) fails(what string, at, choice int) {
	if s.problem != nil {
		return
	}
	var choices []int
	if choice >= 0 {
		choices = append(choices, choice)
	}
	for i := at; s.parent[i] >= 0; i = int(s.parent[i]) {
		choices = append(choices, int(s.choice[i]))
	}
	for i, j := 0, len(choices)-1; i < j; i, j = i+1, j-1 {
		choices[i], choices[j] = choices[j], choices[i]
	}
	s.problem = &problem{what, choices}
}

func (s *search) String() string {
	if s.cut {
		return fmt.Sprintf("%s: cut short after %d states", s.x.name, s.states())
	}
	return fmt.Sprintf("%s: %d states, %d steps, %d lone runs, %d nodes of code, %d of 44 model states, %v",
		s.x.name, s.states(), s.steps, s.solos, len(s.x.code.nodes), len(s.model), s.took.Round(time.Millisecond))
}

// tracer tells a run in words.
type tracer struct {
	x     *explorer
	names []string // of the records, by their number in the present state
	made  [maxProcs]int
	who   [maxProcs]int // which process stands in each place
	out   strings.Builder
}

// tell replays the choices and tells each step. It returns what went wrong.
func (x *explorer) tell(choices []int) (text, wrong string) {
	t := &tracer{x: x, who: [maxProcs]int{0, 1, 2, 3}}
	w := x.first()
	t.settle(w)
	t.tree(w)
	for i, c := range choices {
		at, found := -1, false
		var then world
		x.next(w, func(st step, after *world, bad string) {
			if at++; at != c {
				return
			}
			found = true
			fmt.Fprintf(&t.out, "%3d  %s\n", i+1, t.step(w, st))
			a := *after
			s := &search{x: x, seen: newSeen(), trees: newSeen(), model: map[shared]bool{}}
			if wrong = bad; wrong == "" {
				wrong = s.passes(w, &a, st)
			}
			if wrong == "" {
				wrong = s.arrives(&a, 0)
			}
			then = a
		})
		if !found {
			return t.out.String(), fmt.Sprintf("no step %d from here", c)
		}
		*w = then
		t.settle(w)
		t.tree(w)
	}
	if wrong == "" {
		wrong = x.atTheEnd(w)
	}
	return t.out.String(), wrong
}

// settle puts w into its canonical form, and keeps the records' names.
func (t *tracer) settle(w *world) {
	for r := len(t.names); r < int(w.nrec); r++ {
		p := t.who[w.recs[r].proc]
		t.made[p]++
		t.names = append(t.names, fmt.Sprintf("p%d.%d", p+1, t.made[p]))
	}
	b, n := w.encode(nil, t.x.alike)
	names := make([]string, n.next)
	for r, i := range n.of {
		if i != unnumbered {
			names[i] = t.names[r]
		}
	}
	t.names = names
	who := t.who
	for i, p := range n.was {
		t.who[i] = who[p]
	}
	w.decode(b, t.x.code)
}

func (t *tracer) tok(k tok) string {
	switch k.kind {
	case nLock:
		return ".lockfs"
	case nCand:
		return ".lockfs.<" + t.names[k.rec] + ">"
	case nBeside:
		return ".lockfs.r.<" + t.names[k.rec] + ">"
	case nRec:
		return "<" + t.names[k.rec] + ">"
	case nSilly:
		return ".nfs"
	case nJunk:
		return "@eaDir"
	}
	return "D"
}

func (t *tracer) path(p path) string {
	if p.sub.kind == noName {
		return t.tok(p.top)
	}
	return t.tok(p.top) + "/" + t.tok(p.sub)
}

func (t *tracer) call(c call) string {
	s := c.op.String()
	switch c.op {
	case cJudge:
		s += " " + t.tok(c.a.sub)
	case cRename:
		s += " " + t.path(c.a) + " -> " + t.path(c.b)
	default:
		if !c.op.local() {
			s += " " + t.path(c.a)
		}
	}
	if c.in != "" {
		s += "   (" + c.in + ")"
	}
	return s
}

func (t *tracer) step(w *world, s step) string {
	if s.proc < 0 {
		switch s.how {
		case hReboot:
			return "host " + s.what + " reboots"
		case hLate:
			var i int
			fmt.Sscan(s.what, &i)
			return fmt.Sprintf("late request of p%d: %s", t.who[w.pend[i].proc]+1, t.call(w.pend[i].call))
		}
		return "an outsider: " + s.what
	}
	who := fmt.Sprintf("p%d@%s", t.who[s.proc]+1, hostName(t.x.programs[s.proc].host))
	q := &w.procs[s.proc]
	if q.phase != running {
		if s.how == hStart {
			return who + " is started again"
		}
		return who + " " + s.what
	}
	c := q.global(q.at.call)
	doing := fmt.Sprintf("%s [%v] %s", who, q.at.start.task, t.call(c))
	switch s.how {
	case hCall:
		a := *w
		err, names, v, _ := t.x.does(&a, s.proc, c)
		switch {
		case err != 0:
			return doing + ": " + errnoName(err)
		case c.op == cJudge:
			return doing + ": " + verdictName(v.Verdict)
		case c.op == cList:
			for i := range names {
				doing += map[bool]string{true: ": ", false: ", "}[i == 0] + t.tok(names[i])
			}
			if len(names) == 0 {
				doing += ": nothing"
			}
		}
		return doing
	case hLost:
		return doing + ": DONE, but the answer is " + errnoName(s.err)
	case hRefuse:
		return doing + ": NOT DONE, the answer is " + errnoName(s.err)
	case hStale:
		return doing + ": an OUTDATED answer"
	case hCrash:
		return who + " is KILLED before: " + t.call(c)
	case hCrashLate:
		return who + " is KILLED, its request under way: " + t.call(c)
	case hTwice:
		return doing + ": done, and a DUPLICATE of it is under way"
	}
	return who + " " + s.what
}

// tree tells what stands in the directory, and who believes that he holds.
func (t *tracer) tree(w *world) {
	t.out.WriteString("       D:")
	for i := range int(w.tree.n) {
		e := &w.tree.ents[i]
		t.out.WriteString(" " + t.tok(e.name))
		if !e.file {
			t.out.WriteString("{")
			for i, k := range e.kids[:e.n] {
				if i > 0 {
					t.out.WriteString(" ")
				}
				t.out.WriteString(t.tok(k))
			}
			t.out.WriteString("}")
		}
	}
	for p := range t.x.programs {
		if w.procs[p].believes() {
			fmt.Fprintf(&t.out, "   [p%d holds %s]", t.who[p]+1, t.names[w.procs[p].bind[0]])
		}
	}
	t.out.WriteString("\n")
}
