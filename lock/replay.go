package lock

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// local are the file systems that carry out each call once: those of this
// host's own disks and memory (statfs(2) lists the numbers).
var local = map[int64]bool{
	unix.EXT4_SUPER_MAGIC:      true,
	unix.XFS_SUPER_MAGIC:       true,
	unix.BTRFS_SUPER_MAGIC:     true,
	unix.TMPFS_MAGIC:           true,
	unix.RAMFS_MAGIC:           true,
	unix.OVERLAYFS_SUPER_MAGIC: true,
	unix.F2FS_SUPER_MAGIC:      true,
	0x2fc12fc1:                 true, // ZFS, which statfs(2) does not list
}

// replays reports whether the file system of fd may carry out a request a
// second time long after it was answered. NFSv4.1 sessions rule that out (RFC
// 8881, section 2.10.6); earlier versions, and what is not known, do not.
func replays(fd int) (bool, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return false, os.NewSyscallError("fstatfs", err)
	}
	if st.Type != unix.NFS_SUPER_MAGIC {
		return !local[st.Type], nil
	}
	var stx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &stx); err != nil {
		return false, os.NewSyscallError("statx", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	return !hasSessions(string(mounts), fmt.Sprintf("%d:%d", stx.Dev_major, stx.Dev_minor)), nil
}

// hasSessions reports whether the NFS mount of the device has a version with
// sessions, 4.1 or later, by the text of proc_pid_mountinfo(5).
func hasSessions(mountinfo, dev string) bool {
	found := false
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) < 5 || f[2] != dev {
			continue
		}
		options := strings.Split(f[len(f)-1], ",")
		version := ""
		for _, o := range options {
			if v, ok := strings.CutPrefix(o, "vers="); ok {
				version = v
			}
		}
		minor, ok := strings.CutPrefix(version, "4.")
		n, err := strconv.Atoi(minor)
		if !ok || err != nil || n < 1 {
			return false
		}
		found = true
	}
	return found
}
