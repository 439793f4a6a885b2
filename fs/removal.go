package fs

import (
	"context"
	"errors"
	"syscall"

	"github.com/lockfs/lockfs/fs/gate"
	"github.com/lockfs/lockfs/lock"
)

// removal is an operation in the directory from that removes or replaces the
// directory to/name, if there is one.
//
// Such a directory may be locked: then it is not empty on the server though it
// looks so here, and its lock must be had to remove it.
type removal struct {
	from, to *dirNode
	name     string
}

// removalTries bounds how often a directory that is being removed may get
// another lock in between.
const removalTries = 4

// run runs f as the caller, in the directory from, under from's lock and to's.
// If f fails because to/name holds a lock, though nothing else, that lock is
// taken as well, and vacated, and f is run again.
func (r removal) run(ctx context.Context, c caller, f func(fd int, ls *locks) error) syscall.Errno {
	victim := r.to.subdirectory(r.name)
	// A thread that was sent around for the victim's lock as well comes back
	// to ask for all of them at once.
	with := victim != nil && victim.inTheWay.Load()
	for range removalTries {
		dirs := []*dirNode{r.from}
		if r.to != r.from {
			dirs = append(dirs, r.to)
		}
		if with {
			dirs = append(dirs, victim)
		}
		no, blocked := r.under(ctx, &c, dirs, victim, f)
		if !blocked {
			return no
		}
		with = true
		victim.inTheWay.Store(true)
	}
	return syscall.ENOTEMPTY
}

// under runs f under the locks of dirs. blocked reports that it failed because
// of the victim's lock, which is another job's.
func (r removal) under(ctx context.Context, c *caller, dirs []*dirNode, victim *dirNode, f func(fd int, ls *locks) error) (no syscall.Errno, blocked bool) {
	ls, no := r.from.tree.lockAll(ctx, c, dirs)
	if no != 0 {
		return no, false
	}
	defer ls.release()
	r.from.tree.changing(r.from, r.to)
	defer r.from.tree.altered(r.from, r.to)
	run := func() (no syscall.Errno, inTheWay bool) {
		if h := ls.of(victim); h != nil && victim.looksEmpty(*c) {
			if no := victim.vacate(ctx, *c, h); no != 0 {
				return no, false
			}
		}
		no = r.from.as(*c, func(fd int) error { return f(fd, ls) })
		notEmpty := no == syscall.ENOTEMPTY || no == syscall.EEXIST
		return no, notEmpty && victim != nil && victim.looksEmpty(*c)
	}
	no, inTheWay := run()
	if inTheWay && ls.of(victim) == nil {
		// Mostly it is the caller's own, from what it has just done there.
		switch no := r.from.tree.lockMore(ctx, *c, ls, victim); no {
		case 0:
			no, inTheWay = run()
			return no, inTheWay
		case syscall.EAGAIN:
			return no, true
		default:
			return no, false
		}
	}
	return no, inTheWay
}

// vacate takes the lock of h, which is the directory's, out of it.
func (n *dirNode) vacate(ctx context.Context, c caller, h *lock.Hold) syscall.Errno {
	patient, end := gate.Patience(ctx, c.TID)
	defer end()
	return errno(causeOf(patient, n.tree.locks.Vacate(patient, h)))
}

// looksEmpty reports whether nothing is in the directory that isn't lockfs's.
// What can't be read does not look empty.
func (n *dirNode) looksEmpty(c caller) bool {
	var names []string
	err := n.use(func(fd int) error {
		d, err := lock.OpenDir(fd, c.Cred)
		if err != nil {
			return err
		}
		names, err = d.List("")
		return errors.Join(err, d.Close())
	})
	if err != nil {
		return false
	}
	for _, name := range names {
		if !reserved(name) {
			return false
		}
	}
	return true
}

// locks are holds of the locks of several directories.
type locks struct {
	dirs  []*dirNode
	holds []*lock.Hold
}

// of returns the hold of the directory's lock, or nil.
func (ls *locks) of(n *dirNode) *lock.Hold {
	for i, d := range ls.dirs {
		if d == n {
			return ls.holds[i]
		}
	}
	return nil
}

func (ls *locks) add(n *dirNode, h *lock.Hold) {
	ls.dirs, ls.holds = append(ls.dirs, n), append(ls.holds, h)
}

func (ls *locks) release() {
	for _, h := range ls.holds {
		h.Release()
	}
}

// lockAll takes the locks of up to three different directories, or none. The
// third, whose turn comes only when the other two are held, is never waited
// for: EBUSY.
func (t *tree) lockAll(ctx context.Context, c *caller, dirs []*dirNode) (*locks, syscall.Errno) {
	ls := &locks{}
	if len(dirs) == 1 {
		h, no := t.gate.Alter(ctx, &c.Caller, dirs[0])
		if no == 0 {
			ls.add(dirs[0], h)
		}
		return ls, t.sent(no, dirs[0])
	}
	a, b, no := t.gate.AlterBoth(ctx, &c.Caller, dirs[0], dirs[1])
	if no != 0 {
		return ls, t.sent(no, dirs[:2]...)
	}
	ls.add(dirs[0], a)
	ls.add(dirs[1], b)
	for _, d := range dirs[2:] {
		if no := t.lockMore(ctx, *c, ls, d); no != 0 {
			ls.release()
			if no == syscall.EAGAIN {
				no = syscall.EBUSY
			}
			return ls, no
		}
	}
	return ls, 0
}

// lockMore takes another lock while those of ls are held, and so without a
// wait: EAGAIN.
func (t *tree) lockMore(ctx context.Context, c caller, ls *locks, n *dirNode) syscall.Errno {
	c.NonBlock = true
	h, no := t.gate.Open(ctx, c.Caller, n)
	if no == 0 {
		ls.add(n, h)
	}
	return no
}
