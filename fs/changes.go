package fs

import (
	"sync/atomic"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
)

// changes counts changes of files' data, each when it was made. Some files share
// a counter: who finds it as it was knows that his file wasn't changed. It is not
// the node's, since go-fuse drops a node that was made for a file it has one of
// already, and the handles with it go on.
type changes [256]atomic.Uint64

// of is the counter of the file.
func (c *changes) of(id fusefs.StableAttr) *atomic.Uint64 { return &c[id.Ino%uint64(len(c))] }
