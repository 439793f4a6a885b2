package lock

import (
	"fmt"
	"syscall"
)

// The explorer's file system: a directory as two levels of names, small enough
// to be copied for every step. A name is a token, so that records can be
// renumbered when a state is hashed.

// kind is what a name is, by its form.
type kind uint8

const (
	noName  kind = iota // the directory itself
	nLock               // .lockfs
	nCand               // .lockfs.<record>
	nBeside             // .lockfs.r.<record>
	nRec                // <record>
	nJunk               // a foreign name
	nSilly              // .nfs...
	nOther              // stands for any name whose form does not matter
)

// rid numbers a record: within a state, or (as a slot) within what one process
// knows.
type rid uint8

type tok struct {
	kind kind
	rec  rid
}

func (t tok) bears() bool { return t.kind == nCand || t.kind == nBeside || t.kind == nRec }

const (
	maxKids = 6
	maxEnts = 20
)

// ent is an entry of the directory, with its own entries if it is one.
type ent struct {
	name tok
	file bool
	// owner is the user whose it is, and all that is in it.
	owner uint8
	n     uint8
	kids  [maxKids]tok
}

func (e *ent) find(t tok) int {
	for i := range int(e.n) {
		if e.kids[i] == t {
			return i
		}
	}
	return -1
}

func (e *ent) add(t tok) {
	if e.n == maxKids {
		panic("a directory of the explorer is full")
	}
	e.kids[e.n] = t
	e.n++
}

func (e *ent) del(i int) {
	e.n--
	e.kids[i] = e.kids[e.n]
	e.kids[e.n] = tok{}
}

type tree struct {
	n    uint8
	ents [maxEnts]ent
}

func (t *tree) find(name tok) int {
	for i := range int(t.n) {
		if t.ents[i].name == name {
			return i
		}
	}
	return -1
}

func (t *tree) lock() *ent {
	if i := t.find(tok{kind: nLock}); i >= 0 {
		return &t.ents[i]
	}
	return nil
}

func (t *tree) add(e ent) {
	if t.n == maxEnts {
		panic("the explorer's directory is full")
	}
	t.ents[t.n] = e
	t.n++
}

func (t *tree) del(i int) {
	t.n--
	t.ents[i] = t.ents[t.n]
	t.ents[t.n] = ent{}
}

// op is a call of Dir, or the question whether a holder is alive.
type op uint8

const (
	cMkdir op = iota
	cSymlink
	cRename
	cUnlink
	cRmdir
	cList
	cRefresh
	cReadlink
	cMode
	cSync
	cJudge
)

var opNames = [...]string{"mkdir", "symlink", "rename", "unlink", "rmdir", "list", "refresh", "readlink", "mode", "sync", "judge"}

func (o op) String() string { return opNames[o] }

// changes reports whether the call may change the directory.
func (o op) changes() bool { return o <= cRmdir }

// local reports whether the call neither changes nor reads what others share.
func (o op) local() bool { return o >= cRefresh && o <= cSync }

// path is a name of one or two components, or of none.
type path struct{ top, sub tok }

type call struct {
	op   op
	a, b path
	// in is the function of this package that made the call.
	in string
}

// fsKind says how the file system differs from Linux's own.
type fsKind struct {
	// exist: EEXIST where others say ENOTEMPTY.
	exist bool
	// noReplace: rename does not replace an empty directory (what os.Rename
	// does everywhere).
	noReplace bool
	// sticky: what stands in the directory, and below it, is removed by its
	// owner only. The lock directory's mode follows it.
	sticky bool
	// fixed: no call is made as another user than the process's own, as by
	// the daemon of an ordinary user.
	fixed bool
}

// forbids reports whether the user may not remove the entry, or from it.
func (k fsKind) forbids(e *ent, user uint8) bool { return k.sticky && e.owner != user }

func (k fsKind) notEmpty() syscall.Errno {
	if k.exist {
		return syscall.EEXIST
	}
	return syscall.ENOTEMPTY
}

// apply carries out a call of the user's, and like osDir once more as the owner
// of what it is about.
func (t *tree) apply(c call, k fsKind, user uint8) syscall.Errno {
	err := t.applyAs(c, k, user)
	if i := t.find(c.a.top); err == syscall.EPERM && !k.fixed && i >= 0 {
		err = t.applyAs(c, k, t.ents[i].owner)
	}
	return err
}

