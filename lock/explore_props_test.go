package lock

import (
	"fmt"
	"slices"
	"syscall"
)

func errnoName(e syscall.Errno) string {
	for name, no := range map[string]syscall.Errno{"ENOENT": syscall.ENOENT, "EEXIST": syscall.EEXIST, "ENOTEMPTY": syscall.ENOTEMPTY,
		"EIO": syscall.EIO, "EINTR": syscall.EINTR, "ENOSPC": syscall.ENOSPC, "EDQUOT": syscall.EDQUOT, "EACCES": syscall.EACCES,
		"EROFS": syscall.EROFS, "ESTALE": syscall.ESTALE, "ENOTDIR": syscall.ENOTDIR} {
		if no == e {
			return name
		}
	}
	return e.Error()
}

// passes says what is wrong with a step from one state to another.
func (s *search) passes(before, after *world, st step) string {
	if wrong := s.x.mutual(after); wrong != "" {
		return wrong
	}
	if s.x.refine && !s.x.harmOnly {
		return s.refines(before, after, st)
	}
	return ""
}

// mutual: at most one process believes that it holds, and its record stands,
// unless somebody outside had his hands on it.
func (x *explorer) mutual(w *world) string {
	holders := 0
	for p := range x.programs {
		q := &w.procs[p]
		if !q.believes() || w.recs[q.bind[0]].taken {
			continue
		}
		if holders++; holders > 1 {
			return "two processes believe that they hold the lock"
		}
		if !x.holds(w, q.bind[0]) {
			return fmt.Sprintf("p%d believes that it holds the lock, and its record does not stand", p+1)
		}
	}
	if l := w.tree.lock(); l != nil && !x.odd && !x.harmOnly {
		n := 0
		for _, k := range l.kids[:l.n] {
			if k.kind == nRec {
				n++
			}
		}
		if n > 1 {
			return "the lock holds two records"
		}
	}
	return ""
}

// arrives says what is wrong with a state that was reached for the first time.
func (s *search) arrives(w *world, _ int) string {
	if s.x.refine {
		s.model[s.x.abstract(w)] = true
	}
	if s.x.harmOnly {
		return ""
	}
	return s.lone(w)
}

// lone: if all are killed now, one process of the right host, alone and without
// a further fault, gets the lock and lets it go, and when both hosts have
// recovered, nothing is left of any lock or candidate.
func (s *search) lone(w *world) string {
	x := s.x
	dead := *w
	dead.crashes, dead.faults, dead.outside, dead.npend, dead.npast = 0, 0, 0, 0, 0
	for p := range x.programs {
		x.kills(&dead, p, ended)
		dead.procs[p] = proc{}
	}
	for r := range dead.nrec {
		dead.recs[r].taken = false
	}
	key, _ := dead.encode(nil, nil)
	if _, fresh := s.trees.add(key); !fresh {
		return ""
	}
	s.solos++
	r, held := dead.record()
	for p, pr := range x.programs {
		if pr.role >= breaker || x.odd && x.strange(&dead) || x.barred(&dead, p) {
			continue
		}
		if held && !x.judge(&dead, p, r).Stale() {
			if x.programs[dead.recs[r].proc].host == pr.host && x.hosts[pr.host].pidNS == firstPIDNS {
				return fmt.Sprintf("no process of host %s may recover what a dead one of it left", hostName(pr.host))
			}
			continue
		}
		alone := dead
		if wrong := x.runAlone(&alone, p); wrong != "" {
			return "if all were killed now: " + wrong
		}
	}
	return ""
}

// strange reports whether the lock needs a person.
func (x *explorer) strange(w *world) bool {
	i := w.tree.find(tok{kind: nLock})
	if i < 0 {
		return false
	}
	e := &w.tree.ents[i]
	_, one := w.record()
	return e.file || e.n > 1 || e.n == 1 && !one
}

// barred reports whether the lock directory is another user's, who alone may
// remove it.
func (x *explorer) barred(w *world, p int) bool {
	l := w.tree.lock()
	return l != nil && x.fs.fixed && x.fs.forbids(l, x.programs[p].user)
}

func (x *explorer) runAlone(w *world, p int) string {
	w.procs[p].rounds = 1
	x.wake(w, p)
	took := false
	for range 500 {
		q := &w.procs[p]
		if q.phase != running {
			break
		}
		took = took || q.believes()
		if w.nrec > maxRecs/2 { // what went round for ever would fill it
			b, _ := w.encode(nil, nil)
			w.decode(b, x.code)
		}
		c := q.global(q.at.call)
		err, names, v, wrong := x.does(w, p, c)
		if wrong == "" {
			wrong = x.answers(w, p, err, names, v)
		}
		if wrong != "" {
			return fmt.Sprintf("p%d alone: %s", p+1, wrong)
		}
		if q.phase == running && q.at.start.task == tGiveUp {
			return fmt.Sprintf("p%d alone fails to take the lock", p+1)
		}
	}
	switch {
	case !took:
		return fmt.Sprintf("p%d alone never gets the lock", p+1)
	case w.procs[p].phase == running:
		return fmt.Sprintf("p%d alone never lets the lock go", p+1)
	}
	return x.cleaned(w)
}

// cleaned: after a recovery by each host nothing is left.
func (x *explorer) cleaned(w *world) string {
	for p, pr := range x.programs {
		if pr.role >= breaker {
			continue
		}
		w.procs[p] = proc{phase: running, rounds: 1}
		if wrong := x.runs(w, p, start{task: tRecover}); wrong != "" {
			return "recover: " + wrong
		}
		w.procs[p] = proc{}
	}
	for i := range int(w.tree.n) {
		e := &w.tree.ents[i]
		var left []tok
		if e.name.bears() {
			left = append(left, e.name)
		}
		left = append(left, e.kids[:e.n]...)
		forever := e.name.kind == nLock && x.odd
		for _, t := range left {
			if t.bears() && x.hosts[x.programs[w.recs[t.rec].proc].host].pidNS != firstPIDNS {
				forever = true // nobody may judge it
			}
		}
		if !forever {
			return "something of lockfs is left when all have ended"
		}
	}
	return ""
}

