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
// 8881, section 2.10.6); earlier versions, and what is not known, do not. It is
// asked for each take, and so asks no NFS server.
func replays(fd int) (bool, error) {
	var stx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &stx); err != nil {
		return false, os.NewSyscallError("statx", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	if nfs, sessions := nfsMount(string(mounts), fmt.Sprintf("%d:%d", stx.Dev_major, stx.Dev_minor)); nfs {
		return !sessions, nil
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return false, os.NewSyscallError("fstatfs", err)
	}
	return !local[st.Type], nil
}

// nfsMount reports whether the device is an NFS mount, and whether all mounts of
// it have a version with sessions, 4.1 or later, by the text of
// proc_pid_mountinfo(5).
func nfsMount(mountinfo, dev string) (nfs, sessions bool) {
	sessions = true
	for line := range strings.Lines(mountinfo) {
		mount, super, _ := strings.Cut(line, " - ")
		m, s := strings.Fields(mount), strings.Fields(super)
		if len(m) < 5 || m[2] != dev || len(s) < 2 || s[0] != "nfs" && s[0] != "nfs4" {
			continue
		}
		nfs = true
		sessions = sessions && hasSessions(s[len(s)-1])
	}
	return nfs, nfs && sessions
}

// hasSessions reports whether the options of an NFS mount name a version with
// sessions.
func hasSessions(options string) bool {
	version := ""
	for _, o := range strings.Split(options, ",") {
		if v, ok := strings.CutPrefix(o, "vers="); ok {
			version = v
		}
	}
	minor, ok := strings.CutPrefix(version, "4.")
	n, err := strconv.Atoi(minor)
	return ok && err == nil && n >= 1
}
