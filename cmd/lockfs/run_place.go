package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/lock"
)

// place is a directory whose lock a command is to hold.
type place struct {
	path    string
	fd      int // of the directory, O_PATH, not for the command
	dev     uint64
	ino     uint64
	mounted bool // it is in a mount of lockfs
}

func (p *place) close() { unix.Close(p.fd) } // O_PATH: it has nothing to fail with

// findPlaces opens the directories, each once, in the order in which their
// locks are taken. That is by their inode numbers, which are the server's and
// so the same on every host; where two exports have the same number, by their
// paths. It returns what is open after an error too.
func findPlaces(dirs []string) ([]*place, error) {
	var places []*place
	for _, dir := range dirs {
		p, err := findPlace(dir)
		if err != nil {
			return places, err
		}
		if slices.ContainsFunc(places, func(o *place) bool { return o.dev == p.dev && o.ino == p.ino }) {
			p.close()
			continue
		}
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b *place) int { return cmp.Or(cmp.Compare(a.ino, b.ino), cmp.Compare(a.path, b.path)) })
	return places, nil
}

func findPlace(dir string) (*place, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	p := &place{path: dir, fd: fd}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		p.dev, p.ino = st.Dev, st.Ino
		p.mounted, err = inMount(fd)
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return p, nil
}

// inMount reports whether the directory is in a mount of lockfs.
func inMount(fd int) (bool, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Type != unix.FUSE_SUPER_MAGIC {
		return false, err
	}
	_, err := unix.Getxattr(fmt.Sprintf("/proc/self/fd/%d", fd), lock.StatusXattr, nil)
	// Another FUSE file system has no such attribute.
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
		return false, nil
	}
	return err == nil, err
}
