package lock

import (
	"fmt"
	"syscall"

	"github.com/lockfs/lockfs/procid"
)

// step is one edge between states, as a trace tells it.
type step struct {
	// proc is who acts, or -1.
	proc int
	// fault: something goes wrong, or somebody outside acts: it need not
	// happen, and no fairness asks for it.
	fault bool
	how   how
	err   syscall.Errno
	what  string
}

type how uint8

const (
	hCall      how = iota // the process's next call is done and answered
	hLost                 // done, and answered by err
	hRefuse               // not done, and answered by err
	hStale                // not done, and answered by what was true before
	hCrash                // the process is killed
	hCrashLate            // the process is killed, its call still under way
	hReboot               // its host is
	hStart                // it is started again
	hTurn                 // it turns to another operation: what says which
	hLate                 // a request under way is carried out
	hTwice                // done, answered, and a second copy is under way
	hOutside              // an outsider acts: what says how
)

// lostAnswers are the answers that a call that was done may get all the same:
// of its own replay (nfsd has forgotten the first), or none.
var lostAnswers = map[op][]syscall.Errno{
	cMkdir:   {syscall.EEXIST, syscall.EIO, syscall.EINTR},
	cSymlink: {syscall.EEXIST, syscall.EIO, syscall.EINTR},
	cRename:  {syscall.ENOENT, syscall.EEXIST, syscall.ENOTEMPTY, syscall.EIO, syscall.EINTR},
	cUnlink:  {syscall.ENOENT, syscall.EIO, syscall.EINTR},
	cRmdir:   {syscall.ENOENT, syscall.ENOTEMPTY, syscall.EIO, syscall.EINTR},
}

// next yields every step from w, each with the state after it and what is
// wrong with it.
func (x *explorer) next(w *world, yield func(s step, after *world, wrong string)) {
	var after world
	for p := range x.programs {
		q := &w.procs[p]
		switch {
		case q.phase == running:
			x.nextOf(w, p, &after, yield)
		case q.phase == asleep && q.rounds > 0 && x.programs[p].role == breaker:
			if r, ok := w.record(); ok {
				after = *w
				after.procs[p].phase = running
				wrong := x.begins(&after, p, start{task: tBreak, kin: x.kin(w, p, r), slots: 1, force: true}, []rid{r})
				yield(step{proc: p, fault: true, how: hTurn, what: "sees a record, and breaks it"}, &after, wrong)
			}
		case q.phase == asleep && q.rounds > 0 && x.programs[p].role == cleaner:
			after = *w
			after.procs[p].phase = running
			wrong := x.begins(&after, p, start{task: tVacate}, nil)
			yield(step{proc: p, fault: true, how: hTurn, what: "discards all candidates"}, &after, wrong)
		case q.phase == asleep && q.rounds > 0:
			after = *w
			x.wake(&after, p)
			yield(step{proc: p, how: hStart}, &after, "")
		}
	}
	if w.crashes > 0 && x.reboot {
		for h := range x.hosts {
			after = *w
			after.crashes--
			x.reboots(&after, h)
			yield(step{proc: -1, fault: true, how: hReboot, what: hostName(h)}, &after, "")
		}
	}
	for i := range int(w.npend) {
		after = *w
		l := after.pend[i]
		after.npend--
		after.pend[i] = after.pend[after.npend]
		after.pend[after.npend] = late{}
		_, wrong := x.changes(&after, int(l.proc), l.call)
		yield(step{proc: -1, fault: true, how: hLate, what: fmt.Sprint(i)}, &after, wrong)
	}
	if w.outside > 0 && x.outsider != nil {
		x.outsider(x, w, func(what string, after *world) {
			after.outside--
			yield(step{proc: -1, fault: true, how: hOutside, what: what}, after, "")
		})
	}
}

func hostName(h int) string { return string(rune('A' + h)) }

