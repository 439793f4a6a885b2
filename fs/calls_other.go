//go:build !amd64

package fs

import "golang.org/x/sys/unix"

// chowns are the system calls that change a file's owner, as the newer
// architectures have them (syscalls(2)).
var chowns = []int{unix.SYS_FCHOWN, unix.SYS_FCHOWNAT}
