package fs

import (
	"context"
	"sync"
	"syscall"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// stream is go-fuse's reader of an open directory.
type stream interface {
	fusefs.FileReaddirenter
	fusefs.FileSeekdirer
	fusefs.FileFsyncdirer
	fusefs.FileReleasedirer
}

// dirHandle is an open directory: what is in it, without lockfs's own.
type dirHandle struct {
	stream
	dir  *dirNode
	once sync.Once
}

// OpendirHandle opens the directory for reading.
func (n *dirNode) OpendirHandle(ctx context.Context, _ uint32) (fusefs.FileHandle, uint32, syscall.Errno) {
	h := &dirHandle{dir: n}
	no := n.as(callerOf(ctx), func(fd int) error {
		if err := n.tree.room(); err != nil {
			return err
		}
		own, err := again(func() (int, error) {
			// Not by ".", which needs the right to search the directory as well.
			return unix.Open(procPath(fd), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		})
		if err != nil {
			return err
		}
		s, no := fusefs.NewLoopbackDirStreamFd(own)
		if no != 0 {
			unix.Close(own)
			return no
		}
		h.stream = s.(stream)
		return nil
	})
	if no != 0 {
		return nil, 0, no
	}
	n.tree.opened(h)
	return h, 0, 0
}

func (h *dirHandle) close() {
	h.once.Do(func() {
		h.stream.Releasedir(context.Background(), 0)
		h.dir.tree.closed(h)
	})
}

// Releasedir is called when the last user of the handle is gone.
func (h *dirHandle) Releasedir(context.Context, uint32) { h.close() }

// Readdirent returns the next entry.
func (h *dirHandle) Readdirent(ctx context.Context) (*fuse.DirEntry, syscall.Errno) {
	for {
		e, no := h.stream.Readdirent(ctx)
		if e == nil || no != 0 || !reserved(e.Name) {
			return e, no
		}
		h.dir.tree.locks.Seen(h.dir.Place(callerOf(ctx).Cred), e.Name)
	}
}