// atTheEnd says what is wrong with a state from which nothing leads on.
func (x *explorer) atTheEnd(w *world) string {
	for p := range x.programs {
		if w.procs[p].phase == running {
			return ""
		}
	}
	left := x.leftByLiving(w)
	then := *w
	then.faults, then.npend = 0, 0
	for range x.programs {
		if left < 0 || x.settings.faults == 0 {
			break
		}
		// A fault may have kept it from discarding what others left, or have
		// done a call of it twice. What it has in hand of that, its next look
		// finds.
		then.procs[left] = proc{phase: running, rounds: 1}
		if wrong := x.runs(&then, left, start{task: tRecover}); wrong != "" {
			return "recover: " + wrong
		}
		left = x.leftByLiving(&then)
	}
	if left >= 0 {
		return fmt.Sprintf("all rounds are over, and something of p%d is left, which lives", left+1)
	}
	if l := w.tree.lock(); l != nil && l.n == 0 && !x.mayLeave() {
		return "all rounds are over, and an empty lock is left"
	}
	return ""
}

// leftByLiving returns a living process that has left something, or -1.
func (x *explorer) leftByLiving(w *world) int {
	for i := range int(w.tree.n) {
		e := &w.tree.ents[i]
		for _, t := range append([]tok{e.name}, e.kids[:e.n]...) {
			if t.bears() && w.recs[t.rec].life == living && !x.odd {
				return int(w.recs[t.rec].proc)
			}
		}
	}
	return -1
}

// runs lets the process run an operation, alone and without faults.
func (x *explorer) runs(w *world, p int, s start) string {
	wrong := x.begins(w, p, s, nil)
	for range 500 {
		q := &w.procs[p]
		if wrong != "" || q.phase != running {
			return wrong
		}
		err, names, v, bad := x.does(w, p, q.global(q.at.call))
		if wrong = bad; wrong == "" {
			wrong = x.answers(w, p, err, names, v)
		}
	}
	return "it never ends"
}

// mayLeave reports whether an empty lock directory may be left at the end: a
// crash between the two steps of a release leaves one, until the next take of
// somebody who may remove it.
func (x *explorer) mayLeave() bool {
	return x.fs.fixed || x.settings.crashes > 0 || x.settings.outside > 0 || x.settings.faults > 0
}

// blockedIn reports whether every process that runs may wait for ever in this
// state: for a lock that none of them may judge.
func (x *explorer) blockedIn(w *world) bool {
	if x.strange(w) {
		return true
	}
	r, held := w.record()
	if !held {
		return false
	}
	a := w.recs[r]
	if a.life == living {
		// Its process may have been given it back by an outsider, when it was
		// done with it; then it is for a person.
		return x.odd && w.procs[a.proc].phase != running
	}
	for p := range x.programs {
		if w.procs[p].phase == running && x.judge(w, p, r).Stale() {
			return false
		}
	}
	return true
}

// progresses: there is no run, fair to every process, in which somebody waits
// for ever, but for a lock that only another host may judge. (Rounds end, so
// that no take is on a cycle.)
func (s *search) progresses() {
	g := graph{n: s.states(), next: func(i int, yield func(j, p int)) {
		for _, e := range s.edges[s.first[i]:s.first[i+1]] {
			if e.proc >= 0 {
				yield(int(e.to), int(e.proc))
			}
		}
	}}
	enabled := func(i, p int) bool {
		return slices.ContainsFunc(s.edges[s.first[i]:s.first[i+1]], func(e edge) bool { return int(e.proc) == p })
	}
	g.cycles(func(i int) bool { return !s.blocked[i] }, func(members []int) {
		if s.problem == nil && g.fair(members, len(s.x.programs), enabled) {
			at := slices.Min(members)
			s.fails(fmt.Sprintf("a fair run can go round for ever through this state and %d more without a take", len(members)-1), at, -1)
		}
	})
}

// abstract is the state of the published model that a state is.
func (x *explorer) abstract(w *world) shared {
	var s shared
	for p := range x.programs {
		if w.procs[p].waiting {
			s.pc[p] = sharedWaiting
		}
	}
	if r, held := w.record(); held {
		a := w.recs[r]
		s.owner = sharedHost(int(a.proc))
		if s.lock = sharedStale; a.life == living {
			s.lock = sharedLocked
			s.pc[a.proc] = sharedCritical
		}
	}
	return s
}

// refines: the step is a step of the published model, or none. A process that
// wants the lock again in the same step, or has recovered a lock only to let it
// go, may do two: the second, of its own, from idle to waiting.
func (s *search) refines(before, after *world, st step) string {
	a, b := s.x.abstract(before), s.x.abstract(after)
	// A free lock has no owner; the model keeps the last one.
	same := func(a, b shared) bool {
		if a.lock == sharedFree && b.lock == sharedFree {
			a.owner, b.owner = 0, 0
		}
		return a == b
	}
	if same(a, b) {
		return ""
	}
	for p := range s.x.programs {
		for _, m := range sharedSteps(a, p) {
			if same(m, b) {
				return ""
			}
			if m.pc[p] == sharedIdle {
				m.pc[p] = sharedWaiting
				if same(m, b) {
					return ""
				}
			}
		}
	}
	return fmt.Sprintf("the published model has no such step: %+v to %+v", a, b)
}
