package fs

import (
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Operations counts the requests of a mount, without a lock. The zero value is
// ready to use.
type Operations struct {
	kinds  [len(operationNames)]atomic.Uint64
	errors [maxErrno]atomic.Uint64
}

// maxErrno is more than the largest number of an error (errno(3): MAX_ERRNO of
// the kernel is 4095, those that programs see are below 134).
const maxErrno = 256

// operation is a kind of request.
type operation int

const (
	opLookup operation = iota
	opGetattr
	opSetattr
	opMkdir
	opMknod
	opUnlink
	opRmdir
	opRename
	opLink
	opSymlink
	opReadlink
	opAccess
	opXattr
	opCreate
	opOpen
	opRead
	opWrite
	opCopy
	opAllocate
	opSeek
	opFlush
	opFsync
	opOpendir
	opReaddir
	opStatfs
)

var operationNames = [...]string{
	"lookup", "getattr", "setattr", "mkdir", "mknod", "unlink", "rmdir", "rename", "link", "symlink", "readlink", "access",
	"xattr", "create", "open", "read", "write", "copy", "allocate", "seek", "flush", "fsync", "opendir", "readdir", "statfs",
}

// Kinds returns how many requests of each kind were answered.
func (o *Operations) Kinds() map[string]uint64 {
	kinds := make(map[string]uint64, len(operationNames))
	for i, name := range operationNames {
		kinds[name] = o.kinds[i].Load()
	}
	return kinds
}

// Errors returns how many were answered with each error that ever was.
func (o *Operations) Errors() map[syscall.Errno]uint64 {
	errors := map[syscall.Errno]uint64{}
	for no := range o.errors {
		if n := o.errors[no].Load(); n > 0 {
			errors[syscall.Errno(no)] = n
		}
	}
	return errors
}

func (o *Operations) count(op operation, s fuse.Status) fuse.Status {
	o.kinds[op].Add(1)
	if s > 0 && s < maxErrno {
		o.errors[s].Add(1)
	}
	return s
}

// counted hands requests on, and counts them.
type counted struct {
	fuse.RawFileSystem
	ops *Operations
}

func (c *counted) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	return c.ops.count(opLookup, c.RawFileSystem.Lookup(cancel, h, name, out))
}

func (c *counted) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return c.ops.count(opGetattr, c.RawFileSystem.GetAttr(cancel, in, out))
}

func (c *counted) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	return c.ops.count(opSetattr, c.RawFileSystem.SetAttr(cancel, in, out))
}

func (c *counted) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	return c.ops.count(opMknod, c.RawFileSystem.Mknod(cancel, in, name, out))
}

func (c *counted) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return c.ops.count(opMkdir, c.RawFileSystem.Mkdir(cancel, in, name, out))
}

func (c *counted) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return c.ops.count(opUnlink, c.RawFileSystem.Unlink(cancel, h, name))
}

func (c *counted) Rmdir(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return c.ops.count(opRmdir, c.RawFileSystem.Rmdir(cancel, h, name))
}

func (c *counted) Rename(cancel <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	return c.ops.count(opRename, c.RawFileSystem.Rename(cancel, in, from, to))
}

func (c *counted) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	return c.ops.count(opLink, c.RawFileSystem.Link(cancel, in, name, out))
}

func (c *counted) Symlink(cancel <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	return c.ops.count(opSymlink, c.RawFileSystem.Symlink(cancel, h, target, name, out))
}

func (c *counted) Readlink(cancel <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	target, s := c.RawFileSystem.Readlink(cancel, h)
	return target, c.ops.count(opReadlink, s)
}

func (c *counted) Access(cancel <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	return c.ops.count(opAccess, c.RawFileSystem.Access(cancel, in))
}

func (c *counted) GetXAttr(cancel <-chan struct{}, h *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	n, s := c.RawFileSystem.GetXAttr(cancel, h, attr, dest)
	return n, c.ops.count(opXattr, s)
}

func (c *counted) ListXAttr(cancel <-chan struct{}, h *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	n, s := c.RawFileSystem.ListXAttr(cancel, h, dest)
	return n, c.ops.count(opXattr, s)
}

func (c *counted) SetXAttr(cancel <-chan struct{}, in *fuse.SetXAttrIn, attr string, data []byte) fuse.Status {
	return c.ops.count(opXattr, c.RawFileSystem.SetXAttr(cancel, in, attr, data))
}

func (c *counted) RemoveXAttr(cancel <-chan struct{}, h *fuse.InHeader, attr string) fuse.Status {
	return c.ops.count(opXattr, c.RawFileSystem.RemoveXAttr(cancel, h, attr))
}

func (c *counted) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	return c.ops.count(opCreate, c.RawFileSystem.Create(cancel, in, name, out))
}

func (c *counted) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return c.ops.count(opOpen, c.RawFileSystem.Open(cancel, in, out))
}

func (c *counted) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	r, s := c.RawFileSystem.Read(cancel, in, buf)
	return r, c.ops.count(opRead, s)
}

func (c *counted) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	n, s := c.RawFileSystem.Write(cancel, in, data)
	return n, c.ops.count(opWrite, s)
}

func (c *counted) CopyFileRange(cancel <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	n, s := c.RawFileSystem.CopyFileRange(cancel, in)
	return n, c.ops.count(opCopy, s)
}

func (c *counted) Fallocate(cancel <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	return c.ops.count(opAllocate, c.RawFileSystem.Fallocate(cancel, in))
}

func (c *counted) Lseek(cancel <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	return c.ops.count(opSeek, c.RawFileSystem.Lseek(cancel, in, out))
}

func (c *counted) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	return c.ops.count(opFlush, c.RawFileSystem.Flush(cancel, in))
}

func (c *counted) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return c.ops.count(opFsync, c.RawFileSystem.Fsync(cancel, in))
}

func (c *counted) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return c.ops.count(opFsync, c.RawFileSystem.FsyncDir(cancel, in))
}

func (c *counted) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return c.ops.count(opOpendir, c.RawFileSystem.OpenDir(cancel, in, out))
}

func (c *counted) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return c.ops.count(opReaddir, c.RawFileSystem.ReadDir(cancel, in, out))
}

func (c *counted) StatFs(cancel <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	return c.ops.count(opStatfs, c.RawFileSystem.StatFs(cancel, h, out))
}
