package procid

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// initialPIDNS is the inode of the initial pid namespace, PROC_PID_INIT_INO
// of linux/proc_ns.h: the same on every machine.
const initialPIDNS = 0xEFFFFFFC

// Judge says whether the process id is alive, seen from here.
func (l *Local) Judge(id ID) Judgement {
	if j, ok := judgeBoot(l.id, id); ok {
		return j
	}
	if err := l.proc.mine(l.id.PID); err != nil {
		return unknown("processes cannot be looked up: %v", err)
	}
	if id.PIDNS != l.id.PIDNS {
		return l.judgeNamespace(id)
	}
	return l.judgeProcess(id)
}

// judgeBoot is the rule of machines and boots: what the two identities alone
// tell. It reports false where they do not decide: other is of this boot, and
// must be looked for.
func judgeBoot(self, other ID) (Judgement, bool) {
	switch {
	case other.Machine != self.Machine:
		return Judgement{Verdict: Foreign, Reason: "it is of another machine"}, true
	case !isHex(other.Boot, 32) || other.PID <= 0 || other.PID > math.MaxInt32:
		return unknown("its record names no process"), true
	case other.Boot == self.Boot:
		return Judgement{}, false
	}
	// Another boot of this machine, or another machine under its id: a clone,
	// or a container with a boot id of its own. The one has died, the other
	// may live.
	shared := func(why string) (Judgement, bool) {
		return Judgement{Verdict: Foreign, SharedMachine: true, Reason: "it is of another boot under this machine's id, and cannot be told from a process of another host or container that shares the id: " +
			why + "; give each a machine-id, or a " + EnvHostID + ", of its own"}, true
	}
	switch {
	case self.Fingerprint == noFingerprint:
		return shared("this machine has no fingerprint")
	case !sameFingerprint(self.Fingerprint, other.Fingerprint):
		return shared("its fingerprint is not this machine's")
	case self.PIDNS != initialPIDNS:
		return shared("this process is not in the initial pid namespace")
	case other.PIDNS != initialPIDNS:
		return shared("it was not in the initial pid namespace")
	}
	return dead("this machine has been rebooted since"), true
}

// judgeProcess judges a process of this boot and this pid namespace.
func (l *Local) judgeProcess(id ID) Judgement {
	// The pidfd first: whatever the number names from here on, the descriptor
	// stays with the process that had it now.
	fd, err := l.open(id.PID)
	switch err {
	case nil:
		defer unix.Close(fd)
	case unix.ESRCH:
		return dead("no process %d is left", id.PID)
	case unix.EINVAL, unix.ENOENT:
		return l.judgeThread(id, err)
	default:
		// EPERM, ENOSYS, EMFILE: nothing was learnt.
		return unknown("process %d cannot be opened: pidfd_open: %v", id.PID, err)
	}
	st, staterr := l.proc.stat(id.PID)
	comparable := id.TimeNS == l.id.TimeNS
	if staterr == nil && comparable && st.start != id.Start {
		return dead("process %d is another one now (%q, started %d ticks after the boot, not %d)", id.PID, st.comm, st.start, id.Start)
	}
	ended, err := l.ended(fd)
	switch {
	case err != nil:
		return unknown("process %d cannot be watched: poll: %v", id.PID, err)
	case ended && staterr == nil && st.ended():
		return dead("process %d has ended and is only not yet reaped", id.PID)
	case ended:
		return dead("process %d has just ended", id.PID)
	case staterr != nil:
		return unknown("there is a process %d, but not whether it is the same: %v", id.PID, staterr)
	case !comparable:
		return unknown("there is a process %d, but its start was recorded in another time namespace", id.PID)
	case st.ended():
		return alive("the main thread of process %d has ended, but another of its %d threads lives", id.PID, st.threads)
	}
	return alive("process %d lives", id.PID)
}

// judgeThread judges a process whose number, said pidfd_open with the error
// cause, leads no process.
func (l *Local) judgeThread(id ID, cause error) Judgement {
	text, err := l.proc.status(id.PID)
	if err != nil {
		return unknown("process %d cannot be opened (pidfd_open: %v) nor read: %v", id.PID, cause, err)
	}
	leader, err := text.number("Tgid")
	if err != nil {
		return unknown("process %d cannot be opened (pidfd_open: %v) nor read: %v", id.PID, cause, err)
	}
	if leader == id.PID {
		return unknown("process %d cannot be opened: pidfd_open: %v", id.PID, cause)
	}
	return dead("%d is a thread of process %d now", id.PID, leader)
}

// judgeNamespace judges a process of this boot and of another pid namespace.
// Its number means nothing here. But a process of any namespace is listed in
// the initial one, so that one whose namespace has no process left is dead.
func (l *Local) judgeNamespace(id ID) Judgement {
	if l.id.PIDNS != initialPIDNS {
		return unknown("it is of another pid namespace of this boot (a container?)")
	}
	if id.PIDNS == 0 {
		return unknown("its pid namespace is not known")
	}
	if err := l.proc.complete(); err != nil {
		return unknown("whether its pid namespace has a process left cannot be seen: %v", err)
	}
	pids, err := l.proc.pids()
	if err != nil {
		return unknown("whether its pid namespace has a process left cannot be seen: %v", err)
	}
	for _, pid := range pids {
		ns, err := l.proc.namespace(pid, "pid")
		switch {
		case err == nil && ns == id.PIDNS:
			return unknown("its pid namespace lives: process %d is in it", pid)
		case err == nil:
		case gone(err) && l.vanished(pid):
		default:
			return unknown("whether its pid namespace has a process left cannot be seen: %v", err)
		}
	}
	return dead("no process of its pid namespace is left")
}

// vanished reports whether /proc has no directory of pid any more.
func (l *Local) vanished(pid int) bool {
	_, err := os.Lstat(filepath.Join(string(l.proc), strconv.Itoa(pid)))
	return gone(err)
}

func unknown(format string, a ...any) Judgement { return judgement(Unknown, format, a) }
func alive(format string, a ...any) Judgement   { return judgement(Alive, format, a) }
func dead(format string, a ...any) Judgement    { return judgement(Dead, format, a) }

func judgement(v Verdict, format string, a []any) Judgement {
	return Judgement{Verdict: v, Reason: fmt.Sprintf(format, a...)}
}
