package cred

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setGroups sets the supplementary groups of the calling thread: the raw call
// does not reach the other threads, as the one of the C library does.
func setGroups(gs []uint32) {
	var p unsafe.Pointer
	if len(gs) > 0 {
		p = unsafe.Pointer(&gs[0])
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(gs)), uintptr(p), 0); e != 0 {
		panic(fmt.Sprintf("cred: setgroups of %d groups: %v", len(gs), e))
	}
}

// getGroups returns the supplementary groups of the calling thread.
func getGroups() []uint32 {
	var buf [32]uint32 // enough for nearly all, in one call
	gs := buf[:]
	for {
		n, _, e := unix.RawSyscall(unix.SYS_GETGROUPS, uintptr(len(gs)), uintptr(unsafe.Pointer(&gs[0])), 0)
		switch {
		case e == 0:
			return append([]uint32(nil), gs[:n]...)
		case e != unix.EINVAL || len(gs) >= maxGroups:
			panic(fmt.Sprintf("cred: getgroups: %v", e))
		}
		gs = make([]uint32, maxGroups)
	}
}

// maxGroups is NGROUPS_MAX of linux/limits.h.
const maxGroups = 65536
