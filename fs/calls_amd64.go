package fs

import "golang.org/x/sys/unix"

// chowns are the system calls that change a file's owner.
var chowns = []int{unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT}

// byName are those that do something with a name in a directory, and tell
// nobody the directory's attributes.
var byName = map[int]bool{
	unix.SYS_OPEN: true, unix.SYS_OPENAT: true, unix.SYS_OPENAT2: true, unix.SYS_CREAT: true,
	unix.SYS_MKDIR: true, unix.SYS_MKDIRAT: true, unix.SYS_MKNOD: true, unix.SYS_MKNODAT: true,
	unix.SYS_SYMLINK: true, unix.SYS_SYMLINKAT: true, unix.SYS_LINK: true, unix.SYS_LINKAT: true,
	unix.SYS_UNLINK: true, unix.SYS_UNLINKAT: true, unix.SYS_RMDIR: true,
	unix.SYS_RENAME: true, unix.SYS_RENAMEAT: true, unix.SYS_RENAMEAT2: true,
}
