package fs

import (
	"sync"
	"syscall"
	"time"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

const (
	// moment is how long the kernel takes attributes for valid. It makes a tick
	// of its clock of it, 1 to 10 ms (time_to_jiffies in fs/fuse/dir.c): what a
	// program does at one go does not ask for them again and again.
	moment = time.Nanosecond
	// shownFor is how long it may take until an answer has reached the kernel
	// and that moment is over.
	shownFor = time.Second
	// shownMost is how many files of a directory may be valid at once. Each
	// costs a take a call of some microseconds.
	shownMost = 2048
)

// inode is one that the kernel can be told of.
type inode interface {
	NotifyContent(off, size int64) syscall.Errno
}

// numbered is an inode by the number that the kernel knows it by.
type numbered struct {
	server *fuse.Server
	id     uint64
}

func (n numbered) NotifyContent(off, size int64) syscall.Errno {
	return syscall.Errno(n.server.InodeNotify(n.id, off, size))
}

// expire has the kernel ask for the inode's attributes. An answer that is on
// its way is worth nothing then either: it is of an older version
// (fuse_reverse_inval_inode in fs/fuse/inode.c). Of pages it forgets none: those
// of a file that has changed go when it asks.
func expire(n inode) syscall.Errno {
	if no := n.NotifyContent(-1, 0); no != syscall.ENOENT { // it may have forgotten it
		return no
	}
	return 0
}

// shown knows the inodes under a directory's lock, its files and itself, whose
// attributes the kernel may still take for valid. Who has just got the lock
// must not.
type shown struct {
	mu    sync.Mutex
	nodes map[fusefs.StableAttr]showing
	// order is that in which they were first shown.
	order []fusefs.StableAttr
}

type showing struct {
	node inode
	at   time.Time
}

// add notes that the node's attributes are about to be shown, and reports
// whether they may be taken for valid.
func (s *shown) add(id fusefs.StableAttr, node inode) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if _, ok := s.nodes[id]; !ok {
		if s.prune(now); len(s.nodes) >= shownMost {
			return false
		}
		if s.nodes == nil {
			s.nodes = map[fusefs.StableAttr]showing{}
		}
		s.order = append(s.order, id)
	}
	s.nodes[id] = showing{node, now}
	return true
}

// prune forgets the oldest of those that can't be valid any more. One that was
// shown again since is the youngest now.
func (s *shown) prune(now time.Time) {
	for range 2 { // so that they become fewer
		if len(s.order) == 0 {
			return
		}
		oldest := s.order[0]
		switch age := now.Sub(s.nodes[oldest].at); {
		case age > shownFor:
			delete(s.nodes, oldest)
			s.order = s.order[1:]
		case len(s.nodes) >= shownMost:
			s.order = append(s.order[1:], oldest)
		default:
			return
		}
	}
}

// end has the kernel ask again for whatever it may take for valid.
func (s *shown) end() (failed syscall.Errno) {
	s.mu.Lock()
	nodes := s.nodes
	s.nodes, s.order = nil, nil
	s.mu.Unlock()
	for _, n := range nodes {
		if time.Since(n.at) > shownFor {
			continue
		}
		if no := expire(n.node); no != 0 {
			failed = no
		}
	}
	return failed
}

// sighting is a look at attributes that are to be shown.
type sighting struct {
	tree  *tree
	began time.Time
	takes uint64
}

// looking is called before attributes are read that are to be shown.
func (t *tree) looking() sighting { return sighting{t, time.Now(), t.takes.Load()} }

// lasts reports whether what was seen of the node may be taken for valid for a
// moment. dir is the directory whose lock it is under. Of what was seen before
// a take nobody knows.
func (l sighting) lasts(dir *dirNode, id fusefs.StableAttr, node inode) bool {
	return dir != nil && dir.shown.add(id, node) && l.takes == l.tree.takes.Load() && time.Since(l.began) < shownFor/2
}

// dirLasts is lasts of a directory's own attributes. They have no validity
// while an operation that was sent around has to ask for them (package gate).
func (l sighting) dirLasts(n *dirNode, node inode) bool {
	return l.lasts(n, n.id, node) && !l.tree.gate.Pending(n.key)
}

// tellShown says that the kernel could not be told that something under the
// lock of n may have changed.
func (t *tree) tellShown(no syscall.Errno, n *dirNode) {
	t.log.WithError(no).WithField("dir", n.path()).Warn("the kernel takes a file's attributes for valid for some milliseconds more")
}

// sent is for an answer of the gate's to an operation in the directories: one
// that was sent around must find their attributes asked for.
func (t *tree) sent(no syscall.Errno, dirs ...*dirNode) syscall.Errno {
	if no != syscall.ESTALE {
		return no
	}
	for _, n := range dirs {
		if no := expire(n); no != 0 {
			t.log.WithError(no).WithField("dir", n.path()).Warn("the kernel could not be told to ask for a directory's attributes; an operation in it may wait where readers wait with it")
		}
	}
	return no
}
