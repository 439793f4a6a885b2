package lock

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/internal/cred"
)

// inside is how every component below the directory is opened: no symbolic
// link and no mount point is followed, and nothing leads out (openat2(2)).
const inside = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV

// osDir is a directory of the operating system, known by a descriptor.
type osDir struct {
	fd       int
	root     int // proves by answering that the file system is served; -1 if nothing can
	caller   cred.Cred
	strict   bool // only as the caller
	replayed bool
}

// OpenDir returns the directory that the descriptor fd is open on, as a Dir.
// fd (O_PATH will do) is duplicated, so the caller keeps its own. Calls are
// made as this process's user; where that is refused (root_squash), as caller,
// and for an existing lock directory as its owner.
func OpenDir(fd int, caller cred.Cred) (Dir, error) { return newOSDir(fd, -1, caller, false) }

// OpenDirIn is OpenDir of a directory of the file system that root, which is
// duplicated too, is open on. While root answers, ESTALE of the directory means
// that another host has removed it, and is told as ENOENT, as it is of a local
// file system. A server that serves the file system no more, or not yet, gives
// ESTALE for root as well: then nothing is known of the directory.
func OpenDirIn(root, fd int, caller cred.Cred) (Dir, error) {
	return newOSDir(fd, root, caller, false)
}

// OpenDirAs is OpenDir with all calls made as caller, and as nobody else:
// what he may not do himself is refused. Where this process can't become him
// (cred.Switchable), EPERM.
func OpenDirAs(fd int, caller cred.Cred) (Dir, error) {
	if own := cred.Own(); !cred.Switchable() && own.UID != caller.UID {
		return nil, os.NewSyscallError("setfsuid", unix.EPERM)
	}
	return newOSDir(fd, -1, caller, true)
}

func newOSDir(fd, root int, caller cred.Cred, strict bool) (Dir, error) {
	d := &osDir{fd: -1, root: -1, caller: caller, strict: strict}
	err := func() (err error) {
		if d.fd, err = dup(fd); err != nil {
			return err
		}
		if root >= 0 {
			if d.root, err = dup(root); err != nil {
				return err
			}
		}
		d.replayed, err = replays(d.fd)
		return err
	}()
	if err != nil {
		d.Close() // of directories: it has nothing to fail with
		return nil, err
	}
	return d, nil
}

func dup(fd int) (int, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return own, os.NewSyscallError("fcntl", err)
}

// OpenPath is OpenDir for the directory that path leads to.
func OpenPath(path string, caller cred.Cred) (Dir, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	return OpenDir(fd, caller)
}

func (d *osDir) Close() error {
	var errs []error
	for _, fd := range []int{d.fd, d.root} {
		if fd >= 0 {
			errs = append(errs, os.NewSyscallError("close", unix.Close(fd)))
		}
	}
	return errors.Join(errs...)
}

func (d *osDir) Replayed() bool { return d.replayed }

// as makes a call about name as who may make it.
func (d *osDir) as(call, name string, f func() error) error {
	err := d.asWho(name, f)
	if errors.Is(err, unix.ESTALE) && d.removed() {
		err = unix.ENOENT
	}
	return os.NewSyscallError(call, err)
}

// asWho makes a call about name as this process's user, then as the caller,
// then as the owner of what name's first component is; if strict, as the caller
// only.
func (d *osDir) asWho(name string, f func() error) (err error) {
	if d.strict {
		d.caller.Do(func() { err = f() })
		return err
	}
	err = f()
	if refused(err) && cred.Switchable() {
		d.caller.Do(func() { err = f() })
	}
	if refused(err) && cred.Switchable() {
		if owner, ok := d.owner(name); ok {
			owner.Do(func() { err = f() })
		}
	}
	return err
}

// removed reports whether the directory itself is no more, as the server says.
func (d *osDir) removed() bool {
	return d.root >= 0 && errors.Is(ask(d.fd), unix.ESTALE) && ask(d.root) == nil
}

// ask has the server tell the attributes of what fd is open on, so that what
// was cached before its last change is dropped (statx(2), AT_STATX_FORCE_SYNC).
func ask(fd int) error {
	var stx unix.Statx_t
	return unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &stx)
}

// owner returns who owns the part of a lock that name leads to, if it is one.
func (d *osDir) owner(name string) (cred.Cred, bool) {
	first, _, _ := strings.Cut(name, "/")
	var st unix.Stat_t
	if !strings.HasPrefix(first, Reserved) || unix.Fstatat(d.fd, first, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return cred.Cred{}, false
	}
	return cred.Cred{UID: st.Uid, GID: st.Gid}, true
}

// at calls f with a descriptor of the directory that name stands in, and its
// last component. A handle that was cached for another directory of that name
// gives ESTALE (nfs(5)); opened anew it is the present one.
func (d *osDir) at(name string, f func(dir int, last string) error) error {
	parent, last, nested := strings.Cut(name, "/")
	if !nested {
		return f(d.fd, name)
	}
	return anew(func() error {
		return d.below(parent, unix.O_PATH, func(fd int) error { return f(fd, last) })
	})
}

