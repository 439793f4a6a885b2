package fs

import "golang.org/x/sys/unix"

// chowns are the system calls that change a file's owner.
var chowns = []int{unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT}
