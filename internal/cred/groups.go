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
