package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// unfitNode is of a file system that shows a directory, but for one thing that
// the locks rest on: kind says which.
type unfitNode struct {
	fusefs.LoopbackNode
	kind string
}

// clientUnfit serves the directory args[1] at args[2] as a file system that
// lacks what args[0] names, until it is killed.
func clientUnfit(args []string) error {
	root := &fusefs.LoopbackRoot{Path: args[1]}
	node := &unfitNode{fusefs.LoopbackNode{RootData: root}, args[0]}
	root.RootNode = node
	server, err := fusefs.Mount(args[2], node, &fusefs.Options{
		MountOptions: fuse.MountOptions{Name: "unfit", FsName: args[0], DirectMountStrict: true, AllowOther: true},
	})
	if err != nil {
		return err
	}
	fmt.Println("up")
	server.Wait()
	return nil
}

// at is where the node's child of that name is.
func (n *unfitNode) at(name string) string {
	return filepath.Join(n.RootData.Path, n.Path(nil), name)
}

// WrapChild makes each child one of this file system.
func (n *unfitNode) WrapChild(context.Context, fusefs.InodeEmbedder) fusefs.InodeEmbedder {
	return &unfitNode{fusefs.LoopbackNode{RootData: n.RootData}, n.kind}
}

// Lookup does not find a directory that is to be made twice.
func (n *unfitNode) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	if n.kind == "mkdir" && strings.HasPrefix(name, ".lockfs.") {
		return nil, syscall.ENOENT
	}
	return n.LoopbackNode.Lookup(ctx, name, out)
}

// Mkdir makes a directory twice, or none.
func (n *unfitNode) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	switch n.kind {
	case "mkdir":
		os.Remove(n.at(name)) // so that it can be made again
	case "readonly":
		return nil, syscall.EROFS
	}
	return n.LoopbackNode.Mkdir(ctx, name, mode, out)
}

// Symlink makes no link, or none with a long name.
func (n *unfitNode) Symlink(ctx context.Context, target, name string, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	switch {
	case n.kind == "symlink":
		return nil, syscall.EPERM
	case n.kind == "names" && len(name) > 250:
		return nil, syscall.ENAMETOOLONG
	case n.kind == "targets":
		target = target[:min(len(target), 100)]
	}
	return n.LoopbackNode.Symlink(ctx, target, name, out)
}

// OpendirHandle opens what shows nothing of the locks.
func (n *unfitNode) OpendirHandle(ctx context.Context, flags uint32) (fusefs.FileHandle, uint32, syscall.Errno) {
	if n.kind == "listing" && n.Path(nil) != "" {
		return emptyDir{}, 0, 0
	}
	return n.LoopbackNode.OpendirHandle(ctx, flags)
}

// Rename replaces a directory with all that is in it, or not even an empty
// one, or leaves the old name of a link behind.
func (n *unfitNode) Rename(ctx context.Context, name string, newParent fusefs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	to := filepath.Join(n.RootData.Path, newParent.EmbeddedInode().Path(nil), newName)
	st, err := os.Lstat(to)
	isDir := err == nil && st.IsDir()
	switch {
	case n.kind == "replace" && isDir:
		os.RemoveAll(to)
	case n.kind == "empty" && isDir:
		return syscall.EEXIST
	case n.kind == "swap":
		if target, err := os.Readlink(n.at(name)); err == nil {
			return fusefs.ToErrno(os.Symlink(target, to))
		}
	}
	return n.LoopbackNode.Rename(ctx, name, newParent, newName, flags)
}

// emptyDir is an open directory without a name in it.
type emptyDir struct{}

func (emptyDir) Readdirent(context.Context) (*fuse.DirEntry, syscall.Errno) { return nil, 0 }
