package fs

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/fs/gate"
	"github.com/lockfs/lockfs/lock"
)

// fileHandle is an open file. One that may write holds the locks of the
// directories that the file has been in since it was opened, until it is
// closed for good.
type fileHandle struct {
	tree   *tree
	desc   *descriptor
	writes bool
	// direct: the file is open with O_DIRECT, so memory must be aligned.
	direct bool
	node   *fileNode // set by attach, before the kernel knows the handle
	id     fusefs.StableAttr
	// through: the kernel reads the file by itself. Set before it knows the handle.
	through bool

	paging sync.Mutex // one at a time is in buffered

	changes *atomic.Uint64 // of the file
	// settledAt is what changes said before the last flush or sync: all of
	// those are safe.
	settledAt atomic.Uint64

	mu    sync.Mutex
	holds map[*dirNode]*lock.Hold // guarded by mu; nil once it is closed
}

// newHandle owns the descriptor of f, which was opened with flags. attach makes
// it a file's.
func newHandle(t *tree, f found, flags uint32) *fileHandle {
	h := &fileHandle{
		tree:   t,
		desc:   newDescriptor(f.fd),
		writes: mayWrite(flags),
		id:     f.id,
		direct: flags&unix.O_DIRECT != 0,
		holds:  map[*dirNode]*lock.Hold{},

		changes: t.changes.at(f.id.Ino),
	}
	h.settledAt.Store(h.changes.Load())
	h.desc.closed = h.closed
	return h
}

// attach makes the handle one of the file's, and of those that end with the
// mount.
func (h *fileHandle) attach(n *fileNode) {
	h.node = n
	n.mu.Lock()
	if n.open == nil {
		n.open = map[*fileHandle]struct{}{}
	}
	n.open[h] = struct{}{}
	n.mu.Unlock()
	h.tree.opened(h)
}

// follow makes a handle that may write hold the lock of dir, of which somebody
// of the same job has a hold.
func (h *fileHandle) follow(dir *dirNode, hold *lock.Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.writes && h.holds != nil && h.holds[dir] == nil {
		h.holds[dir] = hold.Share()
	}
}

// closed is called when the descriptor was closed: what was written is on the
// server, and the locks may go.
func (h *fileHandle) closed(err error) {
	h.mu.Lock()
	holds := h.holds
	h.holds = nil
	h.mu.Unlock()
	if err != nil {
		// Nobody is left to be told but the log: FLUSH came before.
		log := h.tree.log.WithError(err)
		for dir := range holds {
			log = log.WithField("dir", dir.path())
		}
		log.Error("a file that was written could not be closed")
	}
	for _, hold := range holds {
		hold.Release()
	}
	h.tree.closed(h)
}

// close ends the handle's own use of its descriptor.
func (h *fileHandle) close() { h.desc.close() }

// Release is called when the last user of the handle is gone.
func (h *fileHandle) Release(context.Context) syscall.Errno {
	h.node.mu.Lock()
	delete(h.node.open, h)
	h.node.mu.Unlock()
	if h.through {
		h.tree.readThroughEnds(h)
	}
	h.close()
	return 0
}

// fenced returns an error once a lock under the handle was taken away, or the
// mount has ended.
func (h *fileHandle) fenced() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, hold := range h.holds {
		if err := hold.Err(); err != nil {
			return err
		}
	}
	return nil
}

