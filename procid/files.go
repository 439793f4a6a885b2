package procid

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// HasOpen reports whether the process of the thread tid has the file with
// this device and inode number open. What cannot be seen is not open.
//
// It makes no request to the file's server or daemon, which may be the very
// one that asks.
func HasOpen(tid int, dev, ino uint64) bool {
	p, err := ourProc()
	return err == nil && tid > 0 && p.hasOpen(tid, dev, ino)
}

func (p procfs) hasOpen(tid int, dev, ino uint64) bool {
	names, err := os.ReadDir(p.path(tid, "fd"))
	if err != nil {
		return false
	}
	for _, n := range names {
		// Linux 5.14 shows the inode number in fdinfo. It spares the other
		// files the statx, whose look-up on NFS may ask a server.
		info, err := readFile(p.path(tid, "fdinfo/"+n.Name()))
		if err != nil {
			continue // closed since
		}
		if got, ok := fdInode(info); ok && got != ino {
			continue
		}
		// DONT_SYNC: what the kernel knows, without a request.
		var st unix.Statx_t
		if unix.Statx(unix.AT_FDCWD, p.path(tid, "fd/"+n.Name()), unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st) == nil &&
			st.Ino == ino && unix.Mkdev(st.Dev_major, st.Dev_minor) == dev {
			return true
		}
	}
	return false
}

// fdInode returns the inode number in a text of proc_pid_fdinfo(5), if it is
// there.
func fdInode(info []byte) (uint64, bool) {
	for line := range bytes.Lines(info) {
		if v, ok := bytes.CutPrefix(line, []byte("ino:")); ok {
			n, err := strconv.ParseUint(string(bytes.TrimSpace(v)), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
