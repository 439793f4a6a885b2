package fs

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"sync"
	"syscall"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/fs/gate"
	"github.com/lockfs/lockfs/lock"
)

// virtualNode is the file D/.lockfs of the mount, which stands for the lock of
// the directory D: who reads it is told who holds the lock and who waits, and
// who has it open for writing holds the lock.
type virtualNode struct {
	fusefs.Inode
	dir *dirNode
}

// lookupVirtual finds the directory's virtual file.
func (n *dirNode) lookupVirtual(ctx context.Context, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	v := &virtualNode{dir: n}
	if no := v.attributes(callerOf(ctx), &out.Attr); no != 0 {
		return nil, no
	}
	return n.NewInode(ctx, v, v.id()), 0
}

// id is the file's identity: a number that no file of the server's is likely
// to have, and that is the directory's alone.
func (v *virtualNode) id() fusefs.StableAttr {
	sum := fnv.New64a()
	for _, n := range []uint64{v.dir.id.Ino, v.dir.id.Gen} {
		for ; n != 0; n >>= 8 {
			sum.Write([]byte{byte(n)})
		}
		sum.Write([]byte(lock.Reserved))
	}
	return fusefs.StableAttr{Mode: unix.S_IFREG, Ino: 1<<63 | sum.Sum64()>>1, Gen: v.dir.id.Gen}
}

// attributes are those of a file that may be read by all and written by those
// who may write in the directory: the lock is theirs to take.
func (v *virtualNode) attributes(c caller, out *fuse.Attr) syscall.Errno {
	var st unix.Statx_t
	no := v.dir.as(c, func(fd int) error { return stat(fd, false, &st) })
	st.Mode = unix.S_IFREG | 0o444 | st.Mode&0o222
	st.Ino, st.Size, st.Blocks, st.Nlink = v.id().Ino, 0, 0, 1
	fill(out, &st)
	return no
}

// Getattr reads the file's attributes.
func (v *virtualNode) Getattr(ctx context.Context, _ fusefs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return v.attributes(callerOf(ctx), &out.Attr)
}

// Setattr changes nothing: a shell's "9>D/.lockfs" truncates the file, and
// touch(1) sets its times. Its mode and owner are the directory's.
func (v *virtualNode) Setattr(ctx context.Context, _ fusefs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if in.Valid&(fuse.FATTR_MODE|fuse.FATTR_UID|fuse.FATTR_GID) != 0 {
		return syscall.EPERM
	}
	return v.attributes(callerOf(ctx), &out.Attr)
}

// Statfs describes the file system that the directory is in.
func (v *virtualNode) Statfs(ctx context.Context, out *fuse.StatfsOut) syscall.Errno {
	return v.dir.Statfs(ctx, out)
}

// virtualHandle is an open virtual file.
type virtualHandle struct {
	tree *tree
	text []byte
	hold *lock.Hold // nil if it was opened for reading only
	end  func()
	once sync.Once
}

// Open returns who holds, for a reader, and takes the lock for a writer.
func (v *virtualNode) Open(ctx context.Context, flags uint32) (fusefs.FileHandle, uint32, syscall.Errno) {
	c := callerOf(ctx)
	h := &virtualHandle{tree: v.dir.tree, end: func() {}}
	if mayWrite(flags) {
		if err := h.tree.room(); err != nil {
			return nil, 0, errno(err)
		}
		c.NonBlock = flags&unix.O_NONBLOCK != 0
		hold, end, no := h.tree.gate.OpenVirtual(ctx, c.Caller, v.dir, h.tree.dev, v.id().Ino)
		if no != 0 {
			return nil, 0, no
		}
		h.hold, h.end = hold, end
	}
	h.tree.opened(h)
	if flags&unix.O_ACCMODE != unix.O_WRONLY {
		s, err := v.dir.status(c)
		if err == nil {
			h.text, err = json.MarshalIndent(s, "", "  ")
		}
		if err != nil {
			h.close()
			return nil, 0, errno(err)
		}
		h.text = append(h.text, '\n')
	}
	// The size is not known to the kernel, and each open has its own text.
	return h, fuse.FOPEN_DIRECT_IO, 0
}

// Read reads what was so when the file was opened.
func (h *virtualHandle) Read(_ context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	from := min(off, int64(len(h.text)))
	return fuse.ReadResultData(dest[:copy(dest, h.text[from:])]), 0
}

// Write always fails: there is nothing to write.
func (h *virtualHandle) Write(context.Context, []byte, int64) (uint32, syscall.Errno) {
	return 0, syscall.EINVAL
}

// Flush says whether the lock has stood.
func (h *virtualHandle) Flush(ctx context.Context) syscall.Errno { return h.Fsync(ctx, 0) }

// Fsync says whether the lock stands.
func (h *virtualHandle) Fsync(ctx context.Context, _ uint32) syscall.Errno {
	if h.hold == nil {
		return 0
	}
	patient, end := gate.Patience(ctx, callerOf(ctx).TID)
	defer end()
	return errno(causeOf(patient, h.hold.Check(patient)))
}

func (h *virtualHandle) close() {
	h.once.Do(func() {
		h.end()
		h.tree.closed(h)
	})
}

// Release is called when the last user of the handle is gone.
func (h *virtualHandle) Release(context.Context) syscall.Errno {
	h.close()
	return 0
}
