package lock

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// attempt is one process's wish for one lock. It builds a candidate, and keeps
// it while the lock is held by another, so that a retry costs one rename.
type attempt struct {
	h     *holder
	d     Dir
	cause Cause
	// rec is the candidate's record; the zero record if there is none.
	rec record
	// stood: the candidate was there before the present try. Somebody may
	// have emptied it meanwhile.
	stood bool
	// unsure: a rename of the candidate had an outcome that is not known.
	unsure bool
	// barred is how many tries in a row an empty lock directory has kept out
	// that only its owner may remove.
	barred uint8
}

// barredMost bounds barred: a release removes the directory right after the
// record, so that one that stays was left by a crash.
const barredMost = 8

// rebuilds bounds how often one try builds a new candidate because the old
// one was taken away from it.
const rebuilds = 8

func (h *holder) newAttempt(d Dir, cause Cause) *attempt {
	return &attempt{h: h, d: d, cause: cause}
}

func (a *attempt) built() bool { return a.rec != record{} }

// try tries to take the lock once. It returns the record that then stands in
// the lock directory, errHeld, or the error that kept it from finding out. The
// candidate stays for the next try, or giveUp.
func (a *attempt) try() (record, error) {
	var err error
	for range rebuilds {
		var again bool
		if !a.built() {
			if again, err = a.build(); again {
				continue
			} else if err != nil {
				return record{}, err
			}
		}
		if again, err = a.publish(); err == nil && !again {
			return a.taken(), nil
		}
		if !again {
			a.stood = true
			return record{}, err
		}
	}
	if err == nil {
		err = syscall.EAGAIN
	}
	return record{}, err
}

// taken hands over the record of a lock that was taken.
func (a *attempt) taken() record {
	r := a.rec
	*a = attempt{h: a.h, d: a.d, cause: a.cause}
	return r
}

// forget is for a candidate that is gone.
func (a *attempt) forget() {
	drop(a.rec)
	*a = attempt{h: a.h, d: a.d, cause: a.cause}
}

// publish renames the candidate onto the lock. again asks for one more try.
func (a *attempt) publish() (again bool, err error) {
	err = a.d.Rename(a.rec.candidate(), lockName)
	switch {
	case err == nil:
		if !a.stood {
			return false, nil
		}
		return a.verify()
	case held(err):
		return false, errHeld
	case refused(err):
		return a.makeRoom(err)
	case errors.Is(err, syscall.EBUSY):
		// Not held: rename(2) says so of a mount point.
		return a.settle(fmt.Errorf("%w: %s is a mount point", ErrOdd, lockName))
	default:
		return a.settle(err)
	}
}

// verify looks whether a candidate that stood beside others' work was still
// whole when it was published. A cleaner that empties it in place would
// otherwise make its owner believe in a lock that anybody can take.
func (a *attempt) verify() (again bool, err error) {
	stands, err := a.h.standing(a.d, a.rec)
	if err != nil {
		a.unsure = true
		return false, err
	}
	if stands {
		return false, nil
	}
	a.forget()
	return true, a.h.removeEmpty(a.d)
}

// makeRoom is for a sticky parent, where a rename onto another user's directory
// is refused before anybody asks whether that is empty (may_delete in
// fs/namei.c): it is removed as its owner, which fails if the lock is held.
func (a *attempt) makeRoom(cause error) (again bool, err error) {
	switch err := a.d.Rmdir(lockName); {
	case err == nil:
		return true, nil
	case held(err), absent(err): // or was held, when the rename was refused
		return false, errHeld
	case refused(err):
		return a.waitForOwner(cause)
	default:
		return a.settle(cause)
	}
}

// waitForOwner is for who can't act as the owner of the lock directory, as an
// ordinary user's process: he waits while the lock is held, and a little longer
// for the owner to remove the directory.
func (a *attempt) waitForOwner(cause error) (again bool, err error) {
	names, err := a.d.List(lockName)
	switch {
	case absent(err), len(names) > 0:
		a.barred = 0
		return false, errHeld
	case err != nil:
		return a.settle(errors.Join(cause, err))
	case a.barred+1 < barredMost:
		a.barred++
		return false, errHeld
	default:
		return a.settle(cause)
	}
}

// settle finds out what became of a rename that failed with cause.
func (a *attempt) settle(cause error) (again bool, err error) {
	stands, err := a.h.standing(a.d, a.rec)
	if err != nil {
		a.unsure = true
		return false, errors.Join(cause, err)
	}
	if stands {
		return false, nil
	}
	if !absent(cause) {
		a.unsure = true
		return false, cause
	}
	// Somebody has discarded the candidate, or a cache says so. Its name is
	// never used again: a late duplicate of any request for it then finds
	// nothing.
	if err := a.giveUp(); err != nil {
		return false, err
	}
	return true, nil
}

