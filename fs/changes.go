package fs

import "sync/atomic"

// changes counts changes of files, or of directories. Some share a counter: who
// finds it as it was knows that his wasn't changed. It is not the node's, since
// go-fuse drops a node that was made for a file it has one of already, and the
// handles with it go on.
type changes [256]atomic.Uint64

// at is the counter of what has that inode number.
func (c *changes) at(ino uint64) *atomic.Uint64 { return &c[ino%uint64(len(c))] }
