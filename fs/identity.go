package fs

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"strconv"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// found is a file as it was found: an O_PATH descriptor of it, its attributes,
// and who it is.
type found struct {
	fd int
	st unix.Statx_t
	id fusefs.StableAttr
}

// look finds what name is in the directory, and follows no symbolic link. The
// caller closes fd. The attributes may be from this host's cache.
func look(dir int, name string) (found, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return found{}, err
	}
	f, err := examine(fd)
	if err != nil {
		unix.Close(fd)
		return found{}, err
	}
	return f, nil
}

// modeType are the bits of a mode that say what a file is.
const modeType = unix.S_IFMT

// examine is look for a file that is open.
func examine(fd int) (found, error) {
	f := found{fd: fd}
	if err := stat(fd, false, &f.st); err != nil {
		return found{}, err
	}
	gen, err := generation(fd, &f.st)
	if err != nil {
		return found{}, err
	}
	f.id = fusefs.StableAttr{Mode: uint32(f.st.Mode) & modeType, Ino: f.st.Ino, Gen: gen}
	// Two numbers mean something else to go-fuse (0: make one up).
	if f.id.Ino == 0 || f.id.Reserved() {
		f.id.Ino = 1<<63 | gen>>1
	}
	return f, nil
}

// stat reads the attributes of an open file; force asks the server for them,
// whatever this host has cached.
func stat(fd int, force bool, st *unix.Statx_t) error {
	flags := unix.AT_EMPTY_PATH
	if force {
		flags |= unix.AT_STATX_FORCE_SYNC
	}
	return unix.Statx(fd, "", flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, st)
}

// rights reads who may do what with the file that fd is open on; what else is
// read may be old. An NFS client has to ask the server for the attributes of a
// directory after each change in it, but not for these (nfs_getattr in
// fs/nfs/inode.c).
func rights(fd int, st *unix.Statx_t) error {
	const mask = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_UID | unix.STATX_GID
	return unix.Statx(fd, "", unix.AT_EMPTY_PATH, mask, st)
}

// generation tells files apart that have had one inode number in turn, as a
// file server gives them out again: it is a hash of the file handle
// (name_to_handle_at(2)), or of the time of birth where the file system has no
// handles. The device is in it, since mount points below the source are crossed.
func generation(fd int, st *unix.Statx_t) (uint64, error) {
	sum := fnv.New64a()
	number := func(n uint64) { sum.Write(binary.LittleEndian.AppendUint64(nil, n)) }
	number(device(st))
	h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
	switch {
	case err == nil:
		number(uint64(h.Type()))
		sum.Write(h.Bytes())
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
		if st.Mask&unix.STATX_BTIME != 0 {
			number(uint64(st.Btime.Sec))
			number(uint64(st.Btime.Nsec))
		}
	default:
		return 0, err
	}
	return sum.Sum64(), nil
}

func device(st *unix.Statx_t) uint64 { return unix.Mkdev(st.Dev_major, st.Dev_minor) }

// fill sets what the kernel is told of a file. The validity stays zero: other
// hosts change files as well.
func fill(out *fuse.Attr, st *unix.Statx_t) {
	*out = fuse.Attr{
		Ino:       st.Ino,
		Size:      st.Size,
		Blocks:    st.Blocks,
		Atime:     uint64(st.Atime.Sec),
		Atimensec: st.Atime.Nsec,
		Mtime:     uint64(st.Mtime.Sec),
		Mtimensec: st.Mtime.Nsec,
		Ctime:     uint64(st.Ctime.Sec),
		Ctimensec: st.Ctime.Nsec,
		Mode:      uint32(st.Mode),
		Nlink:     st.Nlink,
		Owner:     fuse.Owner{Uid: st.Uid, Gid: st.Gid},
		Rdev:      uint32(unix.Mkdev(st.Rdev_major, st.Rdev_minor)),
		Blksize:   st.Blksize,
	}
}

// procPath is a path to the file that is open as fd, for calls that refuse an
// O_PATH descriptor. The kernel goes to the file itself, even to a symbolic
// link, and checks the rights to it (proc_pid_fd(5)).
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// again repeats a call that changes nothing, or nothing more the second time,
// while a signal interrupts it: the Go runtime sends itself signals, and some
// file systems return EINTR in spite of SA_RESTART.
func again[T any](f func() (T, error)) (T, error) {
	for {
		v, err := f()
		if !errors.Is(err, unix.EINTR) {
			return v, err
		}
	}
}
