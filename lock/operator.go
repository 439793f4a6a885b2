package lock

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/lockfs/lockfs/procid"
)

// Recover frees the lock of d if its holder is a dead process of this host,
// and discards the candidates of such. It reports whether it freed a lock; a
// lock that is held is left alone.
func Recover(d Dir, self *procid.Local) (freed bool, err error) {
	return newHolder(self.ID(), self.Judge).recoverDead(d)
}

func (h *holder) recoverDead(d Dir) (freed bool, err error) {
	s, err := h.look(d)
	if err != nil {
		return false, err
	}
	if s.empty {
		// Its holder has died in the middle of a release, or is about to go on.
		if err := h.removeEmpty(d); err != nil {
			return false, err
		}
	}
	if s.state == Stale {
		unsynced, err := h.free(d, s.rec)
		if errors.Is(err, errChanged) {
			return false, h.sweep(d) // another has recovered it
		}
		if err = errors.Join(err, unsynced); err != nil {
			return false, err
		}
		freed = true
	}
	return freed, h.sweep(d)
}

// Break frees the lock of d though nothing proves its holder dead. name is the
// record that the operator saw: if it does not stand there any more,
// ErrOutdated. A holder that provably lives on this host is refused with a
// *HeldError unless force. Where the lock holds more than one record, or one
// that this lockfs can't read, nobody can be judged: ErrOdd unless force, which
// removes the one that is named.
//
// A name that is no record is junk that keeps the lock from being taken, and
// is removed: a file, a symbolic link or an empty directory. The name of a
// candidate discards it.
//
// A holder that lives after all finds out at its next check; until then it may
// write beside the next holder.
func Break(d Dir, path, name string, self *procid.Local, force bool) error {
	return newHolder(self.ID(), self.Judge).breakLock(d, path, name, force)
}

func (h *holder) breakLock(d Dir, path, name string, force bool) error {
	if r, beside, ok := parseCandidate(name); ok {
		return h.breakCandidate(d, path, name, r, beside, force)
	}
	s, err := h.look(d)
	if err != nil {
		return err
	}
	switch {
	case s.state == Odd && s.entries == nil:
		return fmt.Errorf("%w: %s", ErrOdd, s.why)
	case !slices.Contains(s.entries, name):
		return ErrOutdated
	case !looksLikeRecord(name):
		return h.clear(d, lockName+"/"+name)
	case s.state == Odd && !force:
		return fmt.Errorf("%w: %s", ErrOdd, s.why)
	case s.state == Odd:
		return h.clear(d, lockName+"/"+name)
	case s.rec.name() != name:
		return ErrOutdated
	case s.judgement.Verdict == procid.Alive && !force:
		return &HeldError{Path: path, By: s.by(), Remote: true}
	}
	unsynced, err := h.free(d, s.rec)
	if errors.Is(err, errChanged) {
		return ErrOutdated
	}
	return errors.Join(err, unsynced)
}

// clear removes a name in the lock directory that stands for nobody who could
// be judged, and the lock directory if that was all it held. It is a
// compare-and-swap too: a name that is gone gives ErrOutdated.
func (h *holder) clear(d Dir, name string) error {
	err := d.Unlink(name)
	if errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.EPERM) {
		err = d.Rmdir(name)
	}
	if absent(err) {
		return ErrOutdated
	}
	if err != nil {
		return err
	}
	if err := h.removeEmpty(d); err != nil && !held(err) {
		return err
	}
	return nil
}

// breakCandidate discards a candidate. Its owner, if he lives, builds another.
func (h *holder) breakCandidate(d Dir, path, name string, r record, beside, force bool) error {
	names, err := d.List("")
	if err != nil {
		return err
	}
	if !slices.Contains(names, name) {
		return ErrOutdated
	}
	if h.judge(r.holder).Verdict == procid.Alive && !force {
		return &HeldError{Path: path, By: "a waiter, " + r.String(), Remote: true}
	}
	if beside {
		err = d.Unlink(name)
	} else {
		err = h.discard(d, name)
	}
	if absent(err) {
		return ErrOutdated
	}
	return err
}