// stands asks the server whether the locks under the handle still stand.
func (h *fileHandle) stands(ctx context.Context) error {
	h.mu.Lock()
	holds := make([]*lock.Hold, 0, len(h.holds))
	for _, hold := range h.holds {
		holds = append(holds, hold)
	}
	h.mu.Unlock()
	for _, hold := range holds {
		if err := hold.Check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// change runs f, which changes the file, unless the handle is fenced.
func (h *fileHandle) change(f func(fd int) error) error {
	return h.desc.use(func(fd int) error {
		if err := h.fenced(); err != nil {
			return err
		}
		return f(fd)
	})
}

// write is change for what changes the file's data, which has the kernel
// underneath clear its set-id bits, unless who does it may keep them. An NFS
// server goes by who has opened the file; others by who is calling.
func (h *fileHandle) write(ctx context.Context, f func(fd int) error) error {
	return h.change(func(fd int) error {
		defer h.changes.Add(1)
		if !setID(fd) {
			return f(fd)
		}
		if no := callerOf(ctx).do(func() error { return f(fd) }); no != 0 {
			return no
		}
		return nil
	})
}

// setID reports whether the file has a set-user-ID or set-group-ID bit, as far
// as is known without a request to the server, which sees to its own files.
func setID(fd int) bool {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MODE, &st)
	return err != nil || st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0
}

// Read reads at an offset.
func (h *fileHandle) Read(_ context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	buf := dest
	if h.direct {
		buf = aligned(len(dest))
	}
	var n int
	err := h.desc.use(func(fd int) (err error) {
		n, err = again(func() (int, error) { return unix.Pread(fd, buf, off) })
		return err
	})
	if err != nil {
		return nil, errno(err)
	}
	return fuse.ReadResultData(buf[:n]), 0
}

// Write writes at an offset, or to the end of the file, wherever the server
// has it, if the write appends.
func (h *fileHandle) Write(ctx context.Context, data []byte, joined int64) (uint32, syscall.Errno) {
	off, appends, pages := splitOffset(joined)
	flags := 0
	if appends {
		flags = unix.RWF_APPEND
	}
	if h.direct {
		buf := aligned(len(data))
		copy(buf, data)
		data = buf
	}
	var n int
	err := h.write(ctx, func(fd int) (err error) {
		if h.direct && pages {
			defer h.buffered(fd)()
		}
		n, err = again(func() (int, error) { return unix.Pwritev2(fd, [][]byte{data}, off, flags) })
		return err
	})
	return uint32(max(n, 0)), errno(err)
}

// buffered switches O_DIRECT off until the function that it returns is called:
// pages of a mapping end where the file does, which need not be at a multiple
// of what O_DIRECT wants. A write of the program's meanwhile is none the worse.
func (h *fileHandle) buffered(fd int) (end func()) {
	h.paging.Lock()
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err == nil {
		err = setFlags(fd, flags&^unix.O_DIRECT)
	}
	return func() {
		if err == nil {
			setFlags(fd, flags) // as it was, so it is not refused
		}
		h.paging.Unlock()
	}
}

// directAlign is an alignment that every file system takes for O_DIRECT.
const directAlign = 4096

// aligned returns memory for O_DIRECT.
func aligned(n int) []byte {
	buf := make([]byte, n+directAlign)
	skip := -int(uintptr(unsafe.Pointer(&buf[0]))) & (directAlign - 1)
	return buf[skip : skip+n]
}

func (h *fileHandle) truncate(size int64) error {
	return h.change(func(fd int) error {
		defer h.changes.Add(1)
		_, err := again(func() (struct{}, error) { return struct{}{}, unix.Ftruncate(fd, size) })
		return err
	})
}

// Flush is called at each close(2) of each duplicate of the descriptor. It
// makes the server have all that was written, as an NFS client does at close,
// and sees that the lock has stood all the while. If nothing was written since
// it last did, it asks nothing of the server: a shell closes a duplicate of each
// file that it redirects to before anything is written.
func (h *fileHandle) Flush(ctx context.Context) syscall.Errno {
	if !h.writes {
		return 0
	}
	if h.changes.Load() == h.settledAt.Load() {
		return errno(h.change(func(int) error { return nil }))
	}
	return h.settled(ctx, func(fd int) error {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Close(dup)
	})
}

// Fsync makes the server store what was written.
func (h *fileHandle) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	const dataOnly = 1 // FUSE_FSYNC_FDATASYNC
	sync := unix.Fsync
	if flags&dataOnly != 0 {
		sync = unix.Fdatasync
	}
	return h.settled(ctx, sync)
}

// settled runs f, which makes data safe, and then sees that the locks under
// the handle stood until it was.
func (h *fileHandle) settled(ctx context.Context, f func(fd int) error) syscall.Errno {
	patient, end := gate.Patience(ctx, callerOf(ctx).TID)
	defer end()
	return errno(h.change(func(fd int) error {
		made := h.changes.Load()
		if err := f(fd); err != nil {
			return err
		}
		if err := causeOf(patient, h.stands(patient)); err != nil {
			return err
		}
		h.settledAt.Store(made)
		return nil
	}))
}

// Allocate is fallocate(2).
func (h *fileHandle) Allocate(ctx context.Context, off, size uint64, mode uint32) syscall.Errno {
	return errno(h.write(ctx, func(fd int) error { return unix.Fallocate(fd, mode, int64(off), int64(size)) }))
}

// Lseek finds data and holes; the kernel does all else itself.
func (h *fileHandle) Lseek(_ context.Context, off uint64, whence uint32) (uint64, syscall.Errno) {
	var at int64
	err := h.desc.use(func(fd int) (err error) {
		at, err = unix.Seek(fd, int64(off), int(whence))
		return err
	})
	return uint64(at), errno(err)
}

// CopyFileRange lets the server copy, if it can. Between file systems, and
// where it can't, the kernel copies through the page cache.
func (n *fileNode) CopyFileRange(ctx context.Context, from fusefs.FileHandle, fromOff uint64, _ *fusefs.Inode, to fusefs.FileHandle, toOff, size, flags uint64) (uint32, syscall.Errno) {
	src, ok1 := from.(*fileHandle)
	dst, ok2 := to.(*fileHandle)
	if !ok1 || !ok2 {
		return 0, syscall.EOPNOTSUPP
	}
	const most = 1 << 30 // the reply has 32 bits, and an interrupt must get through
	var copied int
	err := dst.write(ctx, func(toFD int) error {
		return src.desc.use(func(fromFD int) (err error) {
			in, out := int64(fromOff), int64(toOff)
			copied, err = unix.CopyFileRange(fromFD, &in, toFD, &out, int(min(size, most)), int(flags))
			return err
		})
	})
	return uint32(max(copied, 0)), errno(err)
}
