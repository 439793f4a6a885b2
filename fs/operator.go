package fs

import (
	"encoding/json"
	"syscall"

	"github.com/lockfs/lockfs/lock"
)

// operate acts on the directory's lock for an operator, who has set one of the
// attributes that are lockfs's own. Another of these is nobody's to set.
func (n *dirNode) operate(c caller, attr string, data []byte) syscall.Errno {
	var err error
	switch attr {
	case lock.RecoverXattr:
		err = n.recoverDead(c)
	case lock.BreakXattr:
		err = n.breakLock(c, data)
	default:
		err = syscall.EPERM
	}
	return errno(err)
}

// recoverDead frees the directory's lock if its holder is dead, as a look at
// the directory by anybody does too, and so with this process's rights.
func (n *dirNode) recoverDead(c caller) error {
	s, err := n.status(c)
	if err != nil {
		return err
	}
	d, err := n.Place(c.Cred).Open()
	if err != nil {
		return err
	}
	defer d.Close() // of a directory: it has nothing to fail with
	freed, err := lock.Recover(d, n.tree.self)
	if freed {
		n.tree.events(lock.Event{Kind: lock.EventRecovered, Path: n.path(), Cause: n.operator(c), Holder: s.Record, Reason: s.Reason})
	}
	return err
}

// breakLock breaks the directory's lock. What the operator may not do in the
// tree itself he may not do here: all of it is done as him. Root has, as in the
// tree, the rights of the lock's owner too.
func (n *dirNode) breakLock(c caller, data []byte) error {
	var r lock.BreakRequest
	if err := json.Unmarshal(data, &r); err != nil {
		return syscall.EINVAL
	}
	open := lock.OpenDirAs
	if c.Cred.UID == 0 {
		open = lock.OpenDir
	}
	var d lock.Dir
	if no := n.as(c, func(fd int) (err error) {
		d, err = open(fd, c.Cred)
		return err
	}); no != 0 {
		return no
	}
	defer d.Close() // of a directory: it has nothing to fail with
	if err := lock.Break(d, n.path(), r.Record, n.tree.self, r.Force); err != nil {
		return err
	}
	n.tree.events(lock.Event{Kind: lock.EventBroken, Path: n.path(), Cause: n.operator(c), Holder: r.Record})
	return nil
}

// operator says who asked.
func (n *dirNode) operator(c caller) lock.Cause { return n.tree.gate.Cause(c.Caller) }
