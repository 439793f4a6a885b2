package integration

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// faultyNode is of a file system that shows a directory, and fails when it is
// told to: a file in the directory faults that is called as an operation and
// has an error's number in it makes the next such operation fail, and is
// removed by it.
type faultyNode struct {
	fusefs.LoopbackNode
	faults string
}

// clientFaulty serves the directory args[0] at args[1] and takes faults from the
// directory args[2], until it is killed.
func clientFaulty(args []string) error {
	root := &fusefs.LoopbackRoot{Path: args[0]}
	node := &faultyNode{fusefs.LoopbackNode{RootData: root}, args[2]}
	root.RootNode = node
	server, err := fusefs.Mount(args[1], node, &fusefs.Options{
		MountOptions: fuse.MountOptions{
			Name: "faulty", FsName: "faulty", DirectMountStrict: true, AllowOther: true,
			DisabledCapabilities: fuse.CAP_PASSTHROUGH, // which would write past this
		},
	})
	if err != nil {
		return err
	}
	fmt.Println("up")
	server.Wait()
	return nil
}

// fault returns the error that the operation is to fail with, if any.
func (n *faultyNode) fault(operation string) syscall.Errno {
	path := filepath.Join(n.faults, operation)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	var no int
	if err == nil {
		_, err = fmt.Sscan(strings.TrimSpace(string(text)), &no)
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		return syscall.ENOTRECOVERABLE // nobody asks for that one
	}
	return syscall.Errno(no)
}

// WrapChild makes each child one of this file system.
func (n *faultyNode) WrapChild(context.Context, fusefs.InodeEmbedder) fusefs.InodeEmbedder {
	return &faultyNode{fusefs.LoopbackNode{RootData: n.RootData}, n.faults}
}

// Create makes a file, and Open opens one, whose handle fails when told to.
func (n *faultyNode) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fusefs.Inode, fusefs.FileHandle, uint32, syscall.Errno) {
	if no := n.fault("create"); no != 0 {
		return nil, nil, 0, no
	}
	inode, h, how, no := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	return inode, newFaultyHandle(h, n), how, no
}

func (n *faultyNode) Open(ctx context.Context, flags uint32) (fusefs.FileHandle, uint32, syscall.Errno) {
	if no := n.fault("open"); no != 0 {
		return nil, 0, no
	}
	h, how, no := n.LoopbackNode.Open(ctx, flags)
	return newFaultyHandle(h, n), how, no
}

// Setattr changes attributes, or fails.
func (n *faultyNode) Setattr(ctx context.Context, h fusefs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if no := n.fault("setattr"); no != 0 {
		return no
	}
	if own, ok := h.(*faultyHandle); ok {
		h = own.FileHandle
	}
	return n.LoopbackNode.Setattr(ctx, h, in, out)
}

// Getattr reads attributes. The handle that comes with it is ours, which the
// node underneath does not know.
func (n *faultyNode) Getattr(ctx context.Context, _ fusefs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return n.LoopbackNode.Getattr(ctx, nil, out)
}

// Unlink removes a file, or fails, if it is none of the locks'.
func (n *faultyNode) Unlink(ctx context.Context, name string) syscall.Errno {
	if !strings.HasPrefix(name, "v1,") {
		if no := n.fault("unlink"); no != 0 {
			return no
		}
	}
	return n.LoopbackNode.Unlink(ctx, name)
}

// Rename renames, or fails, if it is none of the locks'.
func (n *faultyNode) Rename(ctx context.Context, name string, parent fusefs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	if !strings.HasPrefix(newName, ".lockfs") && !strings.HasPrefix(newName, "v1,") {
		if no := n.fault("rename"); no != 0 {
			return no
		}
	}
	return n.LoopbackNode.Rename(ctx, name, parent, newName, flags)
}

// faultyHandle is an open file that fails when told to. The fault "half" makes a
// write write half, whatever its number. A flush fails only if there is something
// to flush.
type faultyHandle struct {
	fusefs.FileHandle
	node  *faultyNode
	dirty atomic.Bool
}

func newFaultyHandle(h fusefs.FileHandle, n *faultyNode) fusefs.FileHandle {
	if h == nil {
		return nil
	}
	return &faultyHandle{FileHandle: h, node: n}
}

func (h *faultyHandle) Read(ctx context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if no := h.node.fault("read"); no != 0 {
		return nil, no
	}
	return h.FileHandle.(fusefs.FileReader).Read(ctx, dest, off)
}

func (h *faultyHandle) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	if no := h.node.fault("write"); no != 0 {
		return 0, no
	}
	if h.node.fault("half") != 0 {
		data = data[:len(data)/2]
	}
	h.dirty.Store(true)
	return h.FileHandle.(fusefs.FileWriter).Write(ctx, data, off)
}

func (h *faultyHandle) Flush(ctx context.Context) syscall.Errno {
	if h.dirty.Swap(false) {
		if no := h.node.fault("flush"); no != 0 {
			return no
		}
	}
	return h.FileHandle.(fusefs.FileFlusher).Flush(ctx)
}

func (h *faultyHandle) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	if no := h.node.fault("fsync"); no != 0 {
		return no
	}
	return h.FileHandle.(fusefs.FileFsyncer).Fsync(ctx, flags)
}

func (h *faultyHandle) Allocate(ctx context.Context, off, size uint64, mode uint32) syscall.Errno {
	if no := h.node.fault("allocate"); no != 0 {
		return no
	}
	return h.FileHandle.(fusefs.FileAllocater).Allocate(ctx, off, size, mode)
}

func (h *faultyHandle) Release(ctx context.Context) syscall.Errno {
	return h.FileHandle.(fusefs.FileReleaser).Release(ctx)
}
