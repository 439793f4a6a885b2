package main

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// runPlace is a directory whose lock a command is to hold.
type runPlace struct {
	*place
	dev, ino uint64
}

// findPlaces opens the directories, each once, in the order in which their
// locks are taken. That is by their inode numbers, which are the server's and
// so the same on every host; where two exports have the same number, by their
// paths. It returns what is open after an error too.
func findPlaces(dirs []string) ([]runPlace, error) {
	var places []runPlace
	for _, dir := range dirs {
		p, err := findPlace(dir)
		if err != nil {
			return places, err
		}
		if slices.ContainsFunc(places, func(o runPlace) bool { return o.dev == p.dev && o.ino == p.ino }) {
			p.close()
			continue
		}
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b runPlace) int { return cmp.Or(cmp.Compare(a.ino, b.ino), cmp.Compare(a.path, b.path)) })
	return places, nil
}

func findPlace(dir string) (runPlace, error) {
	p, err := openPlace(dir)
	if err != nil {
		return runPlace{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(p.fd, &st); err != nil {
		p.close()
		return runPlace{}, fmt.Errorf("%s: %w", dir, err)
	}
	return runPlace{place: p, dev: st.Dev, ino: st.Ino}, nil
}
