package lock

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/lockfs/lockfs/procid"
)

// holder is a process as the protocol knows it: it takes, looks at, recovers
// and releases locks. It keeps no state.
type holder struct {
	self  procid.ID
	judge Judge
	// nonce returns a number that nobody else ever had.
	nonce func() uint64
	now   func() time.Time
}

func newHolder(self procid.ID, judge Judge) *holder {
	return &holder{self: self, judge: judge, nonce: randomNonce, now: time.Now}
}

func randomNonce() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand
	return binary.BigEndian.Uint64(b[:])
}

// newRecord returns a record that nobody else ever had, and keeps it until drop.
func (h *holder) newRecord() record {
	r := record{holder: h.self, nonce: h.nonce()}
	kept.Store(r, true)
	return r
}

// kept are the records that somebody in this process still answers for,
// whichever manager he belongs to.
var kept sync.Map

// drop says that nobody in this process answers for the record any more.
func drop(r record) { kept.Delete(r) }

// leftOver reports whether the record is of this process and nobody in it
// answers for it: an earlier call of unknown outcome was carried out late.
func (h *holder) leftOver(r record) bool {
	_, answered := kept.Load(r)
	return h.mine(r) && !answered
}

// mine reports whether the record is of this very process.
func (h *holder) mine(r record) bool {
	id := r.holder
	id.Host = h.self.Host // for people; it decides nothing
	return id == h.self
}

// errHeld: the lock directory holds a record.
var errHeld = errors.New("held")

// held reports whether a rename failed because the lock is held. XFS and
// others answer EEXIST where ext4 answers ENOTEMPTY (rename(2) allows both).
func held(err error) bool {
	return errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST)
}

func absent(err error) bool { return errors.Is(err, syscall.ENOENT) }

func refused(err error) bool {
	return errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM)
}

// noLock reports whether a listing of the lock failed because what bears its
// name is a file, a symbolic link or a mount point.
func noLock(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.EXDEV)
}

// lockMode is the mode of D/.lockfs: everybody may see who holds, and those
// who may write in D may also clear a lock of it.
func lockMode(d Dir) (fs.FileMode, error) {
	m, err := d.Mode()
	if err != nil {
		return 0, err
	}
	return 0o755 | m&(0o022|fs.ModeSticky), nil
}

// standing reports whether the record stands in the lock directory. Every
// answer of a call that may be a replay, or is no answer, is settled by it.
func (h *holder) standing(d Dir, r record) (bool, error) {
	stands, err := h.listed(d, r)
	if stands || err != nil {
		return stands, err
	}
	// What this host has cached of D answers for what is below it: an
	// absence is believed only after a fresh listing of D.
	if _, err := d.List(""); absent(err) {
		return false, nil // D itself was removed, and its lock with it
	} else if err != nil {
		return false, err
	}
	return h.listed(d, r)
}

// listed reports whether the record is in a listing of the lock directory.
func (h *holder) listed(d Dir, r record) (bool, error) {
	names, err := d.List(lockName)
	if absent(err) || noLock(err) {
		return false, nil
	}
	return slices.Contains(names, r.name()), err
}
