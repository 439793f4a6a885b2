package fs

import (
	"context"
	"syscall"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/internal/cred"
	"github.com/lockfs/lockfs/lock"
)

// alter runs f in the directory, as the caller and under its lock.
func (n *dirNode) alter(ctx context.Context, c caller, f func(fd int, h *lock.Hold) error) syscall.Errno {
	hold, no := n.tree.gate.Alter(ctx, &c.Caller, n)
	if no != 0 {
		return n.tree.sent(no, n)
	}
	defer hold.Release()
	n.tree.changing(n)
	defer n.tree.altered(n)
	return n.as(c, func(fd int) error { return f(fd, hold) })
}

// make runs f, which makes name, and returns what it has made.
func (n *dirNode) make(ctx context.Context, c caller, name string, out *fuse.EntryOut, f func(fd int) error) (*fusefs.Inode, syscall.Errno) {
	return n.add(ctx, c, name, out, func(fd int) (made found, err error) {
		if err = f(fd); err != nil {
			return found{}, err
		}
		if made, err = look(fd, name); err == nil {
			n.fresh.made(made.id)
		}
		return made, err
	})
}

// add runs f, which gives something the name, and returns what f returns.
func (n *dirNode) add(ctx context.Context, c caller, name string, out *fuse.EntryOut, f func(fd int) (found, error)) (*fusefs.Inode, syscall.Errno) {
	if reserved(name) {
		return nil, syscall.EPERM
	}
	var added found
	no := n.alter(ctx, c, func(fd int, _ *lock.Hold) (err error) {
		added, err = f(fd)
		return err
	})
	if no != 0 {
		return nil, no
	}
	return n.child(ctx, added, out), 0
}

// Mkdir makes a directory.
func (n *dirNode) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	mode, umask := splitMode(mode)
	return n.make(ctx, callerOf(ctx), name, out, func(fd int) error {
		return cred.WithUmask(umask, func() error { return unix.Mkdirat(fd, name, mode) })
	})
}

// Mknod makes a fifo, a socket, a device or an empty file.
func (n *dirNode) Mknod(ctx context.Context, name string, mode, dev uint32, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	mode, umask := splitMode(mode)
	c := callerOf(ctx)
	// bind(2) does not walk its path again after ESTALE (unix_bind_bsd in
	// net/unix/af_unix.c).
	c.Once = mode&modeType == unix.S_IFSOCK
	return n.make(ctx, c, name, out, func(fd int) error {
		return cred.WithUmask(umask, func() error { return unix.Mknodat(fd, name, mode, int(dev)) })
	})
}

// Symlink makes a symbolic link.
func (n *dirNode) Symlink(ctx context.Context, target, name string, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	return n.make(ctx, callerOf(ctx), name, out, func(fd int) error { return unix.Symlinkat(target, fd, name) })
}

// Link makes another name of a file of this directory. In another directory
// it would let one file be written under two locks: EXDEV.
func (n *dirNode) Link(ctx context.Context, target fusefs.InodeEmbedder, name string, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	file, ok := target.(*fileNode)
	if !ok {
		return nil, syscall.EPERM // the virtual file
	}
	dir, old := file.place()
	if dir != n {
		return nil, syscall.EXDEV
	}
	return n.add(ctx, callerOf(ctx), name, out, func(fd int) (found, error) {
		f, err := file.found(n, fd, old)
		if err != nil {
			return found{}, err
		}
		defer unix.Close(f.fd)
		if err := unix.Linkat(fd, old, fd, name, 0); err != nil {
			return found{}, err
		}
		return n.look(fd, name)
	})
}

// Unlink removes a name that is no directory.
func (n *dirNode) Unlink(ctx context.Context, name string) syscall.Errno {
	if reserved(name) {
		return syscall.EPERM
	}
	return n.alter(ctx, callerOf(ctx), func(fd int, _ *lock.Hold) error { return unix.Unlinkat(fd, name, 0) })
}

// Rmdir removes an empty directory.
func (n *dirNode) Rmdir(ctx context.Context, name string) syscall.Errno {
	if reserved(name) {
		return syscall.ENOTDIR
	}
	r := removal{from: n, to: n, name: name}
	return r.run(ctx, callerOf(ctx), func(fd int, _ *locks) error { return unix.Unlinkat(fd, name, unix.AT_REMOVEDIR) })
}

// Rename moves name to newName in the directory newParent.
func (n *dirNode) Rename(ctx context.Context, name string, newParent fusefs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	to, ok := newParent.(*dirNode)
	if !ok {
		return syscall.EXDEV
	}
	if reserved(name) || reserved(newName) {
		return syscall.EPERM
	}
	r := removal{from: n, to: to, name: newName}
	return r.run(ctx, callerOf(ctx), func(fd int, ls *locks) error {
		err := to.use(func(toFD int) error {
			if flags == 0 { // for file systems that know no renameat2
				return unix.Renameat(fd, name, toFD, newName)
			}
			return unix.Renameat2(fd, name, toFD, newName, uint(flags))
		})
		if err != nil || n == to {
			return err
		}
		n.follow(name, to, ls)
		if flags&unix.RENAME_EXCHANGE != 0 {
			to.follow(newName, n, ls)
		}
		return nil
	})
}

// follow makes the open handles of the file name, which is moved to the
// directory to, hold that directory's lock too: they go on writing there.
func (n *dirNode) follow(name string, to *dirNode, ls *locks) {
	child := n.GetChild(name)
	if child == nil {
		return
	}
	if file, ok := child.Operations().(*fileNode); ok {
		file.follow(to, ls.of(to))
		// What was shown of it was under the other lock.
		if no := expire(file); no != 0 {
			n.tree.tellShown(no, n)
		}
	}
}
