package fs

import (
	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// raw hands the kernel's requests to go-fuse's nodes. On their way it does what
// no node can: it counts what the kernel knows of each directory, and tells the
// nodes the caller's umask and which writes are special.
type raw struct {
	fuse.RawFileSystem
	tree *tree
}

// entered counts the entry of a reply that goes to the kernel.
func (r *raw) entered(s fuse.Status, out *fuse.EntryOut) fuse.Status {
	if s.Ok() {
		r.tree.known(out.NodeId, fusefs.StableAttr{
			Mode: out.Attr.Mode & modeType,
			Ino:  out.Attr.Ino,
			Gen:  out.Generation,
		})
	}
	return s
}

func (r *raw) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if name == "." || name == ".." {
		return fuse.Status(fuse.ENOSYS) // for an export of the mount by NFS, which it can't have
	}
	l := r.tree.looking()
	s := r.entered(r.RawFileSystem.Lookup(cancel, header, name, out), out)
	if s.Ok() && !reserved(name) {
		r.last(l, header.NodeId, out)
	}
	return s
}

// last has the kernel take the attributes of an entry of a directory for valid
// for a moment, if they may be.
func (r *raw) last(l sighting, dir uint64, out *fuse.EntryOut) {
	node := numbered{r.tree.server, out.NodeId}
	id := fusefs.StableAttr{Mode: out.Attr.Mode & modeType, Ino: out.Attr.Ino, Gen: out.Generation}
	lasts := false
	if id.Mode == unix.S_IFDIR {
		n := r.tree.numbered(out.NodeId)
		lasts = n != nil && l.dirLasts(n, node)
	} else {
		lasts = l.lasts(r.tree.numbered(dir), id, node)
	}
	if lasts {
		out.SetAttrTimeout(moment)
	}
}

func (r *raw) Forget(nodeID, lookups uint64) {
	r.RawFileSystem.Forget(nodeID, lookups)
	r.tree.forget(nodeID, lookups)
}

func (r *raw) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	in.Mode = joinMode(in.Mode, in.Umask)
	return r.entered(r.RawFileSystem.Mkdir(cancel, in, name, out), out)
}

func (r *raw) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	in.Mode = joinMode(in.Mode, in.Umask)
	return r.RawFileSystem.Mknod(cancel, in, name, out)
}

func (r *raw) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	in.Mode = joinMode(in.Mode, in.Umask)
	l := r.tree.looking()
	s := r.RawFileSystem.Create(cancel, in, name, out)
	if s.Ok() {
		r.last(l, in.NodeId, &out.EntryOut)
	}
	return s
}

func (r *raw) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	s := r.RawFileSystem.Open(cancel, in, out)
	out.OpenFlags, out.BackingID = splitThrough(out.OpenFlags)
	return s
}

// umaskShift is where the umask travels in a mode: a mode has 16 bits, a umask
// nine, and go-fuse hands the mode on as it is.
const umaskShift = 16

func joinMode(mode, umask uint32) uint32 { return mode&0xffff | umask<<umaskShift }

// splitMode takes apart what joinMode has put together.
func splitMode(joined uint32) (mode uint32, umask int) {
	return joined & 0xffff, int(joined >> umaskShift)
}

func (r *raw) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	in.Offset = joinOffset(in)
	return r.RawFileSystem.Write(cancel, in, data)
}

// Writev is what go-fuse calls first. It may call Write after it, with the same
// request.
func (r *raw) Writev(cancel <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	in.Offset = joinOffset(in)
	return r.RawFileSystem.Writev(cancel, in, data)
}

// What a write is, in the bits of its offset that no offset has. It is of the
// write, not of the handle: fcntl(2) changes O_APPEND, and the kernel writes
// the pages of a mapping through any handle that was mapped.
const (
	appending = 1 << 63
	paging    = 1 << 62
)

func joinOffset(in *fuse.WriteIn) uint64 {
	switch {
	case in.WriteFlags&fuse.WRITE_CACHE != 0:
		return in.Offset | paging
	case in.Flags&unix.O_APPEND != 0:
		return in.Offset | appending
	}
	return in.Offset
}

// splitOffset takes apart what joinOffset has put together.
func splitOffset(joined int64) (off int64, appends, pages bool) {
	u := uint64(joined)
	return int64(u &^ (appending | paging)), u&appending != 0, u&paging != 0
}
