package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// setAttributes changes the attributes of the file that fd is open on, O_PATH
// or not, and checks the caller's rights to it as a call by path would.
func setAttributes(fd int, in *fuse.SetAttrIn) error {
	// The owner first: changing it clears the set-id bits that a mode in the
	// same request is to have.
	uid, setUID := in.GetUID()
	gid, setGID := in.GetGID()
	if setUID || setGID {
		if err := unix.Fchownat(fd, "", orKeep(uid, setUID), orKeep(gid, setGID), unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	if mode, ok := in.GetMode(); ok {
		if err := unix.Chmod(procPath(fd), mode&^modeType); err != nil {
			return err
		}
	}
	if size, ok := in.GetSize(); ok {
		if _, err := again(func() (struct{}, error) {
			return struct{}{}, unix.Truncate(procPath(fd), int64(size))
		}); err != nil {
			return err
		}
	}
	const times = fuse.FATTR_ATIME | fuse.FATTR_MTIME
	if in.Valid&times != 0 {
		ts := []unix.Timespec{
			timespec(in.Valid, fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec),
			timespec(in.Valid, fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec),
		}
		return unix.UtimesNanoAt(fd, "", ts, unix.AT_EMPTY_PATH)
	}
	return nil
}

// orKeep is an id of chown(2), which -1 leaves as it is.
func orKeep(id uint32, set bool) int {
	if !set {
		return -1
	}
	return int(id)
}

// timespec is a time of utimensat(2). "Now" is left to whose clock it is: the
// server's, on NFS.
func timespec(valid, set, now uint32, sec uint64, nsec uint32) unix.Timespec {
	switch {
	case valid&set == 0:
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	case valid&now != 0:
		return unix.Timespec{Nsec: unix.UTIME_NOW}
	default:
		return unix.Timespec{Sec: int64(sec), Nsec: int64(nsec)}
	}
}
