//go:build !amd64

package fs

import "golang.org/x/sys/unix"

// chowns are the system calls that change a file's owner, as the newer
// architectures have them (syscalls(2)).
var chowns = []int{unix.SYS_FCHOWN, unix.SYS_FCHOWNAT}

// byName are those that do something with a name in a directory, and tell
// nobody the directory's attributes.
var byName = map[int]bool{
	unix.SYS_OPENAT: true, unix.SYS_OPENAT2: true, unix.SYS_MKDIRAT: true, unix.SYS_MKNODAT: true, unix.SYS_SYMLINKAT: true,
	unix.SYS_LINKAT: true, unix.SYS_UNLINKAT: true, unix.SYS_RENAMEAT2: true,
}
