package fs

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/fs/gate"
	"github.com/lockfs/lockfs/internal/cred"
	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// caller is who made a request.
type caller struct{ gate.Caller }

// callerOf returns who made the request of ctx. A caller who can't be seen has
// no supplementary groups, so at worst he is refused what he may do.
func callerOf(ctx context.Context) caller {
	var c caller
	from, ok := fuse.FromContext(ctx)
	if !ok {
		c.Cred = cred.Own()
		return c
	}
	c.TID = int(from.Pid)
	c.Cred = cred.Cred{UID: from.Uid, GID: from.Gid}
	if from.Uid != 0 && cred.Switchable() {
		v := procid.Look(c.TID)
		c.View = &v
		// The error is that he can't be seen.
		c.Cred.Groups, _ = v.Groups()
	}
	return c
}

// do runs f as the caller.
func (c caller) do(f func() error) syscall.Errno {
	var err error
	c.Cred.Do(func() { err = f() })
	return errno(err)
}

// unrepeated returns the caller, with Once set if its system call names a
// descriptor and no path: the kernel does not repeat those after ESTALE. Where
// that can't be seen it names a path, as nearly all do.
func (c caller) unrepeated() *gate.Caller {
	call, err := procid.CallOf(c.TID)
	if err != nil {
		return &c.Caller
	}
	const path = 1 // the argument of utimensat(2), which futimens(3) leaves null
	c.Once = byDescriptor[call.Number] || call.Number == unix.SYS_UTIMENSAT && call.Args[path] == 0
	return &c.Caller
}

// inChown reports whether the caller is in a chown(2).
func (c caller) inChown() bool {
	call, err := procid.CallOf(c.TID)
	return err == nil && slices.Contains(chowns, call.Number)
}

// actsByName reports whether the caller does something with a name in a
// directory, and so wants to know of the directory only what he may do there.
func (c caller) actsByName() bool {
	call, err := procid.CallOf(c.TID)
	return err == nil && byName[call.Number]
}

// byDescriptor are the system calls that change a file's attributes and always
// name it by a descriptor.
var byDescriptor = map[int]bool{
	unix.SYS_FCHMOD:       true,
	unix.SYS_FCHOWN:       true,
	unix.SYS_FTRUNCATE:    true,
	unix.SYS_FSETXATTR:    true,
	unix.SYS_FREMOVEXATTR: true,
}

// errno returns what the kernel is told of an error.
func errno(err error) syscall.Errno { return lock.Errno(err) }

// causeOf returns err, or why ctx has ended if that is what err says.
func causeOf(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}
	return err
}
