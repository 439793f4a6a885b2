package lock

import (
	"errors"
)

// errChanged: the stale record is gone; the lock has changed hands.
var errChanged = errors.New("the lock has changed hands")

// recover takes the lock over from the holder of a stale record: a
// compare-and-swap, of which one wins. It returns the record that stands then,
// or errChanged. After any other error the record that it returns may stand:
// finish it with remove.
//
// Before the lock is used or released, sync must have been tried.
func (h *holder) recover(d Dir, stale record) (record, error) {
	mine := h.newRecord()
	err := d.Rename(stale.inLock(), mine.inLock())
	if err == nil {
		return mine, nil
	}
	stands, serr := h.standing(d, mine)
	switch {
	case serr != nil:
		return mine, errors.Join(err, serr)
	case stands:
		return mine, nil
	case absent(err):
		drop(mine)
		return record{}, errChanged
	default:
		return mine, err // it may come late
	}
}

// free recovers the lock of a stale record and lets it go. unsynced is why
// what the dead holder left in this host's cache may not be on the server.
// After an error the lock may stand in the name of this process, and can be
// recovered when it has ended.
func (h *holder) free(d Dir, stale record) (unsynced, err error) {
	mine, err := h.recover(d, stale)
	defer drop(mine)
	if err != nil {
		return nil, err
	}
	unsynced = d.Sync()
	return unsynced, h.release(d, mine)
}
