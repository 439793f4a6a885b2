package cred

import (
	"fmt"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Cred is what a file system checks of a caller: file system user, group and
// supplementary groups.
type Cred struct {
	UID, GID uint32
	Groups   []uint32
}

// own is the process's credentials: those every thread has outside of Do.
var own = Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Groups: getGroups()}

// Own returns the process's own credentials.
func Own() Cred { return Cred{UID: own.UID, GID: own.GID, Groups: slices.Clone(own.Groups)} }

// switchable is decided once: a process does not gain these rights later.
var switchable = own.UID == 0 && mayChangeIDs()

// Switchable reports whether Do can become somebody else. A process without
// root's rights, or root without CAP_SETUID and CAP_SETGID as in some
// containers, acts as itself whoever asks.
func Switchable() bool { return switchable }

// Do runs f with c on the calling thread and gives the thread back what it had
// before it returns, or before a panic of f goes on. Where switching is not
// possible (see [Switchable]) or the thread is c's user and group already and
// these are the process's own, f simply runs: root needs no group to be
// allowed a thing, and root_squash takes all of them away. Calls may be nested.
//
// f must stay on its goroutine: what it starts elsewhere runs as the process.
// Do panics if the kernel refuses an id, which for root it does only with one
// that does not exist (-1, or unmapped in a user namespace), or refuses the
// thread its credentials back. In the latter case the thread stays locked to
// its goroutine and ends with it, since a thread of another user must never
// serve the next caller.
func (c Cred) Do(f func()) {
	if !switchable {
		f()
		return
	}
	// New threads are not cloned from a locked one (newm1 in the runtime's
	// proc.go), so none inherits the credentials.
	runtime.LockOSThread()
	uid, gid := fsID(unix.SYS_SETFSUID), fsID(unix.SYS_SETFSGID)
	if c.UID == uid && c.GID == gid && uid == own.UID && gid == own.GID {
		defer runtime.UnlockOSThread()
		f()
		return
	}
	groups := getGroups()
	defer func() {
		setFS(unix.SYS_SETFSUID, uid)
		setFS(unix.SYS_SETFSGID, gid)
		setGroups(groups)
		runtime.UnlockOSThread() // not reached, and rightly, if one panics
	}()
	// setgroups and setfsgid need CAP_SETGID, which a thread keeps whatever
	// its fsuid is (capabilities(7): a change of the fsuid clears only the file
	// system capabilities), so the order is free and a switch can be undone.
	setGroups(c.Groups)
	setFS(unix.SYS_SETFSGID, c.GID)
	setFS(unix.SYS_SETFSUID, c.UID)
	f()
}

// fsID returns the file system id that the call trap sets: an id that can't be
// (-1) changes nothing, and the call returns the present one (setfsuid(2)).
func fsID(trap uintptr) uint32 {
	id, _, _ := unix.RawSyscall(trap, ^uintptr(0), 0, 0)
	return uint32(id)
}

// setFS sets a file system id. The call reports no error, so the result is
// read back.
func setFS(trap uintptr, id uint32) {
	unix.RawSyscall(trap, uintptr(id), 0, 0)
	if got := fsID(trap); got != id {
		panic(fmt.Sprintf("cred: the kernel refused file system id %d (still %d)", id, got))
	}
}
