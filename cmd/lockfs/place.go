package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/internal/cred"
	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// place is a directory whose lock somebody looks after: in the tree itself, or
// in a mount, whose daemon is then asked to act on it.
type place struct {
	fd      int
	path    string
	mounted bool
}

// openPlace opens the directory at path, or that of the file at path. close
// ends its use.
func openPlace(path string) (*place, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) {
		path = filepath.Dir(path)
		fd, err = unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p := &place{fd: fd, path: path}
	if p.mounted, err = inMount(fd); err != nil {
		p.close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// inMount reports whether the directory that fd is open on is in a mount of
// lockfs. The kernel is asked, not the mount.
func inMount(fd int) (bool, error) {
	var stx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, 0, &stx); err != nil {
		return false, err
	}
	ms, err := mounts()
	if err != nil {
		return false, err
	}
	dev := fmt.Sprintf("%d:%d", stx.Dev_major, stx.Dev_minor)
	for _, m := range ms {
		if m.dev == dev && m.ours() {
			return true, nil
		}
	}
	return false, nil
}

func (p *place) close() { unix.Close(p.fd) } // O_PATH: it has nothing to fail with

// name is the directory's name to calls that take no descriptor: what was
// opened is what is asked, wherever its path leads by now.
func (p *place) name() string { return fmt.Sprintf("/proc/self/fd/%d", p.fd) }

// inTree calls f with the directory, which is in the tree itself.
func (p *place) inTree(f func(lock.Dir) error) error {
	d, err := lock.OpenDir(p.fd, cred.Own())
	if err == nil {
		err = errors.Join(f(d), d.Close())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	return nil
}

// status looks at the directory's lock.
func (p *place) status(judge lock.Judge) (st lock.Status, err error) {
	if p.mounted {
		return p.mountStatus()
	}
	err = p.inTree(func(d lock.Dir) (err error) {
		st, err = lock.StatusOf(d, p.path, judge)
		return err
	})
	return st, err
}

// mountStatus asks the mount's daemon for the status.
func (p *place) mountStatus() (lock.Status, error) {
	text, err := p.statusText()
	if err != nil {
		return lock.Status{}, fmt.Errorf("%s: %s: %w", p.path, lock.StatusXattr, err)
	}
	var st lock.Status
	if err := json.Unmarshal(text, &st); err != nil {
		return lock.Status{}, fmt.Errorf("%s: %s: %w", p.path, lock.StatusXattr, err)
	}
	st.Advise(p.path)
	return st, nil
}

// statusText returns the status as the mount's daemon says it. Where hundreds wait
// it is more than an attribute can have; the directory's virtual file has it too,
// but only for who may search the directory.
func (p *place) statusText() ([]byte, error) {
	buf := make([]byte, 4096)
	for {
		n, err := unix.Getxattr(p.name(), lock.StatusXattr, buf)
		switch {
		case errors.Is(err, unix.ERANGE):
			buf = make([]byte, 2*len(buf))
		case errors.Is(err, unix.E2BIG):
			return os.ReadFile(filepath.Join(p.name(), lock.Reserved))
		case err != nil:
			return nil, err
		default:
			return buf[:n], nil
		}
	}
}

// recover frees the directory's lock if its holder is a dead process of this
// host, and discards the candidates of such.
func (p *place) recover(self *procid.Local) error {
	if p.mounted {
		return p.ask(lock.RecoverXattr, []byte("1"))
	}
	return p.inTree(func(d lock.Dir) error {
		_, err := lock.Recover(d, self)
		return err
	})
}

// breakLock breaks the directory's lock, whose record, or junk, is record.
func (p *place) breakLock(record string, self *procid.Local, force bool) error {
	if !p.mounted {
		return p.inTree(func(d lock.Dir) error { return lock.Break(d, p.path, record, self, force) })
	}
	text, err := json.Marshal(lock.BreakRequest{Record: record, Force: force})
	if err != nil {
		return err
	}
	err = p.ask(lock.BreakXattr, text)
	if errors.Is(err, unix.ESTALE) {
		return fmt.Errorf("%s: %w", p.path, lock.ErrOutdated) // all that its errno says
	}
	return err
}

// ask has the mount's daemon act on the directory's lock.
func (p *place) ask(attr string, value []byte) error {
	if err := unix.Setxattr(p.name(), attr, value, 0); errors.Is(err, unix.EROFS) {
		return withCode(exitRefused, fmt.Errorf("%s: the mount is read-only; name the directory in the tree itself: %w", p.path, err))
	} else if err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	return nil
}
