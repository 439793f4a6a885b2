package procid

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrUnseen: the thread is not visible from here: its id is 0 (another pid
// namespace), or it has ended, or /proc hides it.
var ErrUnseen = errors.New("procid: the thread cannot be seen from here")

// Thread names one thread of this host exactly.
type Thread struct {
	TID   int
	Start uint64
}

// unseen returns ErrUnseen with the reason.
func unseen(tid int, err error) error { return fmt.Errorf("%w: thread %d: %w", ErrUnseen, tid, err) }

// errNoTID is the reason for an id that the kernel gives to nobody.
var errNoTID = errors.New("no id in this pid namespace")

// statusOf returns the status of the thread tid of this host.
func statusOf(tid int) (status, error) {
	p, err := ourProc()
	if err != nil {
		return nil, unseen(tid, err)
	}
	return p.thread(tid)
}

// thread returns the status of the thread tid. Every error is an ErrUnseen.
func (p procfs) thread(tid int) (status, error) {
	if tid <= 0 {
		return nil, unseen(tid, errNoTID)
	}
	text, err := p.status(tid)
	if err != nil {
		return nil, unseen(tid, err)
	}
	return text, nil
}

// FindThread returns the thread whose id is tid now, or ErrUnseen.
func FindThread(tid int) (Thread, error) {
	p, err := ourProc()
	if err != nil {
		return Thread{}, unseen(tid, err)
	}
	return p.findThread(tid)
}

func (p procfs) findThread(tid int) (Thread, error) {
	if tid <= 0 {
		return Thread{}, unseen(tid, errNoTID)
	}
	st, err := p.stat(tid)
	switch {
	case err != nil:
		return Thread{}, unseen(tid, err)
	case st.ended():
		return Thread{}, unseen(tid, errors.New("it has ended"))
	}
	return Thread{TID: tid, Start: st.start}, nil
}

// Alive reports whether the thread still lives. In doubt it does. A main
// thread that has ended before the rest of its process does not live.
func (t Thread) Alive() bool {
	p, err := ourProc()
	return err != nil || p.alive(t)
}

func (p procfs) alive(t Thread) bool {
	st, err := p.stat(t.TID)
	switch {
	case err == nil:
		return st.start == t.Start && !st.ended()
	case gone(err):
		// It may have been hidden since (hidepid=2 and a change of user).
		// Signal 0 reaches every thread that there is, or EPERM.
		return unix.Kill(t.TID, 0) != unix.ESRCH
	}
	return true
}

func (s status) program() (name string, pid int, err error) {
	if name, err = s.name(); err != nil {
		return "", 0, err
	}
	if pid, err = s.number("Tgid"); err != nil {
		return "", 0, err
	}
	return name, pid, nil
}

// EndsWait reports whether a signal that ends a wait is pending for the
// thread tid or its process: one that kills it, or a caught one of INT, TERM,
// HUP, QUIT, ALRM, USR1, USR2. A thread that can't be seen has ended: true.
//
// A handler installed with SA_RESTART (sigaction(2)) is not told from another:
// /proc does not show that flag. A caught ALRM ends the wait all the same,
// since a program's own time limit must.
func EndsWait(tid int) bool {
	text, err := statusOf(tid)
	switch {
	case err == nil:
		return text.endsWait()
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EINTR):
		// A want of this process says nothing of the other. The caller looks
		// again.
		return false
	}
	return true
}
