package procid

import "errors"

// ErrUnseen: the thread is not visible from here: its id is 0 (another pid
// namespace), or it has ended, or /proc hides it.
var ErrUnseen = errors.New("procid: the thread cannot be seen from here")

// Thread names one thread of this host exactly.
type Thread struct {
	TID   int
	Start uint64
}

// FindThread returns the thread whose id is tid now, or ErrUnseen.
func FindThread(tid int) (Thread, error) { return Thread{}, nil }

// Alive reports whether the thread still lives. In doubt it does.
func (t Thread) Alive() bool { return true }

// Program returns the name (comm) and the process id of the thread tid.
func Program(tid int) (name string, pid int, err error) { return "", 0, nil }

// Groups returns the supplementary groups of the thread tid.
func Groups(tid int) ([]uint32, error) { return nil, nil }

// EndsWait reports whether a signal that ends a wait is pending for the
// thread tid or its process: one that kills it, or a caught one of INT, TERM,
// HUP, QUIT, ALRM, USR1, USR2. A thread that can't be seen has ended: true.
func EndsWait(tid int) bool { return false }

// HasOpen reports whether the process of the thread tid has the file with
// this device and inode number open.
func HasOpen(tid int, dev, ino uint64) bool { return false }
