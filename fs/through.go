package fs

import (
	"sync"
	"syscall"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// through are the files that the kernel reads by itself, from the file
// underneath ("passthrough", Linux 6.9), on a mount that is read-only: no
// request comes here for what is read.
//
// On a mount that may be written to there are none. A file that one program
// reads so can't be opened for writing as the same inode (fuse_file_io_open in
// fs/fuse/iomode.c), and as another inode it would have other locks of flock(2)
// and fcntl(2), and would not see at once what is stored in a mapping. Nor may a
// file be written so: that would outlive the daemon, and with it the lock.
type through struct {
	mu sync.Mutex
	// on: files are opened so. It goes off for good when that fails, or a file is
	// to be written.
	on bool
	// files are those that are open so, with all of their handles.
	files map[fusefs.StableAttr]*openThrough
}

// openThrough is an open file.
type openThrough struct {
	id      int32 // what the kernel knows the file underneath by
	handles int
}

// mostThrough is the largest id that fits beside the flags of an open.
const mostThrough = 1<<(32-throughShift) - 1

// throughShift is where the id travels in the flags that an Open returns, which
// need eight bits; go-fuse hands them on as they are, and has no place for it.
const throughShift = 16

func joinThrough(flags uint32, id int32) uint32 {
	return flags | fuse.FOPEN_PASSTHROUGH | uint32(id)<<throughShift
}

// splitThrough takes apart what joinThrough has put together.
func splitThrough(joined uint32) (flags uint32, id int32) {
	return joined & (1<<throughShift - 1), int32(joined >> throughShift)
}

// open notes a new handle of the file, which register tells the kernel of; it is
// not called for one that is open so already. Nil if the file is not to be opened
// so. The caller calls close for the handle.
func (t *through) open(file fusefs.StableAttr, register func() (int32, syscall.Errno)) (*openThrough, syscall.Errno) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.files[file]
	if o == nil {
		if !t.on {
			return nil, 0
		}
		id, no := register()
		if no != 0 {
			t.on = false
			return nil, no
		}
		o = &openThrough{id: id}
		if t.files == nil {
			t.files = map[fusefs.StableAttr]*openThrough{}
		}
		t.files[file] = o
	}
	o.handles++
	return o, 0
}

// close notes the end of a handle of the file, and has the kernel forget it with
// the last.
func (t *through) close(file fusefs.StableAttr, unregister func(id int32) syscall.Errno) syscall.Errno {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.files[file]
	if o.handles--; o.handles > 0 {
		return 0
	}
	delete(t.files, file)
	return unregister(o.id)
}

// end is for a mount on which the file is to be written: no more files are opened
// so. ETXTBSY if this one is.
func (t *through) end(file fusefs.StableAttr) syscall.Errno {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on = false
	if t.files[file] != nil {
		return syscall.ETXTBSY
	}
	return 0
}

// readThrough has the kernel read the file of a handle that only reads by itself,
// as the caller, if it may. It returns the flags of the answer.
func (t *tree) readThrough(c caller, h *fileHandle) uint32 {
	o, no := t.through.open(h.id, func() (id int32, no syscall.Errno) {
		if denied := c.do(func() error {
			id, no = t.server.RegisterBackingFd(&fuse.BackingMap{Fd: int32(h.desc.fd)})
			return nil
		}); denied != 0 {
			return 0, denied
		}
		if no == 0 && id > mostThrough {
			t.server.UnregisterBackingFd(id)
			no = unix.EMFILE
		}
		return id, no
	})
	if no != 0 {
		t.log.WithError(no).Info("the kernel can't read files of this tree by itself: each is read through this process")
	}
	if o == nil {
		return 0
	}
	h.through = true
	return joinThrough(0, o.id)
}

// readThroughEnds is for a handle that was opened by readThrough.
func (t *tree) readThroughEnds(h *fileHandle) {
	if no := t.through.close(h.id, t.server.UnregisterBackingFd); no != 0 {
		t.log.WithError(no).Warn("the kernel keeps a file open that was read")
	}
}
