package fs

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/internal/cred"
	"github.com/lockfs/lockfs/lock"
)

// HeldLog is told which directories' locks the mount holds, by their paths
// below the source. Its methods do not wait.
type HeldLog interface {
	Taken(path string)
	Released(path string)
}

// noHeldLog is for a mount without one.
type noHeldLog struct{}

func (noHeldLog) Taken(string)    {}
func (noHeldLog) Released(string) {}

// freeLeft frees the locks of the directories, paths below the source, that
// dead processes of this host have left, until ctx ends. What it has dealt
// with it reports as released: a path that leads nowhere any more, too.
func (t *tree) freeLeft(ctx context.Context, paths []string) {
	for _, path := range paths {
		if ctx.Err() != nil {
			return
		}
		freed, err := t.freeAt(path)
		entry := t.log.WithField("dir", t.source+"/"+path)
		switch {
		case err != nil:
			entry.WithError(err).Warn("what an earlier lockfs of this host left could not be freed; the next take there tries it again")
			continue
		case freed:
			entry.Warnf("recovered the lock of %s/%s, which an earlier lockfs of this host left", t.source, path)
		}
		t.held.Released(path)
	}
}

// freeAt frees the lock of the directory path if a dead process of this host
// holds it. No symbolic link and no mount point is followed, and nothing leads
// out of the source.
func (t *tree) freeAt(path string) (freed bool, err error) {
	if path == "" {
		path = "." // the source itself
	}
	var d lock.Dir
	err = t.root.use(func(root int) error {
		fd, err := unix.Openat2(root, path, &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
		})
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		d, err = lock.OpenDir(fd, cred.Own())
		return err
	})
	for _, gone := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV} {
		if errors.Is(err, gone) {
			return false, nil
		}
	}
	if err != nil {
		return false, fmt.Errorf("open: %w", err)
	}
	freed, err = lock.Recover(d, t.self)
	return freed, errors.Join(err, d.Close())
}
