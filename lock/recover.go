package lock

import (
	"errors"
)

// errChanged: the stale record is gone; the lock has changed hands.
var errChanged = errors.New("the lock has changed hands")

// recover takes the lock over from the holder of a stale record: a
// compare-and-swap, of which one wins. It returns the record that stands then,
// errChanged, or the error that kept it from finding out.
//
// Before the lock is used or released, sync must have been tried.
func (h *holder) recover(d Dir, stale record) (record, error) {
	mine := h.newRecord()
	err := d.Rename(stale.inLock(), mine.inLock())
	if err == nil {
		return mine, nil
	}
	stands, serr := h.standing(d, mine)
	if serr != nil || !stands {
		drop(mine)
	}
	switch {
	case serr != nil:
		return record{}, errors.Join(err, serr)
	case stands:
		return mine, nil
	case absent(err):
		return record{}, errChanged
	default:
		return record{}, err
	}
}

// free recovers the lock of a stale record and lets it go. unsynced is why
// what the dead holder left in this host's cache may not be on the server.
func (h *holder) free(d Dir, stale record) (unsynced, err error) {
	mine, err := h.recover(d, stale)
	if err != nil {
		return nil, err
	}
	defer drop(mine)
	unsynced = d.Sync()
	return unsynced, h.release(d, mine)
}
