package lock

import (
	"errors"
	"slices"

	"github.com/lockfs/lockfs/procid"
)

// Recover frees the lock of d if its holder is a dead process of this host,
// and discards the candidates of such. It reports whether it freed a lock; a
// lock that is held or free is left alone.
func Recover(d Dir, self *procid.Local) (freed bool, err error) {
	return newHolder(self.ID(), self.Judge).recoverDead(d)
}

func (h *holder) recoverDead(d Dir) (freed bool, err error) {
	s, err := h.look(d)
	if err != nil {
		return false, err
	}
	if s.state == Stale {
		unsynced, err := h.free(d, s.rec)
		if err = errors.Join(err, unsynced); err != nil {
			return false, err
		}
		freed = true
	}
	return freed, h.sweep(d)
}

// Break frees the lock of d though nothing proves its holder dead. name is the
// record that the operator saw: if another stands there, ErrOutdated. A holder
// that provably lives on this host is refused with a *HeldError unless force.
//
// A holder that lives after all finds out at its next check; until then it may
// write beside the next holder.
func Break(d Dir, path, name string, self *procid.Local, force bool) error {
	return newHolder(self.ID(), self.Judge).breakLock(d, path, name, force)
}

func (h *holder) breakLock(d Dir, path, name string, force bool) error {
	s, err := h.look(d)
	if err != nil {
		return err
	}
	if !slices.Contains(s.entries, name) {
		return ErrOutdated
	}
	if s.state == Odd {
		return ErrOdd
	}
	if s.rec.name() != name {
		return ErrOutdated
	}
	if s.judgement.Verdict == procid.Alive && !force {
		return &HeldError{Path: path, By: s.by(), Remote: true}
	}
	unsynced, err := h.free(d, s.rec)
	if errors.Is(err, errChanged) {
		return ErrOutdated
	}
	return errors.Join(err, unsynced)
}
