package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// backing is a directory to measure on.
type backing struct {
	name string
	dir  string
	// mounted: it is a mount of this program's.
	mounted bool
}

// newBacking makes the backing of that name: a file system of its own, or a
// directory below an absolute path.
func newBacking(name, tmp string) (*backing, error) {
	b := &backing{name: name, dir: filepath.Join(tmp, name)}
	if filepath.IsAbs(name) {
		var err error
		b.dir, err = os.MkdirTemp(name, "bench-")
		return b, err
	}
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		return nil, err
	}
	var err error
	switch name {
	case "tmpfs":
		err = unix.Mount("bench", b.dir, "tmpfs", 0, "size=4g")
	case "ext4":
		err = mountExt4(filepath.Join(tmp, "ext4.img"), b.dir)
	default:
		return nil, errors.New("a backing is tmpfs, ext4 or an absolute path")
	}
	b.mounted = err == nil
	return b, err
}

func mountExt4(image, dir string) error {
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(image, 6<<30); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mkfs.ext4", "-q", "-F", image},
		{"mount", "-o", "loop", image, dir}, // the device goes with the mount
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

// close removes what was made.
func (b *backing) close() error {
	if b.mounted {
		return unix.Unmount(b.dir, unix.MNT_DETACH)
	}
	return os.RemoveAll(b.dir)
}
