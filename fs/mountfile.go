package fs

import (
	"context"
	"encoding/json"
	"syscall"
	"time"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/lock"
)

// MountFile is the name of a file in the root directory of a mount that is
// hidden like all names of lockfs, and tells the MountStatus as JSON to whoever
// may know what all users do: root, and the user whose mount it is. No request
// is made to the file server for it.
const MountFile = lock.Reserved + ".mount"

// MountStatus is what a mount's daemon knows of its locks by itself.
type MountStatus struct {
	// Source and Mount are the tree and where it is mounted.
	Source string `json:"source"`
	Mount  string `json:"mount"`
	// Host and PID are the daemon's, since when it serves.
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
	// Locks are all that the mount holds or waits for.
	Locks []lock.LocalStatus `json:"locks"`
}

// mountNode is the file MountFile.
type mountNode struct {
	fusefs.Inode
	tree *tree
}

// lookupMountFile finds the file, which is in the root directory only.
func (n *dirNode) lookupMountFile(ctx context.Context, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	if n != n.tree.root {
		return nil, syscall.ENOENT
	}
	m := &mountNode{tree: n.tree}
	m.attributes(&out.Attr)
	return n.NewInode(ctx, m, fusefs.StableAttr{Mode: unix.S_IFREG, Ino: m.ino(), Gen: n.id.Gen}), 0
}

// ino is a number that no file of the server's is likely to have: the first
// after that of the root's virtual file.
func (m *mountNode) ino() uint64 { return (&virtualNode{dir: m.tree.root}).id().Ino + 1 }

// attributes are those of a file that its owner alone may read, whose size is
// not known before.
func (m *mountNode) attributes(out *fuse.Attr) {
	*out = fuse.Attr{
		Ino: m.ino(), Mode: unix.S_IFREG | 0o400, Nlink: 1,
		Owner: fuse.Owner{Uid: uint32(unix.Geteuid()), Gid: uint32(unix.Getegid())},
	}
	now := time.Now()
	out.SetTimes(&now, &now, &now)
}

// Getattr reads the file's attributes.
func (m *mountNode) Getattr(_ context.Context, _ fusefs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	m.attributes(&out.Attr)
	return 0
}

// Setattr is refused: the file is nobody's to change.
func (m *mountNode) Setattr(context.Context, fusefs.FileHandle, *fuse.SetAttrIn, *fuse.AttrOut) syscall.Errno {
	return syscall.EPERM
}

// Open returns what was so when the file was opened.
func (m *mountNode) Open(_ context.Context, flags uint32) (fusefs.FileHandle, uint32, syscall.Errno) {
	if mayWrite(flags) {
		return nil, 0, syscall.EPERM
	}
	text, err := json.MarshalIndent(m.status(), "", "  ")
	if err != nil {
		return nil, 0, errno(err)
	}
	h := &virtualHandle{tree: m.tree, text: append(text, '\n'), end: func() {}}
	m.tree.opened(h)
	return h, fuse.FOPEN_DIRECT_IO, 0
}

func (m *mountNode) status() MountStatus {
	id := m.tree.self.ID()
	return MountStatus{
		Source: m.tree.source, Mount: m.tree.target, Host: id.Host, PID: id.PID, Since: m.tree.began,
		Locks: m.tree.locks.Status(),
	}
}