// renewals bounds how often a lock directory that was removed meanwhile is
// opened anew. Where two hosts pass a lock to and fro, a look loses the race
// against the next removal once in a while, and seldom twice in a row.
const renewals = 8

// anew calls f until it gives another error than ESTALE.
func anew(f func() error) error {
	var err error
	for range renewals {
		if err = f(); !errors.Is(err, unix.ESTALE) {
			break
		}
	}
	return err
}

// below calls f with a new descriptor of the subdirectory name.
func (d *osDir) below(name string, flags int, f func(fd int) error) error {
	fd, err := unix.Openat2(d.fd, name, &unix.OpenHow{
		Flags:   uint64(flags | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC),
		Resolve: inside,
	})
	if err != nil {
		return err
	}
	return errors.Join(f(fd), unix.Close(fd))
}

func (d *osDir) Mkdir(name string, mode fs.FileMode) error {
	bits := uint32(mode.Perm())
	if mode&fs.ModeSticky != 0 {
		bits |= unix.S_ISVTX
	}
	return d.as("mkdir", name, func() error {
		return d.at(name, func(dir int, last string) error {
			mkdir := func() error { return unix.Mkdirat(dir, last, bits) }
			// Who else may clear a lock is the directory's to say, not the umask's.
			err := cred.WithUmask(0, mkdir)
			if errors.Is(err, cred.ErrNoUmask) {
				err = mkdir()
			}
			return err
		})
	})
}

func (d *osDir) Symlink(target, name string) error {
	return d.as("symlink", name, func() error {
		return d.at(name, func(dir int, last string) error { return unix.Symlinkat(target, dir, last) })
	})
}

// Rename calls rename(2) itself: os.Rename refuses to replace a directory,
// even an empty one.
func (d *osDir) Rename(from, to string) error {
	return d.as("rename", from, func() error {
		return d.at(from, func(fromDir int, fromName string) error {
			return d.at(to, func(toDir int, toName string) error {
				return unix.Renameat(fromDir, fromName, toDir, toName)
			})
		})
	})
}

func (d *osDir) Unlink(name string) error {
	return d.as("unlink", name, func() error {
		return d.at(name, func(dir int, last string) error { return unix.Unlinkat(dir, last, 0) })
	})
}

func (d *osDir) Rmdir(name string) error {
	return d.as("rmdir", name, func() error {
		return d.at(name, func(dir int, last string) error { return unix.Unlinkat(dir, last, unix.AT_REMOVEDIR) })
	})
}

func (d *osDir) List(name string) ([]string, error) {
	if name == "" {
		name = "."
	}
	var names []string
	err := d.as("readdir", name, func() error {
		return anew(func() error {
			return d.below(name, unix.O_RDONLY, func(fd int) (err error) {
				names, err = readNames(fd)
				return err
			})
		})
	})
	return names, err
}

func readNames(fd int) ([]string, error) {
	var names []string
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// Refresh asks the server for the directory's attributes.
func (d *osDir) Refresh() error {
	return d.as("statx", "", func() error { return ask(d.fd) })
}

func (d *osDir) Readlink(name string) (string, error) {
	buf := make([]byte, 4096) // PATH_MAX, the longest target there is
	var n int
	err := d.as("readlink", name, func() error {
		return d.at(name, func(dir int, last string) (err error) {
			n, err = unix.Readlinkat(dir, last, buf)
			return err
		})
	})
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// Times returns when name was last modified and when it was last changed, by
// the server's clock.
func (d *osDir) Times(name string) (modified, changed time.Time, err error) {
	var st unix.Stat_t
	err = d.as("fstatat", name, func() error {
		return d.at(name, func(dir int, last string) error {
			return unix.Fstatat(dir, last, &st, unix.AT_SYMLINK_NOFOLLOW)
		})
	})
	return time.Unix(st.Mtim.Unix()), time.Unix(st.Ctim.Unix()), err
}

func (d *osDir) Mode() (fs.FileMode, error) {
	// No more than the mode is asked for: an NFS client that knows it asks the
	// server only for what else the last change in the directory has made it
	// forget (nfs_getattr in fs/nfs/inode.c).
	var st unix.Statx_t
	if err := d.as("statx", "", func() error {
		return unix.Statx(d.fd, "", unix.AT_EMPTY_PATH, unix.STATX_MODE, &st)
	}); err != nil {
		return 0, err
	}
	mode := fs.FileMode(st.Mode & 0o777)
	if st.Mode&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return mode, nil
}

func (d *osDir) Sync() error {
	return d.as("syncfs", "", func() error { return d.below(".", unix.O_RDONLY, unix.Syncfs) })
}
