package fs

import (
	"context"
	"sync"
	"syscall"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/lock"
)

// fileNode is what is no directory. It is known by its directory and name, and
// checked to be the same file each time. It keeps no descriptor of its own: an
// NFS client renames a file that is removed while it is open, and the
// directory then isn't empty.
type fileNode struct {
	fusefs.Inode
	tree *tree
	id   fusefs.StableAttr

	mu sync.Mutex
	// open are the handles of the file; guarded by mu.
	open map[*fileHandle]struct{}
}

// place returns where the file is as far as the kernel knows; nil if it has
// been removed.
func (n *fileNode) place() (dir *dirNode, name string) {
	name, parent := n.Parent()
	if parent == nil {
		return nil, ""
	}
	dir, _ = parent.Operations().(*dirNode)
	return dir, name
}

// found finds the file as name in the directory that fd is open on. If it is
// another there by now, or none, the kernel is to walk the path again: ESTALE.
// The caller closes what is found.
func (n *fileNode) found(dir *dirNode, fd int, name string) (found, error) {
	f, err := dir.look(fd, name)
	if err == unix.ENOENT {
		return found{}, unix.ESTALE
	}
	if err != nil {
		return found{}, err
	}
	if f.id != n.id {
		unix.Close(f.fd)
		return found{}, unix.ESTALE
	}
	return f, nil
}

// as runs f as the caller with a descriptor of the file: of an open handle if
// there is one, since that works for a removed file too, or else O_PATH.
func (n *fileNode) as(c caller, f func(fd int) error) syscall.Errno {
	return c.do(func() error {
		if h := n.anyHandle(); h != nil {
			defer h.desc.release()
			return f(h.desc.fd)
		}
		dir, name := n.place()
		if dir == nil {
			return unix.ESTALE
		}
		return dir.use(func(fd int) error {
			file, err := n.found(dir, fd, name)
			if err != nil {
				return err
			}
			defer unix.Close(file.fd)
			return f(file.fd)
		})
	})
}

// anyHandle returns an open handle of the file, whose descriptor the caller
// releases, or nil.
func (n *fileNode) anyHandle() *fileHandle {
	n.mu.Lock()
	defer n.mu.Unlock()
	for h := range n.open {
		if h.desc.acquire() {
			return h
		}
	}
	return nil
}

// follow makes the handles that may write hold the lock of the directory dir,
// to which the file is moved. hold is the mover's.
func (n *fileNode) follow(dir *dirNode, hold *lock.Hold) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for h := range n.open {
		h.follow(dir, hold)
	}
}

// alter runs f, which changes the file itself, as the caller and under its
// directory's lock. A removed file that is still open is in no directory.
func (n *fileNode) alter(ctx context.Context, c caller, f func(fd int) error) syscall.Errno {
	if dir, _ := n.place(); dir != nil {
		// The kernel holds the file's inode lock, which a writer of this file
		// needs, who may be who is waited for: so this does not wait in place.
		hold, no := n.tree.gate.Alter(ctx, c.unrepeated(), dir)
		if no != 0 {
			return n.tree.sent(no, dir)
		}
		defer hold.Release()
	}
	return n.as(c, f)
}

// Getattr reads the file's attributes. It never waits.
func (n *fileNode) Getattr(ctx context.Context, _ fusefs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	dir, _ := n.place()
	l := n.tree.looking()
	no := n.attributes(callerOf(ctx), out)
	if no == 0 && l.lasts(dir, n.id, n) {
		out.SetTimeout(moment)
	}
	return no
}

func (n *fileNode) attributes(c caller, out *fuse.AttrOut) syscall.Errno {
	f := found{id: n.id}
	no := n.as(c, func(fd int) error {
		f.fd = fd
		if err := stat(fd, false, &f.st); err != nil {
			return err
		}
		if dir, _ := n.place(); dir != nil {
			return dir.refresh(&f)
		}
		return nil
	})
	fill(&out.Attr, &f.st)
	return no
}

// Setattr changes the file's attributes. ftruncate(2) comes with a handle that
// may write, and so has the lock. A chown(2) that leaves both owners as they are
// comes without any change: it clears the set-id bits, which the kernel leaves
// to the file system, as it does before a write.
func (n *fileNode) Setattr(ctx context.Context, fh fusefs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	c := callerOf(ctx)
	h, _ := fh.(*fileHandle)
	var no syscall.Errno
	if size, ok := in.GetSize(); ok && h != nil && h.writes {
		no = c.do(func() error { return h.truncate(int64(size)) })
		in.Valid &^= fuse.FATTR_SIZE
	}
	const changes = fuse.FATTR_MODE | fuse.FATTR_UID | fuse.FATTR_GID | fuse.FATTR_SIZE | fuse.FATTR_ATIME | fuse.FATTR_MTIME
	if no == 0 && in.Valid&changes != 0 {
		no = n.alter(ctx, c, func(fd int) error {
			defer n.tree.changes.at(n.id.Ino).Add(1)
			return setAttributes(fd, in)
		})
	}
	if no == 0 && in.Valid&(changes|fuse.FATTR_FH) == 0 && c.inChown() {
		no = n.alter(ctx, c, func(fd int) error { return unix.Fchownat(fd, "", -1, -1, unix.AT_EMPTY_PATH) })
	}
	if no != 0 {
		return no
	}
	return n.attributes(c, out)
}

// Readlink returns a symbolic link's target.
func (n *fileNode) Readlink(ctx context.Context) ([]byte, syscall.Errno) {
	buf := make([]byte, unix.PathMax)
	var length int
	no := n.as(callerOf(ctx), func(fd int) (err error) {
		length, err = unix.Readlinkat(fd, "", buf)
		return err
	})
	if no != 0 {
		return nil, no
	}
	return buf[:length], 0
}

// Statfs describes the file system that the file's directory is in.
func (n *fileNode) Statfs(ctx context.Context, out *fuse.StatfsOut) syscall.Errno {
	dir, _ := n.place()
	if dir == nil {
		dir = n.tree.root
	}
	return dir.Statfs(ctx, out)
}
