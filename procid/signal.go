package procid

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// signals is a set of signals as /proc writes it: bit n-1 is signal n.
type signals uint64

func setOf(sigs ...unix.Signal) (set signals) {
	for _, s := range sigs {
		set |= 1 << (s - 1)
	}
	return set
}

var (
	// asksForEnd are the signals whose handler commonly means: stop what you
	// do. The handlers of others (CHLD, WINCH, URG, IO, PROF, the runtimes' own
	// real-time signals) are housekeeping.
	asksForEnd = setOf(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGALRM, unix.SIGUSR1, unix.SIGUSR2)

	// spares are the signals that kill nobody who has not asked for them:
	// signal(7), the actions Ign, Stop and Cont.
	spares = setOf(unix.SIGCHLD, unix.SIGURG, unix.SIGWINCH, unix.SIGCONT, unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)

	kill = setOf(unix.SIGKILL)
)

// endsWait is the rule of EndsWait.
func (s status) endsWait() bool {
	if state, _ := s.field("State"); state != "" && (state[0] == 'Z' || state[0] == 'X') {
		return true
	}
	pending := s.signals("SigPnd") | s.signals("ShdPnd")
	if pending&kill != 0 {
		return true
	}
	caught := s.signals("SigCgt")
	pending &^= s.signals("SigBlk") | s.signals("SigIgn")
	return pending&caught&asksForEnd != 0 || pending&^caught&^spares != 0
}

// signals returns the set of one field. One that cannot be read is empty:
// then no signal is known of.
func (s status) signals(key string) signals {
	v, _ := s.field(key)
	n, err := strconv.ParseUint(v, 16, 64)
	if err != nil {
		return 0
	}
	return signals(n)
}
