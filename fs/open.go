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

// keptFlags are the flags of an open that the backing file is opened with too.
// O_APPEND is among them since it matters to what may be opened; it is of each
// write then.
const keptFlags = unix.O_ACCMODE | unix.O_APPEND | unix.O_DSYNC | unix.O_SYNC | unix.O_DIRECT | unix.O_NOATIME | unix.O_NONBLOCK

// No handle has FOPEN_KEEP_CACHE: the kernel drops what it has of the file at
// each open, since other hosts write too. None has FOPEN_DIRECT_IO, with which
// a file that is open with O_DIRECT could not be mapped.

// Create makes a file, if there is none yet, and opens it. Without O_EXCL
// another host may have made it since the kernel looked.
func (n *dirNode) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fusefs.Inode, fusefs.FileHandle, uint32, syscall.Errno) {
	if reserved(name) {
		return nil, nil, 0, syscall.EPERM
	}
	mode, umask := splitMode(mode)
	c := callerOf(ctx)
	c.NonBlock = flags&unix.O_NONBLOCK != 0
	how := int(flags)&(keptFlags|unix.O_EXCL|unix.O_TRUNC) | unix.O_CREAT
	var h *fileHandle
	var f found
	no := n.alter(ctx, c, func(fd int, hold *lock.Hold) error {
		if err := n.tree.room(); err != nil {
			return err
		}
		return cred.WithUmask(umask, func() (err error) {
			if f, err = openBacking(fd, name, how, mode); err != nil {
				return err
			}
			if no := n.tree.through.end(f.id); no != 0 {
				unix.Close(f.fd)
				return no
			}
			n.fresh.made(f.id)
			// A handle that only reads holds the lock just for the creation.
			h = newHandle(n.tree, f, flags)
			if h.writes {
				h.follow(n, hold)
			}
			return nil
		})
	})
	if no != 0 {
		return nil, nil, 0, no
	}
	file := &fileNode{tree: n.tree, id: f.id}
	h.attach(file)
	fill(&out.Attr, &f.st)
	return n.NewInode(ctx, file, f.id), h, 0, 0
}

// Open opens the file: for writing under its directory's lock, which it waits
// for in place, since the kernel holds no lock meanwhile.
func (n *fileNode) Open(ctx context.Context, flags uint32) (fusefs.FileHandle, uint32, syscall.Errno) {
	c := callerOf(ctx)
	c.NonBlock = flags&unix.O_NONBLOCK != 0
	if mayWrite(flags) {
		if no := n.tree.through.end(n.id); no != 0 {
			n.tree.log.WithField("file", n.Path(nil)).Warn("the mount was read-only when the file was opened by who still reads it: until he closes it, it can't be written")
			return nil, 0, no
		}
	}
	dir, name := n.place()
	if dir == nil {
		return n.reopen(c, flags)
	}
	var hold *lock.Hold
	if mayWrite(flags) {
		var no syscall.Errno
		if hold, no = n.tree.gate.Open(ctx, c.Caller, dir); no != 0 {
			return nil, 0, no
		}
		defer func() {
			if hold != nil {
				hold.Release()
			}
		}()
	}
	// While it waited the file may have been moved, to another name or under
	// another lock, or removed.
	was := dir
	stale := func() syscall.Errno {
		if hold == nil {
			return syscall.ESTALE
		}
		mine := hold
		hold = nil
		return n.tree.sent(n.tree.gate.Around(c.Caller, was, mine), was)
	}
	if dir, name = n.place(); dir != was {
		return nil, 0, stale()
	}
	var f found
	no := dir.as(c, func(fd int) (err error) {
		if err := n.tree.room(); err != nil {
			return err
		}
		f, err = openBacking(fd, name, int(flags)&keptFlags, 0)
		return err
	})
	if no == syscall.ENOENT || no == syscall.ELOOP || no == syscall.ESTALE {
		return nil, 0, stale()
	}
	if no != 0 {
		return nil, 0, no
	}
	if f.id != n.id {
		unix.Close(f.fd)
		return nil, 0, stale()
	}
	h := newHandle(n.tree, f, flags)
	if hold != nil {
		h.follow(dir, hold)
	}
	return h, n.opened(c, h), 0
}

// reopen opens a file that has been removed and is still open, by
// /proc/PID/fd/N. It is in no directory, and under no lock.
func (n *fileNode) reopen(c caller, flags uint32) (fusefs.FileHandle, uint32, syscall.Errno) {
	open := n.anyHandle()
	if open == nil {
		return nil, 0, syscall.ESTALE
	}
	defer open.desc.release()
	var f found
	no := c.do(func() error {
		if err := n.tree.room(); err != nil {
			return err
		}
		fd, err := again(func() (int, error) {
			return unix.Open(procPath(open.desc.fd), int(flags)&keptFlags|unix.O_CLOEXEC, 0)
		})
		if err != nil {
			return err
		}
		if f, err = examine(fd); err == nil {
			err = setFlags(fd, int(flags)&(unix.O_DIRECT|unix.O_NOATIME|unix.O_NONBLOCK))
		}
		if err != nil {
			unix.Close(fd)
		}
		return err
	})
	if no != 0 {
		return nil, 0, no
	}
	h := newHandle(n.tree, f, flags)
	return h, n.opened(c, h), 0
}

// opened makes the handle one of the file's, and returns the flags of the answer.
func (n *fileNode) opened(c caller, h *fileHandle) uint32 {
	h.attach(n)
	if h.writes {
		return 0
	}
	return n.tree.readThrough(c, h)
}

func mayWrite(flags uint32) bool {
	return flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0
}

// openBacking opens a regular file in the directory that dir is open on. What
// is another kind of file by now is the kernel's to open, not ours: ESTALE
// makes it look again.
func openBacking(dir int, name string, flags int, mode uint32) (found, error) {
	// O_NONBLOCK, lest a fifo in the file's place hang the daemon.
	how := flags | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := again(func() (int, error) { return unix.Openat(dir, name, how, mode) })
	if err == unix.ENXIO || err == unix.ELOOP {
		return found{}, unix.ESTALE
	}
	if err != nil {
		return found{}, err
	}
	f, err := examine(fd)
	if err == nil && f.id.Mode != unix.S_IFREG {
		err = unix.ESTALE
	}
	if err == nil {
		err = setFlags(fd, flags&(unix.O_DIRECT|unix.O_NOATIME|unix.O_NONBLOCK))
	}
	if err != nil {
		unix.Close(fd)
		return found{}, err
	}
	return f, nil
}

// setFlags sets the flags of an open file that can be changed. O_APPEND is not
// among them: it stays only where the file may be appended to and no more
// (chattr(1)), and its writes can't but append.
func setFlags(fd, flags int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
	if err == unix.EPERM {
		return nil
	}
	return err
}