func (x *explorer) nextOf(w *world, p int, after *world, yield func(s step, after *world, wrong string)) {
	q := &w.procs[p]
	n := q.at
	c := q.global(n.call)

	*after = *w
	err, names, v, wrong := x.does(after, p, c)
	done := err == 0
	if wrong == "" {
		wrong = x.breaks(w, after, p, c, done)
	}
	did := *after
	if more := x.answers(after, p, err, names, v); wrong == "" {
		wrong = more
	}
	yield(step{proc: p, how: hCall}, after, wrong)

	x.turns(w, p, after, yield)
	if w.crashes > 0 {
		*after = *w
		after.crashes--
		x.kills(after, p, ended)
		yield(step{proc: p, fault: true, how: hCrash}, after, "")
		if x.delayed && w.faults > 0 && c.op.changes() && w.npend < maxPend {
			*after = *w
			after.crashes--
			after.faults--
			x.kills(after, p, ended)
			after.pend[after.npend] = late{c, uint8(p)}
			after.npend++
			yield(step{proc: p, fault: true, how: hCrashLate}, after, "")
		}
	}
	if w.faults == 0 {
		return
	}
	if x.lost && done && wrong == "" {
		for _, e := range lostAnswers[c.op] {
			if e == syscall.ENOENT && c.op == cUnlink && !x.replayed {
				continue // with sessions it means what it says: the lock was lost
			}
			*after = did
			after.faults--
			yield(step{proc: p, fault: true, how: hLost, err: e}, after, x.answers(after, p, e, nil, procid.Judgement{}))
		}
	}
	if x.duplicates && done && (c.op == cMkdir || c.op == cSymlink) && did.npend < maxPend {
		*after = did
		after.faults--
		after.pend[after.npend] = late{c, uint8(p)}
		after.npend++
		yield(step{proc: p, fault: true, how: hTwice}, after, x.answers(after, p, 0, nil, procid.Judgement{}))
	}
	refuse := func(e syscall.Errno) {
		*after = *w
		after.faults--
		yield(step{proc: p, fault: true, how: hRefuse, err: e}, after, x.answers(after, p, e, nil, procid.Judgement{}))
	}
	if c.op != cJudge {
		for _, e := range x.refusals {
			refuse(e)
		}
	}
	// What was seen of real caches: an absence answers for names below a
	// subdirectory and for the source of a rename. List trusts no cache.
	if x.cached && err != syscall.ENOENT && c.op.changes() && (c.a.sub.kind != noName || c.op == cRename) {
		refuse(syscall.ENOENT)
	}
	if c.op == cList && c.a.top.kind == nLock && (x.stale && n.call.in == "look" || x.staleChecks) {
		old := func(e syscall.Errno, names []tok) {
			*after = *w
			after.faults--
			yield(step{proc: p, fault: true, how: hStale, err: e, what: "a former content"}, after, x.answers(after, p, e, names, procid.Judgement{}))
		}
		old(syscall.ENOENT, nil)
		old(0, nil)
		for _, o := range w.past[:w.npast] {
			old(0, o.kids[:o.n])
		}
	}
}

// turns yields the steps by which a process turns from one operation to
// another: a holder to a check, a waiter to giving up.
func (x *explorer) turns(w *world, p int, after *world, yield func(s step, after *world, wrong string)) {
	q := &w.procs[p]
	n := q.at
	if !n.root() {
		return
	}
	turn := func(what string, s start) {
		*after = *w
		wrong := x.begins(after, p, s, q.bind[:s.slots])
		yield(step{proc: p, fault: true, how: hTurn, what: what}, after, wrong)
	}
	switch n.start.task {
	case tSeek:
		if x.giveUp && n.start.att.built() {
			s := n.start
			s.task = tGiveUp
			turn("gives up", s)
		}
	case tRelease:
		if x.checks {
			turn("checks its hold", start{task: tCheck, slots: 1})
		}
		if x.programs[p].role == vacater && !n.start.force {
			turn("discards all candidates", start{task: tVacate, slots: 1})
		}
	}
}

// breaks marks the record that an operator's break takes from its holder.
func (x *explorer) breaks(before, after *world, p int, c call, done bool) string {
	if done && x.programs[p].role == breaker && c.op == cRename && c.a.top.kind == nLock && c.a.sub.kind == nRec {
		if c.a.sub.rec != before.procs[p].bind[0] {
			return "an operator breaks another lock than the one that he named"
		}
		after.recs[c.a.sub.rec].taken = true
	}
	return ""
}
