package fs

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/internal/cred"
	"github.com/lockfs/lockfs/lock"
)

// dirNode is a directory. It owns a descriptor of it, through which both its
// lock and every operation in it go: two walks of one path can end in two
// directories, and a lock of the one does not protect the other.
type dirNode struct {
	fusefs.Inode
	tree *tree
	id   fusefs.StableAttr
	key  lock.Key

	mu sync.Mutex
	// desc is nil while the directory is idle (idleDirs); guarded by mu.
	desc *descriptor
	gone bool // it is never used again; guarded by mu

	// known is how often the kernel was told of it; guarded by tree.mu.
	known uint64
	fresh fresh
	shown shown
	// inTheWay reports that a lock in the directory has kept it from being
	// removed, so that it must be had for that.
	inTheWay atomic.Bool
}

func newDirNode(t *tree, f found) *dirNode {
	return &dirNode{
		tree: t,
		id:   f.id,
		key:  keyOf(f),
		desc: newDescriptor(f.fd),
	}
}

// keyOf returns the key of the lock of the directory f.
func keyOf(f found) lock.Key { return lock.Key{Dev: device(&f.st), Ino: f.st.Ino, Gen: f.id.Gen} }

// fresh knows which files of a directory have been asked of the server since
// the directory's lock was last taken. What this host had cached of the others
// may be from before.
type fresh struct {
	mu    sync.Mutex
	takes int
	files map[fusefs.StableAttr]struct{}
}

// freshMost is how many files of a directory may be known to be fresh. A job that
// makes and removes files under one lock for days has made any number of them.
const freshMost = 1 << 20

// count returns how often the lock was taken.
func (f *fresh) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.takes
}

// reset is for a take: nothing is fresh.
func (f *fresh) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.takes++
	f.files = nil
}

// stale reports whether the file must be asked of the server, and notes that
// it will be.
func (f *fresh) stale(id fusefs.StableAttr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.files[id]; ok || f.takes == 0 {
		return false
	}
	if f.files == nil || len(f.files) >= freshMost { // those that are forgotten are asked for once more
		f.files = map[fusefs.StableAttr]struct{}{}
	}
	f.files[id] = struct{}{}
	return true
}

// made notes that the file was made under the lock.
func (f *fresh) made(id fusefs.StableAttr) { f.stale(id) }

// forget notes that the file could not be asked of the server.
func (f *fresh) forget(id fusefs.StableAttr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.files, id)
}

// path is where the directory is, for people.
func (n *dirNode) path() string { return filepath.Join(n.tree.source, n.Path(nil)) }

// Place is gate.Dir's.
func (n *dirNode) Place(c cred.Cred) lock.Place {
	below := n.Path(nil) // it may be renamed between a take and the release
	return lock.Place{
		Key:  n.key,
		Path: filepath.Join(n.tree.source, below),
		Open: func() (d lock.Dir, err error) {
			open := func() {
				err = n.tree.root.use(func(root int) error {
					return n.use(func(fd int) error {
						d, err = lock.OpenDirIn(root, fd, c)
						return err
					})
				})
			}
			// An idle directory is looked for, which the caller may do.
			if open(); err == unix.EACCES {
				c.Do(open)
			}
			return d, err
		},
		Taken: func() {
			n.tree.held.Taken(below)
			n.taken()
		},
		Released: func(lost bool) {
			n.tree.released(n.key, lost)
			n.tree.releasedAs(n, lost)
			n.tree.held.Released(below)
		},
	}
}

// taken makes this host see what the last holder of the lock has done: the
// names at once, the files' attributes when they are next asked for.
func (n *dirNode) taken() {
	n.tree.takes.Add(1)
	n.tree.altered(n) // if not by the take itself, then by who had the lock before
	n.fresh.reset()
	if no := n.shown.end(); no != 0 {
		n.tree.tellShown(no, n)
	}
	var st unix.Statx_t
	if err := n.use(func(fd int) error { return stat(fd, true, &st) }); err != nil {
		n.tree.log.WithError(err).WithField("dir", n.path()).Warn("the attributes of a locked directory could not be refreshed")
	}
}

// as runs f as the caller, with the directory's descriptor.
func (n *dirNode) as(c caller, f func(fd int) error) syscall.Errno {
	return c.do(func() error { return n.use(f) })
}

// look finds what name is in the directory that fd is open on. The caller
// closes what is found.
func (n *dirNode) look(fd int, name string) (found, error) {
	f, err := look(fd, name)
	if err != nil {
		return found{}, err
	}
	if err := n.refresh(&f); err != nil {
		unix.Close(f.fd)
		return found{}, err
	}
	return f, nil
}

// refresh asks the server for the attributes of a file of the directory, if
// they may be from before the directory's lock was taken.
func (n *dirNode) refresh(f *found) error {
	// What is in a directory is under its own lock.
	if f.id.Mode == unix.S_IFDIR || !n.fresh.stale(f.id) {
		return nil
	}
	err := stat(f.fd, true, &f.st)
	if err != nil {
		n.fresh.forget(f.id)
	}
	return err
}

// child returns the inode of what was found in the directory, and fills the
// reply. It owns the descriptor of f.
func (n *dirNode) child(ctx context.Context, f found, out *fuse.EntryOut) *fusefs.Inode {
	fill(&out.Attr, &f.st)
	if f.id.Mode == unix.S_IFDIR {
		return n.NewInode(ctx, n.tree.directory(f), f.id)
	}
	unix.Close(f.fd) // O_PATH: it has nothing to fail with
	return n.NewInode(ctx, &fileNode{tree: n.tree, id: f.id}, f.id)
}

