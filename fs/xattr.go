package fs

import (
	"context"
	"encoding/json"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/lock"
)

// statusPrefix is of the attributes that are lockfs's own.
const statusPrefix = "user.lockfs."

// Getxattr reads an extended attribute of a file.
func (n *fileNode) Getxattr(ctx context.Context, attr string, dest []byte) (uint32, syscall.Errno) {
	return readXattr(callerOf(ctx), n.as, func(path string) (int, error) { return unix.Getxattr(path, attr, dest) })
}

// Getxattr reads an extended attribute of a directory, or the status of its
// lock.
func (n *dirNode) Getxattr(ctx context.Context, attr string, dest []byte) (uint32, syscall.Errno) {
	c := callerOf(ctx)
	if attr == lock.StatusXattr {
		return n.statusXattr(c, dest)
	}
	return readXattr(c, n.as, func(path string) (int, error) { return unix.Getxattr(path, attr, dest) })
}

// Listxattr names the extended attributes of a file.
func (n *fileNode) Listxattr(ctx context.Context, dest []byte) (uint32, syscall.Errno) {
	return readXattr(callerOf(ctx), n.as, func(path string) (int, error) { return unix.Listxattr(path, dest) })
}

// Listxattr names the extended attributes of a directory. That of the lock's
// status is not among them, since it is not to be copied.
func (n *dirNode) Listxattr(ctx context.Context, dest []byte) (uint32, syscall.Errno) {
	return readXattr(callerOf(ctx), n.as, func(path string) (int, error) { return unix.Listxattr(path, dest) })
}

// readXattr runs get on a path to the file. An empty buffer asks for the size.
func readXattr(c caller, as func(caller, func(fd int) error) syscall.Errno, get func(path string) (int, error)) (uint32, syscall.Errno) {
	var size int
	no := as(c, func(fd int) (err error) {
		size, err = again(func() (int, error) { return get(procPath(fd)) })
		return err
	})
	return uint32(max(size, 0)), no
}

// Setxattr sets an extended attribute of a file, under its directory's lock.
func (n *fileNode) Setxattr(ctx context.Context, attr string, data []byte, flags uint32) syscall.Errno {
	return changeXattr(ctx, n.alter, attr, func(path string) error { return unix.Setxattr(path, attr, data, int(flags)) })
}

// Setxattr sets an extended attribute of a directory, under its own lock, or
// acts on that lock for an operator.
func (n *dirNode) Setxattr(ctx context.Context, attr string, data []byte, flags uint32) syscall.Errno {
	if strings.HasPrefix(attr, statusPrefix) {
		return n.operate(callerOf(ctx), attr, data)
	}
	return changeXattr(ctx, n.alterSelf, attr, func(path string) error { return unix.Setxattr(path, attr, data, int(flags)) })
}

// Removexattr removes an extended attribute of a file, under its directory's
// lock.
func (n *fileNode) Removexattr(ctx context.Context, attr string) syscall.Errno {
	return changeXattr(ctx, n.alter, attr, func(path string) error { return unix.Removexattr(path, attr) })
}

// Removexattr removes an extended attribute of a directory, under its own lock.
func (n *dirNode) Removexattr(ctx context.Context, attr string) syscall.Errno {
	return changeXattr(ctx, n.alterSelf, attr, func(path string) error { return unix.Removexattr(path, attr) })
}

// changeXattr runs change on a path to the file, under the lock that alter takes.
func changeXattr(ctx context.Context, alter func(context.Context, caller, func(fd int) error) syscall.Errno, attr string, change func(path string) error) syscall.Errno {
	if strings.HasPrefix(attr, statusPrefix) {
		return syscall.EPERM
	}
	return alter(ctx, callerOf(ctx), func(fd int) error { return change(procPath(fd)) })
}

// statusXattr is the status of the directory's lock, as JSON.
func (n *dirNode) statusXattr(c caller, dest []byte) (uint32, syscall.Errno) {
	s, err := n.status(c)
	if err != nil {
		return 0, errno(err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return 0, errno(err)
	}
	switch {
	case len(dest) == 0:
	case len(dest) < len(text):
		return uint32(len(text)), syscall.ERANGE
	default:
		copy(dest, text)
	}
	return uint32(len(text)), 0
}

// status says who holds the directory's lock, and who waits on this host.
func (n *dirNode) status(c caller) (lock.Status, error) {
	var s lock.Status
	d, err := n.Place(c.Cred).Open()
	if err != nil {
		return s, err
	}
	s, err = lock.StatusOf(d, n.path(), n.tree.self.Judge)
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	s.Holder, s.Waiters = n.tree.locks.Waiting(n.key)
	return s, err
}
