package fs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/fs/gate"
	"github.com/lockfs/lockfs/internal/cred"
	"github.com/lockfs/lockfs/lock"
)

// A directory's lock is made and removed in the directory, which sets its
// modification time. So a time that a program has given a directory (cp -a, tar
// and rsync do, when they are done with it) is given to it again once the lock
// is gone; and so is the time that it had, if its lock was taken for a change of
// its own attributes, which leaves that time alone. A lock for anything else
// shows in the time.

// wish is a modification time that a directory, whose lock is held, is to have
// when the lock is gone.
type wish struct {
	mtime unix.Timespec
	who   caller
	path  string
	desc  *descriptor // in use
}

// wishTime notes the time that the directory, whose lock is held, is to have.
func (t *tree) wishTime(n *dirNode, c caller, mtime unix.Timespec) {
	d, err := n.acquire()
	if err != nil {
		t.log.WithError(err).WithField("dir", n.path()).Warn("a directory will lose its time")
		return
	}
	t.setWish(n.key, &wish{mtime, c, n.path(), d})
}

// setsTime is called when a program has set attributes of the directory, whose
// lock is held. Now is what the lock sets anyway.
func (t *tree) setsTime(n *dirNode, c caller, in *fuse.SetAttrIn) {
	switch {
	case in.Valid&fuse.FATTR_MTIME == 0:
	case in.Valid&fuse.FATTR_MTIME_NOW != 0:
		t.setWish(n.key, nil)
	default:
		t.wishTime(n, c, unix.Timespec{Sec: int64(in.Mtime), Nsec: int64(in.Mtimensec)})
	}
}

// setWish puts w, or none, in the place of the directory's wish.
func (t *tree) setWish(k lock.Key, w *wish) {
	t.mu.Lock()
	was := t.wishes[k]
	if w == nil {
		delete(t.wishes, k)
	} else {
		t.wishes[k] = w
	}
	t.mu.Unlock()
	if was != nil {
		was.desc.release()
	}
}

// showWish puts the time that the directory is to have in the place of that
// which its lock has given it.
func (t *tree) showWish(k lock.Key, st *unix.Statx_t) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.wishes[k]; w != nil {
		st.Mtime = unix.StatxTimestamp{Sec: w.mtime.Sec, Nsec: uint32(w.mtime.Nsec)}
	}
}

// changing is called before a name of the directory is changed: whatever time
// it was to have, it gets a new one.
func (t *tree) changing(dirs ...*dirNode) {
	t.altered(dirs...)
	for _, n := range dirs {
		t.setWish(n.key, nil)
	}
}

// released gives a directory whose lock is gone the time that it is to have.
// Nobody of this host changes it meanwhile: the lock is not to be had yet. If the
// lock was lost the directory is another's, and is left alone.
func (t *tree) released(k lock.Key, lost bool) {
	if lost {
		t.setWish(k, nil)
		return
	}
	t.mu.Lock()
	w := t.wishes[k]
	t.mu.Unlock()
	if w == nil {
		return
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, w.mtime}
	set := func() error { return unix.UtimesNanoAt(w.desc.fd, "", times, unix.AT_EMPTY_PATH) }
	no := w.who.do(set)
	if no == unix.EPERM { // the directory was given away since
		no = ownerOf(w.desc.fd).do(set)
	}
	if no != 0 && no != unix.ENOENT { // it may be removed by now
		t.log.WithError(no).WithField("dir", w.path).Warn("a directory has lost its time")
	}
	t.granted.Add(1) // before the wish goes: see settled
	t.setWish(k, nil)
}

// ownerOf is the owner of an open file, who may set its times; this process if
// that can't be found out.
func ownerOf(fd int) caller {
	var st unix.Statx_t
	if err := stat(fd, false, &st); err != nil {
		return caller{gate.Caller{Cred: cred.Own()}}
	}
	return caller{gate.Caller{Cred: cred.Cred{UID: st.Uid, GID: st.Gid}}}
}

// settled runs look, which reads a directory's attributes and shows its wish,
// until no wish was granted meanwhile: what was read before that is not to be
// shown without it.
func (t *tree) settled(look func() syscall.Errno) syscall.Errno {
	for {
		granted := t.granted.Load()
		if no := look(); no != 0 || t.granted.Load() == granted {
			return no
		}
	}
}