// Lookup finds a child.
func (n *dirNode) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	if name == lock.Reserved {
		return n.lookupVirtual(ctx, out)
	}
	if name == MountFile {
		return n.lookupMountFile(ctx, out)
	}
	if reserved(name) {
		return nil, syscall.ENOENT
	}
	c := callerOf(ctx)
	f := found{fd: -1}
	known := n.subdirectory(name)
	no := n.tree.settled(func() syscall.Errno {
		var s seen
		if known != nil {
			s = n.tree.see(known.key)
		}
		if f.fd >= 0 {
			unix.Close(f.fd) // O_PATH: it has nothing to fail with
			f.fd = -1
		}
		no := n.as(c, func(fd int) error {
			got, err := n.look(fd, name)
			if err == nil {
				f = got
			}
			return err
		})
		if f.id.Mode == unix.S_IFDIR {
			n.tree.showWish(keyOf(f), &f.st)
			if known != nil && known.key == keyOf(f) {
				s.show(&f.st)
			}
		}
		return no
	})
	if no != 0 {
		return nil, no
	}
	return n.child(ctx, f, out), 0
}

// subdirectory is the directory name as the kernel knows it; nil if that is none.
func (n *dirNode) subdirectory(name string) *dirNode {
	child := n.GetChild(name)
	if child == nil {
		return nil
	}
	d, _ := child.Operations().(*dirNode)
	return d
}

// Getattr is where a thread waits that an operation in the directory has sent
// around (package gate). Nobody else waits.
func (n *dirNode) Getattr(ctx context.Context, _ fusefs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	c := callerOf(ctx)
	if no := n.tree.gate.Attributes(ctx, c.Caller, n); no != 0 {
		return no
	}
	held, _ := n.tree.locks.Holds(n.key)
	// The kernel forgets all attributes of a directory with each change in it
	// (fuse_dir_changed in fs/fuse/dir.c), and asks before the next who may do
	// that.
	if held && c.actsByName() {
		return n.rights(c, out)
	}
	l := n.tree.looking()
	no := n.attributes(c, out)
	if no == 0 && l.dirLasts(n, n) {
		out.SetTimeout(moment)
	}
	return no
}

// rights answers with what decides who may do what. The rest may be old, so that
// nothing of it is valid.
func (n *dirNode) rights(c caller, out *fuse.AttrOut) syscall.Errno {
	var st unix.Statx_t
	no := n.as(c, func(fd int) error { return rights(fd, &st) })
	fill(&out.Attr, &st)
	return no
}

func (n *dirNode) attributes(c caller, out *fuse.AttrOut) syscall.Errno {
	st, no := n.stat(c, false)
	fill(&out.Attr, &st)
	return no
}

// stat reads the directory's attributes, with the times that it is to have;
// force asks the server for them.
func (n *dirNode) stat(c caller, force bool) (st unix.Statx_t, no syscall.Errno) {
	no = n.tree.settled(func() syscall.Errno {
		s := n.tree.see(n.key)
		no := n.as(c, func(fd int) error { return stat(fd, force, &st) })
		if no == 0 {
			n.tree.showWish(n.key, &st)
			s.show(&st)
		}
		return no
	})
	return st, no
}

// Setattr changes the directory's own attributes, under its own lock.
func (n *dirNode) Setattr(ctx context.Context, _ fusefs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	c := callerOf(ctx)
	no := n.alterLocked(ctx, c, func(fd int, locked bool) error {
		err := setAttributes(fd, in)
		if err == nil && locked {
			n.tree.setsTime(n, c, in)
		}
		return err
	})
	if no != 0 {
		return no
	}
	return n.attributes(c, out)
}

// alterSelf runs f, which changes the directory's own attributes, under its own
// lock.
func (n *dirNode) alterSelf(ctx context.Context, c caller, f func(fd int) error) syscall.Errno {
	return n.alterLocked(ctx, c, func(fd int, _ bool) error { return f(fd) })
}

// alterLocked is alterSelf, and tells f whether there is a lock. Where none may
// make a lock in the directory, as in one without write permission on an export
// with root_squash, nobody can hold one either.
func (n *dirNode) alterLocked(ctx context.Context, c caller, f func(fd int, locked bool) error) syscall.Errno {
	takes := n.fresh.count()
	st, no := n.stat(c, true)
	if no != 0 {
		return no
	}
	hold, no := n.tree.gate.Alter(ctx, c.unrepeated(), n)
	switch n.tree.sent(no, n) {
	case 0:
		defer hold.Release()
		if n.fresh.count() == takes+1 {
			// It is the lock, and not another job before it, that has set the time.
			n.tree.wishTime(n, c, unix.Timespec{Sec: st.Mtime.Sec, Nsec: int64(st.Mtime.Nsec)})
		}
	case syscall.EACCES, syscall.EPERM:
	default:
		return no
	}
	n.tree.altered(n)
	defer n.tree.altered(n)
	return n.as(c, func(fd int) error { return f(fd, no == 0) })
}

// Statfs describes the file system that the directory is in.
func (n *dirNode) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	var st syscall.Statfs_t
	err := n.use(func(fd int) error { return syscall.Fstatfs(fd, &st) })
	out.FromStatfsT(&st)
	return errno(err)
}
