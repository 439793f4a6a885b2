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
var own = Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Groups: ownGroups()}

func ownGroups() []uint32 {
	gs, err := os.Getgroups()
	if err != nil {
		return nil
	}
	out := make([]uint32, len(gs))
	for i, g := range gs {
		out[i] = uint32(g)
	}
	return out
}

// Own returns the process's own credentials.
func Own() Cred { return Cred{UID: own.UID, GID: own.GID, Groups: slices.Clone(own.Groups)} }

// Switchable reports whether Do can become somebody else. A process without
// root's rights acts as itself whoever asks.
func Switchable() bool { return own.UID == 0 }

// Do runs f with c on the calling thread and restores the process's own
// credentials before it returns. Where switching is not possible (see
// [Switchable]) or c is the process's own user and group, f simply runs: root
// needs no group to be allowed a thing, and root_squash takes all of them
// away.
//
// f must stay on its goroutine: what it starts elsewhere runs as the process.
// Do panics if the kernel refuses to give a thread its credentials back, since
// a thread of another user must never serve the next caller.
func (c Cred) Do(f func()) {
	if !Switchable() || (c.UID == own.UID && c.GID == own.GID) {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The groups go first and come back last: setgroups needs CAP_SETGID,
	// which a thread keeps whatever its fsuid is (capabilities(7): changing
	// the fsuid clears only the file system capabilities).
	setGroups(c.Groups)
	setFS(unix.SYS_SETFSGID, c.GID)
	setFS(unix.SYS_SETFSUID, c.UID)
	defer func() {
		setFS(unix.SYS_SETFSUID, own.UID)
		setFS(unix.SYS_SETFSGID, own.GID)
		setGroups(own.Groups)
	}()
	f()
}

// setFS sets a file system id. The call reports no error (setfsuid(2)): what
// it returns is the id before it, so a second call with an id that can't be
// (-1) reads the result back.
func setFS(trap uintptr, id uint32) {
	unix.RawSyscall(trap, uintptr(id), 0, 0)
	got, _, _ := unix.RawSyscall(trap, ^uintptr(0), 0, 0)
	if uint32(got) != id {
		panic(fmt.Sprintf("cred: the kernel refused file system id %d (still %d)", id, uint32(got)))
	}
}
