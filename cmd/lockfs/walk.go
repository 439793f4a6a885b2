package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/lock"
)

// walk calls visit for the directory p and each one below it, in the order of
// their names, and tells it whether lockfs has left anything there; in a mount,
// where that is hidden, it always may. No symbolic link is followed and no other
// file system entered. What is removed meanwhile is left out.
//
// failed is told of what can't be read; the walk goes on. It returns the number
// of directories, and ctx's error if that ends it.
func walk(ctx context.Context, p *place, visit func(p *place, traces bool), failed func(error)) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if p.mounted {
		// First: a look at the names has the daemon clean up by itself.
		visit(p, true)
	}
	names, err := p.list()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		failed(err)
		return 0, nil
	}
	if !p.mounted {
		visit(p, names.traces)
	}
	n := 1
	for _, name := range names.dirs {
		sub, err := p.enter(name)
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
			continue
		case err != nil:
			failed(err)
			continue
		}
		below, err := walk(ctx, sub, visit, failed)
		sub.close()
		n += below
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// listing is what a walk wants to know of a directory.
type listing struct {
	dirs   []string
	traces bool // a name of lockfs's own is there
}

// list reads the directory.
func (p *place) list() (listing, error) {
	fd, err := unix.Open(p.name(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return listing{}, fmt.Errorf("%s: %w", p.path, err)
	}
	f := os.NewFile(uintptr(fd), p.path)
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return listing{}, err
	}
	var l listing
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), lock.Reserved):
			l.traces = true
		case e.IsDir():
			l.dirs = append(l.dirs, e.Name())
		}
	}
	slices.Sort(l.dirs)
	return l, nil
}

// enter opens a directory of p, if it is none of another file system.
func (p *place) enter(name string) (*place, error) {
	path := filepath.Join(p.path, name)
	fd, err := unix.Openat2(p.fd, name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &place{fd: fd, path: path, mounted: p.mounted}, nil
}