// applyAs carries out a call of the user's. Like Linux it asks whether a name
// is there, then whether he may remove it, and then whether it is empty.
func (t *tree) applyAs(c call, k fsKind, user uint8) syscall.Errno {
	switch c.op {
	case cMkdir:
		if t.find(c.a.top) >= 0 {
			return syscall.EEXIST
		}
		t.add(ent{name: c.a.top, owner: user})
	case cSymlink:
		if c.a.sub.kind == noName {
			if t.find(c.a.top) >= 0 {
				return syscall.EEXIST
			}
			t.add(ent{name: c.a.top, file: true, owner: user})
			return 0
		}
		d, err := t.dir(c.a.top)
		if err != 0 {
			return err
		}
		if d.find(c.a.sub) >= 0 {
			return syscall.EEXIST
		}
		d.add(c.a.sub)
	case cRename:
		return t.rename(c.a, c.b, k, user)
	case cUnlink:
		if c.a.sub.kind == noName {
			i := t.find(c.a.top)
			switch {
			case i < 0:
				return syscall.ENOENT
			case k.forbids(&t.ents[i], user):
				return syscall.EPERM
			case !t.ents[i].file:
				return syscall.EISDIR
			}
			t.del(i)
			return 0
		}
		d, err := t.dir(c.a.top)
		if err != 0 {
			return err
		}
		i := d.find(c.a.sub)
		switch {
		case i < 0:
			return syscall.ENOENT
		case k.forbids(d, user):
			return syscall.EPERM
		}
		d.del(i)
	case cRmdir:
		i := t.find(c.a.top)
		switch {
		case c.a.sub.kind != noName:
			panic("rmdir below a subdirectory")
		case i < 0:
			return syscall.ENOENT
		case k.forbids(&t.ents[i], user):
			return syscall.EPERM
		case t.ents[i].file:
			return syscall.ENOTDIR
		case t.ents[i].n > 0:
			return k.notEmpty()
		}
		t.del(i)
	default:
		panic("no change: " + c.op.String())
	}
	return 0
}

// dir returns the subdirectory.
func (t *tree) dir(name tok) (*ent, syscall.Errno) {
	i := t.find(name)
	switch {
	case i < 0:
		return nil, syscall.ENOENT
	case t.ents[i].file:
		return nil, syscall.ENOTDIR
	}
	return &t.ents[i], 0
}

func (t *tree) rename(a, b path, k fsKind, user uint8) syscall.Errno {
	switch {
	case a.sub.kind == noName && b.sub.kind == noName:
		i, j := t.find(a.top), t.find(b.top)
		switch {
		case i < 0:
			return syscall.ENOENT
		case k.forbids(&t.ents[i], user) || j >= 0 && k.forbids(&t.ents[j], user):
			return syscall.EPERM
		case i == j:
			return 0
		case j >= 0 && !t.ents[i].file && t.ents[j].file:
			return syscall.ENOTDIR
		case j >= 0 && t.ents[i].file && !t.ents[j].file:
			return syscall.EISDIR
		case j >= 0 && t.ents[j].n > 0:
			return k.notEmpty()
		case j >= 0 && !t.ents[j].file && k.noReplace:
			return syscall.EEXIST
		}
		t.ents[i].name = b.top
		if j >= 0 {
			t.del(j)
		}
	case a.sub.kind == noName:
		i := t.find(a.top)
		d, err := t.dir(b.top)
		switch {
		case i < 0:
			return syscall.ENOENT
		case err != 0:
			return err
		case k.forbids(&t.ents[i], user):
			return syscall.EPERM
		case !t.ents[i].file:
			panic(fmt.Sprintf("rename of a directory to %v", b))
		}
		if d.find(b.sub) < 0 {
			d.add(b.sub)
		}
		t.del(i)
	case b.sub.kind == noName:
		panic("rename out of a subdirectory")
	default:
		from, err := t.dir(a.top)
		if err != 0 {
			return err
		}
		to, err := t.dir(b.top)
		if err != 0 {
			return err
		}
		i := from.find(a.sub)
		switch {
		case i < 0:
			return syscall.ENOENT
		case k.forbids(from, user):
			return syscall.EPERM
		case from == to && a.sub == b.sub:
			return 0
		}
		from.del(i)
		if to.find(b.sub) < 0 {
			to.add(b.sub)
		}
	}
	return 0
}

// list returns the names in the subdirectory, or those in the directory.
func (t *tree) list(name tok) ([]tok, syscall.Errno) {
	var names []tok
	if name.kind == noName {
		for i := range int(t.n) {
			names = append(names, t.ents[i].name)
		}
		return names, 0
	}
	d, err := t.dir(name)
	if err != 0 {
		return nil, err
	}
	return append(names, d.kids[:d.n]...), 0
}