// own reports whether the record that was seen in the lock is the one of this
// attempt: its rename succeeded though its answer said otherwise.
func (a *attempt) own(r record) bool { return a.built() && r == a.rec }

// build makes a candidate whole: the lock is never seen without its owner.
// again says that somebody has discarded it meanwhile, and nothing of it is left.
func (a *attempt) build() (again bool, err error) {
	mode, err := lockMode(a.d)
	if err != nil {
		return false, err
	}
	a.rec, a.stood, a.unsure = a.h.newRecord(), false, false
	// EEXIST of a name with a fresh nonce is the replay of one's own call.
	if err := a.d.Mkdir(a.rec.candidate(), mode); err != nil && !errors.Is(err, syscall.EEXIST) {
		if errors.Is(err, syscall.EROFS) && !a.listed() {
			// Where nothing can be made, a removal is refused as well, even
			// one of nothing: it would be tried for ever.
			a.forget()
			return false, err
		}
		return false, a.abandon(err)
	}
	if err := a.sign(); err != nil {
		failed := a.abandon(err)
		return absent(err) && !a.built(), failed
	}
	return false, nil
}

// stand makes the candidate, if there is none, before it is tried to publish
// it: others see by it that somebody waits.
func (a *attempt) stand() error {
	if !a.built() {
		if again, err := a.build(); err != nil && !again {
			return err
		}
	}
	a.stood = a.built()
	return nil
}

// listed reports whether the candidate may be there.
func (a *attempt) listed() bool {
	names, err := a.d.List("")
	return err != nil || slices.Contains(names, a.rec.candidate())
}

// sign puts the record into the candidate.
func (a *attempt) sign() error {
	target := note{Cause: a.cause, Since: a.h.now()}.String()
	name := a.rec.candidate() + "/" + a.rec.name()
	if !a.d.Replayed() {
		if err := a.d.Symlink(target, name); err != nil && !errors.Is(err, syscall.EEXIST) {
			return err
		}
		return nil
	}
	// A late duplicate of the creation would put a released record into the
	// lock, since the candidate's handle becomes the lock's. Made beside and
	// renamed, its source is gone for a duplicate.
	beside := besidePrefix + a.rec.name()
	if err := a.d.Symlink(target, beside); err != nil && !errors.Is(err, syscall.EEXIST) {
		return err
	}
	err := a.d.Rename(beside, name)
	if !absent(err) {
		return err
	}
	names, lerr := a.d.List(a.rec.candidate())
	if lerr != nil {
		return errors.Join(err, lerr)
	}
	for _, n := range names {
		if n == a.rec.name() {
			return nil
		}
	}
	return err
}

// abandon removes what a failed build left and returns why it failed.
func (a *attempt) abandon(cause error) error {
	if err := a.giveUp(); err != nil {
		return errors.Join(cause, err)
	}
	return cause
}

// giveUp ends the attempt and leaves nothing of it. It may be called again
// after an error, and does nothing when nothing is built.
func (a *attempt) giveUp() error {
	if !a.built() {
		return nil
	}
	if a.unsure {
		stands, err := a.h.standing(a.d, a.rec)
		if err != nil {
			return err
		}
		if stands {
			if err := a.h.release(a.d, a.rec); err != nil && !errors.Is(err, ErrLost) {
				return err
			}
			a.forget()
			return nil
		}
	}
	if err := a.clean(); err != nil {
		return err
	}
	a.forget()
	return nil
}

// clean removes one's own candidate. What is gone already may have been
// published after all (an answer that came late): then it is the lock that
// must not be left behind.
func (a *attempt) clean() error {
	gone := false
	steps := []func() error{
		func() error { return a.d.Unlink(a.rec.candidate() + "/" + a.rec.name()) },
		func() error { return a.d.Rmdir(a.rec.candidate()) },
	}
	if a.d.Replayed() {
		steps = append(steps, func() error {
			if err := a.d.Unlink(besidePrefix + a.rec.name()); !absent(err) {
				return err
			}
			return nil
		})
	}
	for _, step := range steps {
		if err := step(); absent(err) {
			gone = true
		} else if err != nil {
			return err
		}
	}
	if !gone {
		return nil
	}
	stands, err := a.h.standing(a.d, a.rec)
	if err != nil {
		return err
	}
	if stands {
		if err := a.h.release(a.d, a.rec); err != nil && !errors.Is(err, ErrLost) {
			return err
		}
		return nil
	}
	return a.h.removeEmpty(a.d)
}
