package lock

import (
	"errors"
	"syscall"
)

// release lets the lock go whose record is r. ErrLost: the record was gone
// already; nothing of another's lock was touched. After any other error the
// lock may or may not stand: finish it with remove.
func (h *holder) release(d Dir, r record) error {
	err := d.Unlink(r.inLock())
	if absent(err) && d.Replayed() {
		// It may be the replay of one's own unlink.
		return h.remove(d, r)
	}
	if absent(err) {
		stands, serr := h.standing(d, r)
		if serr != nil {
			return errors.Join(err, serr)
		}
		if stands {
			return h.remove(d, r)
		}
		if err := h.removeEmpty(d); err != nil {
			return errors.Join(ErrLost, err)
		}
		return ErrLost
	}
	if err != nil {
		return h.remove(d, r)
	}
	return h.removeEmpty(d)
}

// remove makes sure that the record r of this process does not stand, whatever
// became of earlier calls for it.
func (h *holder) remove(d Dir, r record) error {
	err := d.Unlink(r.inLock())
	if err == nil {
		return h.removeEmpty(d)
	}
	stands, serr := h.standing(d, r)
	if serr != nil {
		return errors.Join(err, serr)
	}
	if stands {
		return err
	}
	// The directory is another's, it may be, who alone may remove it.
	if err := h.removeEmpty(d); !refused(err) {
		return err
	}
	return nil
}

// removeEmpty removes the lock directory if it is empty. That somebody has
// taken the lock since is fine, and so is that it is gone, or that a file or a
// mount point bears its name.
func (h *holder) removeEmpty(d Dir) error {
	for range 2 {
		err := d.Rmdir(lockName)
		if err == nil || absent(err) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EBUSY) {
			return nil
		}
		if !held(err) {
			return err
		}
		names, lerr := d.List(lockName)
		if absent(lerr) {
			return nil
		}
		if lerr != nil {
			return lerr
		}
		if len(names) == 0 {
			// What kept it is gone: what NFS had kept, then it goes now; or a
			// record, then who has let that go removes the directory.
			continue
		}
		// A record: another's lock. Only what NFS keeps of a file that
		// somebody of this host is looking at: not done yet.
		for _, name := range names {
			if !isSilly(name) {
				return nil
			}
		}
		return err
	}
	return nil
}

// isSilly reports whether the name is one that a NFS client gives a removed
// file that is still open on its host (Linux: fs/nfs/unlink.c).
func isSilly(name string) bool { return len(name) >= 4 && name[:4] == ".nfs" }
