package fs

import (
	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/lock"
)

// The release of a lock changes its directory, milliseconds after the job's last
// use of it. tar compares a directory's change time (ctime) before and after it
// reads it, says of one that has changed in between that it did, and ends with an
// error. No program may set that time, but it can be shown: who was shown it since
// the job's last change of the directory is shown the same after the release, for
// as long as the directory stays as the release has left it.

// ctimes are the change times that directories are shown with.
type ctimes struct {
	// changes counts changes of directories, each before and after it is made.
	changes changes
	// of is guarded by tree.mu.
	of map[lock.Key]*ctime
}

type ctime struct {
	shown unix.StatxTimestamp
	// since is what the release has made of it, once there was one.
	since unix.StatxTimestamp
}

// seen is a look at a directory's attributes; it begins before they are read.
type seen struct {
	tree    *tree
	key     lock.Key
	changes uint64
}

func (t *tree) see(k lock.Key) seen { return seen{t, k, t.ctimes.changes.at(k.Ino).Load()} }

// show puts the change time that the directory is to be shown with into its
// attributes.
func (s seen) show(st *unix.Statx_t) {
	held, ending := s.tree.locks.Holds(s.key)
	t := s.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.ctimes.of[s.key]
	switch {
	case c == nil && !held:
	case held && !ending, c == nil:
		if s.changes != t.ctimes.changes.at(s.key.Ino).Load() {
			return // it was changed since it was read, or is
		}
		if t.ctimes.of == nil {
			t.ctimes.of = map[lock.Key]*ctime{}
		}
		t.ctimes.of[s.key] = &ctime{shown: st.Ctime}
	case ending, c.since == st.Ctime:
		st.Ctime = c.shown
	default:
		delete(t.ctimes.of, s.key)
	}
}

// altered is called before and after a change of directories: what they were
// shown with is no longer to be.
func (t *tree) altered(dirs ...*dirNode) {
	for _, n := range dirs {
		t.ctimes.changes.at(n.key.Ino).Add(1)
		t.forgetCtime(n)
	}
}

func (t *tree) forgetCtime(n *dirNode) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.ctimes.of, n.key)
}

// releasedAs notes what the release of the directory's lock has made of its change
// time. The directory can't be locked by this host yet.
func (t *tree) releasedAs(n *dirNode, lost bool) {
	t.mu.Lock()
	c := t.ctimes.of[n.key]
	t.mu.Unlock()
	if c == nil {
		return // nobody was shown it
	}
	var st unix.Statx_t
	err := n.use(func(fd int) error { return stat(fd, true, &st) })
	if lost || err != nil { // it may be another's, or gone
		t.forgetCtime(n)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c.since = st.Ctime
}
