package fs

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/fs/gate"
	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// tree is what the nodes of one mount share.
type tree struct {
	source string // for people
	target string // where it is mounted
	began  time.Time
	root   *dirNode
	self   *procid.Local
	locks  *lock.Manager
	gate   *gate.Gate
	log    *logrus.Logger
	held   HeldLog
	events func(lock.Event)
	idle   *idleDirs
	// changes counts those of files' data, each when it was made.
	changes changes
	ctimes  ctimes
	through through
	// takes counts those of all directories' locks.
	takes atomic.Uint64
	// server is the mount's; set before it serves.
	server *fuse.Server
	// dev is the device number of the mount itself, set before it serves.
	dev uint64

	// mu is never held over a request to the file server.
	mu sync.Mutex
	// dirs are the directories that the kernel knows or is about to.
	dirs map[fusefs.StableAttr]*dirNode
	// ids are those that it knows, by the number that it knows them by, and idsMost
	// is how many they have been since the maps were made.
	ids     map[uint64]*dirNode
	idsMost int
	// open are the open files and directories.
	open map[closer]struct{}
	// wishes are times that directories are to have when their locks are gone.
	wishes map[lock.Key]*wish
	// granted counts those that were fulfilled.
	granted atomic.Uint64
	// empty is closed when nothing is open; nil while nobody wants to know.
	empty chan struct{}
}

// closer is what is open until it is closed, and ends with the mount. A second
// close does nothing.
type closer interface{ close() }

// reserved reports whether a name is lockfs's own.
func reserved(name string) bool { return strings.HasPrefix(name, lock.Reserved) }

// directory returns the node of the directory f, whose descriptor it owns from
// then on, for a reply that tells the kernel of it.
//
// go-fuse drops a node without a word if two requests make it at once, and
// revives one that the kernel has just forgotten. So each directory has one
// node here, which lives as long as the kernel knows it or is about to.
func (t *tree) directory(f found) *dirNode {
	t.mu.Lock()
	n := t.dirs[f.id]
	if n == nil {
		n = newDirNode(t, f)
		t.dirs[f.id] = n
	} else {
		unix.Close(f.fd) // O_PATH: it has nothing to fail with
	}
	n.known++
	t.mu.Unlock()
	t.idle.used(n)
	return n
}

// known notes the number by which the kernel knows what it was told of, if it
// is a directory.
func (t *tree) known(nodeID uint64, id fusefs.StableAttr) {
	if id.Mode != unix.S_IFDIR {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.dirs[id]; n != nil {
		t.ids[nodeID] = n
		t.idsMost = max(t.idsMost, len(t.ids))
	}
}

// numbered returns the directory that the kernel knows by that number; nil if it
// is none.
func (t *tree) numbered(nodeID uint64) *dirNode {
	if nodeID == fuse.FUSE_ROOT_ID {
		return t.root
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ids[nodeID]
}

// forget takes back what the kernel knew of a node.
func (t *tree) forget(nodeID, times uint64) {
	t.mu.Lock()
	n := t.ids[nodeID]
	gone := false
	if n != nil {
		n.known -= times
		if gone = n.known == 0; gone {
			delete(t.ids, nodeID)
			delete(t.dirs, n.id)
			t.shrink()
		}
	}
	t.mu.Unlock()
	if gone {
		n.end()
	}
}

// shrink makes the maps of directories anew if few are left in them: a map keeps
// the memory of all that it had. t.mu is held.
func (t *tree) shrink() {
	const few = 100
	if t.idsMost <= few*max(len(t.ids), few) {
		return
	}
	dirs, ids := make(map[fusefs.StableAttr]*dirNode, len(t.dirs)), make(map[uint64]*dirNode, len(t.ids))
	maps.Copy(dirs, t.dirs)
	maps.Copy(ids, t.ids)
	t.dirs, t.ids, t.idsMost = dirs, ids, len(ids)
}

// opened makes c one of those that end with the mount.
func (t *tree) opened(c closer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open[c] = struct{}{}
}

// closed is told of each that was closed.
func (t *tree) closed(c closer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, c)
	if len(t.open) == 0 && t.empty != nil {
		close(t.empty)
		t.empty = nil
	}
}

// written returns the paths, below the mountpoint, of the files that are open
// for writing. One that has been removed has none.
func (t *tree) written(mountpoint string) []string {
	t.mu.Lock()
	var nodes []*fileNode
	for c := range t.open {
		if h, ok := c.(*fileHandle); ok && h.writes && h.node != nil {
			nodes = append(nodes, h.node)
		}
	}
	t.mu.Unlock()
	var paths []string
	for _, n := range nodes {
		if dir, _ := n.place(); dir != nil {
			paths = append(paths, filepath.Join(mountpoint, n.Path(nil)))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// closeAll closes everything that is open. The channel that it returns is
// closed when the users of all of it have ended.
func (t *tree) closeAll() <-chan struct{} {
	empty := make(chan struct{})
	t.mu.Lock()
	all := make([]closer, 0, len(t.open))
	for c := range t.open {
		all = append(all, c)
	}
	if len(all) == 0 {
		close(empty)
	} else {
		t.empty = empty
	}
	t.mu.Unlock()
	for _, c := range all {
		c.close()
	}
	return empty
}

// closeDirs closes the directories that the kernel still knows.
func (t *tree) closeDirs() {
	t.mu.Lock()
	all := t.dirs
	t.dirs, t.ids = map[fusefs.StableAttr]*dirNode{}, map[uint64]*dirNode{}
	t.mu.Unlock()
	for _, n := range all {
		n.end()
	}
}
