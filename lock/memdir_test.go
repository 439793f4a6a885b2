package lock

import (
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// memFS is a protected directory in memory: for tests in which time is played,
// which no real file system takes part in.
type memFS struct {
	mu sync.Mutex
	// fault, if set, is asked before each call, without the mutex held. If
	// done, the call is carried out before the error is returned.
	fault func(op string) (err error, done bool)

	dirs  map[string]map[string]string // entries and their targets
	links map[string]string
	calls int
	open  int
}

func newMemFS() *memFS {
	return &memFS{dirs: map[string]map[string]string{}, links: map[string]string{}}
}

// fails sets what is asked before each call.
func (m *memFS) fails(fault func(op string) (err error, done bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = fault
}

// refuses lets the next n calls of that kind fail, without being done.
func (m *memFS) refuses(op string, n int, err error) {
	var left atomic.Int64
	left.Store(int64(n))
	m.fails(func(o string) (error, bool) {
		if o == op && left.Add(-1) >= 0 {
			return err, false
		}
		return nil, true
	})
}

// all returns every name.
func (m *memFS) all() (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for d, entries := range m.dirs {
		names = append(names, d)
		for e := range entries {
			names = append(names, d+"/"+e)
		}
	}
	for l := range m.links {
		names = append(names, l)
	}
	slices.Sort(names)
	return names
}

func (m *memFS) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

func (m *memFS) do(op string, f func() error) error {
	var err error
	done := true
	m.mu.Lock()
	fault := m.fault
	m.mu.Unlock()
	if fault != nil {
		if err, done = fault(op); err != nil && !done {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if ferr := f(); err == nil {
		err = ferr
	}
	return err
}

// memDir is a memFS opened.
type memDir struct{ *memFS }

func (m *memFS) Open() (Dir, error) {
	err := m.do("open", func() error { m.open++; return nil })
	if err != nil {
		return nil, err
	}
	return memDir{m}, nil
}

func (d memDir) Close() error {
	return d.do("close", func() error { d.open--; return nil })
}

func (d memDir) Mkdir(name string, _ fs.FileMode) error {
	return d.do("mkdir", func() error {
		if d.dirs[name] != nil {
			return syscall.EEXIST
		}
		d.dirs[name] = map[string]string{}
		return nil
	})
}

func (d memDir) Symlink(target, name string) error {
	return d.do("symlink", func() error {
		parent, last, nested := strings.Cut(name, "/")
		in := d.links
		if nested {
			in = d.dirs[parent]
		} else {
			last = parent
		}
		if in == nil {
			return syscall.ENOENT
		}
		if _, there := in[last]; there {
			return syscall.EEXIST
		}
		in[last] = target
		return nil
	})
}

func (d memDir) Rename(from, to string) error {
	return d.do("rename", func() error {
		fromTop, fromLast, nested := strings.Cut(from, "/")
		toTop, toLast, into := strings.Cut(to, "/")
		switch {
		case into:
			in := d.links
			if nested {
				in = d.dirs[fromTop]
			} else {
				fromLast = fromTop
			}
			target, there := in[fromLast]
			if !there || d.dirs[toTop] == nil {
				return syscall.ENOENT
			}
			delete(in, fromLast)
			d.dirs[toTop][toLast] = target
		case d.dirs[from] == nil:
			return syscall.ENOENT
		case len(d.dirs[to]) > 0:
			return syscall.ENOTEMPTY
		default:
			d.dirs[to] = d.dirs[from]
			delete(d.dirs, from)
		}
		return nil
	})
}

func (d memDir) Unlink(name string) error {
	return d.do("unlink", func() error {
		parent, last, nested := strings.Cut(name, "/")
		in := d.links
		if nested {
			in = d.dirs[parent]
		} else {
			last = parent
		}
		if _, there := in[last]; !there {
			return syscall.ENOENT
		}
		delete(in, last)
		return nil
	})
}

func (d memDir) Rmdir(name string) error {
	return d.do("rmdir", func() error {
		switch {
		case d.dirs[name] == nil:
			return syscall.ENOENT
		case len(d.dirs[name]) > 0:
			return syscall.ENOTEMPTY
		}
		delete(d.dirs, name)
		return nil
	})
}

func (d memDir) List(name string) (names []string, err error) {
	err = d.do("list", func() error {
		if name == "" {
			for n := range d.dirs {
				names = append(names, n)
			}
			for n := range d.links {
				names = append(names, n)
			}
			return nil
		}
		if d.dirs[name] == nil {
			return syscall.ENOENT
		}
		for n := range d.dirs[name] {
			names = append(names, n)
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

func (d memDir) Readlink(name string) (target string, err error) {
	err = d.do("readlink", func() error {
		parent, last, _ := strings.Cut(name, "/")
		var there bool
		if target, there = d.dirs[parent][last]; !there {
			return syscall.ENOENT
		}
		return nil
	})
	return target, err
}

func (d memDir) Refresh() error { return d.do("refresh", func() error { return nil }) }
func (d memDir) Sync() error    { return d.do("sync", func() error { return nil }) }
func (d memDir) Replayed() bool { return false }
func (d memDir) Mode() (fs.FileMode, error) {
	return 0o755, d.do("mode", func() error { return nil })
}
