package fs

import (
	"container/list"
	"sync"

	"golang.org/x/sys/unix"
)

// The kernel knows directories for as long as it has memory, and so hundreds of
// thousands of them. Those that have not been used for longest have no
// descriptor; when they are used again they are looked for where they were, and
// are the same or ESTALE.

// use calls f with a descriptor of the directory.
func (n *dirNode) use(f func(fd int) error) error {
	d, err := n.acquire()
	if err != nil {
		return err
	}
	defer d.release()
	return f(d.fd)
}

// acquire returns a descriptor of the directory, which the caller releases:
// ENOTCONN if the mount has ended or the kernel has forgotten the directory,
// ESTALE if it had no descriptor and is no longer where it was.
func (n *dirNode) acquire() (*descriptor, error) {
	d, err := n.acquireOpen()
	if d == nil && err == nil {
		d, err = n.reopen()
	}
	if err == nil {
		n.tree.idle.used(n)
	}
	return d, err
}

// acquireOpen is acquire if there is a descriptor, and else returns nil.
func (n *dirNode) acquireOpen() (*descriptor, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.gone:
		return nil, unix.ENOTCONN
	case n.desc == nil:
		return nil, nil
	}
	n.desc.acquire() // it is open: who closes it takes it away from here first
	return n.desc, nil
}

// reopen is acquire if there is no descriptor.
func (n *dirNode) reopen() (*descriptor, error) {
	name, parent := n.Parent()
	if parent == nil {
		return nil, unix.ESTALE // it has been removed
	}
	dir, ok := parent.Operations().(*dirNode)
	if !ok {
		return nil, unix.ESTALE
	}
	var f found
	err := dir.use(func(fd int) (err error) {
		f, err = look(fd, name)
		return err
	})
	if err == unix.ENOENT {
		return nil, unix.ESTALE
	}
	if err != nil {
		return nil, err
	}
	mine := newDescriptor(f.fd)
	if f.id != n.id {
		mine.close()
		return nil, unix.ESTALE
	}
	n.mu.Lock()
	if !n.gone && n.desc == nil {
		n.desc, mine = mine, nil
	}
	n.mu.Unlock()
	if mine != nil {
		mine.close() // another was quicker
	}
	return n.acquireOpen()
}

// idle closes the descriptor until the directory is used again. Who uses it
// now keeps it.
func (n *dirNode) idle() {
	n.mu.Lock()
	d := n.desc
	n.desc = nil
	n.mu.Unlock()
	if d != nil {
		d.close()
	}
}

// end closes the descriptor for good.
func (n *dirNode) end() {
	n.mu.Lock()
	n.gone = true
	n.mu.Unlock()
	n.tree.idle.remove(n)
	n.tree.forgetCtime(n)
	n.idle()
}

// idleDirs knows in which order directories with a descriptor were last used.
type idleDirs struct {
	most int // how many may have one

	mu    sync.Mutex
	order list.List // of *dirNode, the last used first
	at    map[*dirNode]*list.Element
}

// mostDirs is how many directories have a descriptor, if the process may have
// many more.
const mostDirs = 4096

// newIdleDirs leaves most of the descriptors that the process may have to files
// and locks.
func newIdleDirs() *idleDirs {
	most := mostDirs
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		most = int(min(mostDirs, limit.Cur/4))
	}
	return &idleDirs{most: most, at: map[*dirNode]*list.Element{}}
}

// used makes n the last used.
func (i *idleDirs) used(n *dirNode) {
	if n == n.tree.root {
		return // nothing leads to it
	}
	var longest []*dirNode
	i.mu.Lock()
	if e := i.at[n]; e != nil {
		i.order.MoveToFront(e)
	} else {
		i.at[n] = i.order.PushFront(n)
	}
	for i.order.Len() > i.most {
		last := i.order.Back().Value.(*dirNode)
		i.drop(last)
		longest = append(longest, last)
	}
	i.mu.Unlock()
	for _, n := range longest {
		n.idle()
	}
}

// remove forgets n.
func (i *idleDirs) remove(n *dirNode) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.drop(n)
}

// drop is remove. i.mu is held.
func (i *idleDirs) drop(n *dirNode) {
	if e := i.at[n]; e != nil {
		i.order.Remove(e)
		delete(i.at, n)
	}
}
