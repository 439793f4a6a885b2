package fs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/lock"
)

// A directory's lock is made and removed in the directory, which sets its
// modification time. So times that a program has given a directory (cp -a, tar
// and rsync do, when they are done with it) are given to it again once the lock
// is gone.

// wish is times that a directory is to have when its lock is gone.
type wish struct {
	times fuse.SetAttrIn
	who   caller
	path  string
	desc  *descriptor // in use
}

// explicitTimes returns what of in sets times to given values, if anything
// does.
func explicitTimes(in *fuse.SetAttrIn) (times fuse.SetAttrIn, ok bool) {
	times = *in
	times.Valid = 0
	if in.Valid&fuse.FATTR_ATIME != 0 && in.Valid&fuse.FATTR_ATIME_NOW == 0 {
		times.Valid |= fuse.FATTR_ATIME
	}
	if in.Valid&fuse.FATTR_MTIME != 0 && in.Valid&fuse.FATTR_MTIME_NOW == 0 {
		times.Valid |= fuse.FATTR_MTIME
	}
	return times, times.Valid != 0
}

// wishTimes notes times that the directory, whose lock is held, is to have when
// the lock is gone.
func (t *tree) wishTimes(n *dirNode, c caller, times fuse.SetAttrIn) {
	d, err := n.acquire()
	if err != nil {
		t.log.WithError(err).WithField("dir", n.path()).Warn("a directory will lose the times that it was given")
		return
	}
	t.setWish(n.key, &wish{times, c, n.path(), d})
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

// showWish puts times that the directory is to have in the place of those that
// its lock has given it.
func (t *tree) showWish(k lock.Key, st *unix.Statx_t) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.wishes[k]
	if w == nil {
		return
	}
	if w.times.Valid&fuse.FATTR_MTIME != 0 {
		st.Mtime = unix.StatxTimestamp{Sec: int64(w.times.Mtime), Nsec: w.times.Mtimensec}
	}
	if w.times.Valid&fuse.FATTR_ATIME != 0 {
		st.Atime = unix.StatxTimestamp{Sec: int64(w.times.Atime), Nsec: w.times.Atimensec}
	}
}

// changing is called before a name of the directory is changed: whatever times
// it was given, it gets a new one.
func (t *tree) changing(dirs ...*dirNode) {
	for _, n := range dirs {
		t.setWish(n.key, nil)
	}
}

// released gives a directory whose lock is gone the times that it is to have.
// Nobody of this host changes it meanwhile: the lock is not to be had yet.
func (t *tree) released(k lock.Key) {
	t.mu.Lock()
	w := t.wishes[k]
	t.mu.Unlock()
	if w == nil {
		return
	}
	no := w.who.do(func() error { return setAttributes(w.desc.fd, &w.times) })
	if no != 0 && no != unix.ENOENT { // it may be removed by now
		t.log.WithError(no).WithField("dir", w.path).Warn("a directory has lost the times that it was given")
	}
	t.granted.Add(1) // before the wish goes: see settled
	t.setWish(k, nil)
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
