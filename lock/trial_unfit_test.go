package lock

import (
	"errors"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// fault is what goes wrong in a directory.
type fault struct {
	// wrong returns what a call gives in place of the real one's error, which
	// do carries out. n counts the calls of that kind.
	wrong func(call string, n int, do func() error) error
	// list and link change what is read, if set.
	list func(n int, names []string) ([]string, error)
	link func(target string) string
}

// unfit is a directory with a fault.
type unfit struct {
	Dir
	fault

	mu    sync.Mutex
	calls map[string]int
}

func (u *unfit) count(call string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls == nil {
		u.calls = map[string]int{}
	}
	u.calls[call]++
	return u.calls[call]
}

func (u *unfit) do(call string, do func() error) error {
	n := u.count(call)
	if u.wrong == nil {
		return do()
	}
	return u.wrong(call, n, do)
}

func (u *unfit) Mkdir(name string, mode fs.FileMode) error {
	return u.do("mkdir", func() error { return u.Dir.Mkdir(name, mode) })
}

func (u *unfit) Symlink(target, name string) error {
	call := "symlink"
	if len(name) > 255 && strings.Contains(name, "nnnn") {
		call = "long symlink"
	}
	return u.do(call, func() error { return u.Dir.Symlink(target, name) })
}

func (u *unfit) Rename(from, to string) error {
	call := "rename"
	if strings.Contains(to, "/") {
		call = "rename a record"
	}
	return u.do(call, func() error { return u.Dir.Rename(from, to) })
}

func (u *unfit) Unlink(name string) error {
	return u.do("unlink", func() error { return u.Dir.Unlink(name) })
}

func (u *unfit) Rmdir(name string) error {
	return u.do("rmdir", func() error { return u.Dir.Rmdir(name) })
}

func (u *unfit) List(name string) ([]string, error) {
	names, err := u.Dir.List(name)
	if n := u.count("list"); err == nil && u.list != nil {
		return u.list(n, names)
	}
	return names, err
}

func (u *unfit) Readlink(name string) (string, error) {
	target, err := u.Dir.Readlink(name)
	if err == nil && u.link != nil {
		target = u.link(target)
	}
	return target, err
}

// gives is a wrong that has the n-th call of that kind, or each from there on
// if later, fail without being done; or "succeed" without it if err is nil.
func gives(call string, n int, later bool, err error) func(string, int, func() error) error {
	return func(c string, i int, do func() error) error {
		if c == call && (i == n || later && i > n) {
			return err
		}
		return do()
	}
}

// replaced is a wrong that takes one error of a call for another, or for none.
func replaced(call string, from, to error) func(string, int, func() error) error {
	return func(c string, _ int, do func() error) error {
		err := do()
		if c == call && errors.Is(err, from) {
			return to
		}
		return err
	}
}

// Each thing that a file system can do wrong is seen, and named.
func TestTryFindsFaults(t *testing.T) {
	const (
		once  = "mkdir makes a directory once"
		link  = "a symbolic link keeps a long text"
		full  = "rename leaves a directory alone that is not empty"
		empty = "rename replaces an empty directory"
		swap  = "a rename of a record is a compare-and-swap"
		long  = "names may have 255 bytes"
		wins  = "of several one wins"
		clean = "what is made can be removed"
	)
	shows := func(at int, names ...string) func(int, []string) ([]string, error) {
		return func(n int, real []string) ([]string, error) {
			if n == at {
				return names, nil
			}
			return real, nil
		}
	}
	fails := func(at int) func(int, []string) ([]string, error) {
		return func(n int, real []string) ([]string, error) {
			if n == at {
				return nil, syscall.EIO
			}
			return real, nil
		}
	}
	for what, c := range map[string]struct {
		fault
		name string
		want Outcome
	}{
		"nothing":                       {fault{}, wins, Kept},
		"mkdir twice":                   {fault{wrong: replaced("mkdir", syscall.EEXIST, nil)}, once, Broken},
		"mkdir without an answer":       {fault{wrong: gives("mkdir", 2, false, syscall.EIO)}, once, Unable},
		"no mkdir":                      {fault{wrong: gives("mkdir", 1, true, syscall.EROFS)}, once, Untried},
		"no symbolic links":             {fault{wrong: gives("symlink", 1, true, syscall.EPERM)}, link, Unable},
		"short links":                   {fault{link: func(s string) string { return s[:10] }}, link, Awkward},
		"no second candidate":           {fault{wrong: gives("mkdir", 3, true, syscall.ENOSPC)}, full, Untried},
		"no record in it":               {fault{wrong: gives("symlink", 2, true, syscall.ENOSPC)}, full, Untried},
		"rename takes what is held":     {fault{wrong: replaced("rename", syscall.ENOTEMPTY, nil)}, full, Broken},
		"rename without an answer":      {fault{wrong: gives("rename", 1, false, syscall.EIO)}, full, Unable},
		"no listing":                    {fault{list: fails(1)}, full, Unable},
		"a listing that shows nothing":  {fault{list: shows(1)}, full, Broken},
		"a record that can't go":        {fault{wrong: gives("unlink", 1, false, syscall.EACCES)}, empty, Untried},
		"an empty one is not replaced":  {fault{wrong: gives("rename", 2, false, syscall.EEXIST)}, empty, Awkward},
		"neither replaced nor removed":  {fault{wrong: gives("rename", 2, true, syscall.EBUSY)}, empty, Unable},
		"no rename of a record":         {fault{wrong: gives("rename a record", 1, true, syscall.EXDEV)}, swap, Unable},
		"a rename of what is gone":      {fault{wrong: replaced("rename a record", syscall.ENOENT, nil)}, swap, Broken},
		"another error for it":          {fault{wrong: replaced("rename a record", syscall.ENOENT, syscall.EIO)}, swap, Unable},
		"no listing of the winner":      {fault{list: fails(2)}, swap, Unable},
		"a listing without the winner":  {fault{list: shows(2, "x")}, swap, Broken},
		"no long names":                 {fault{wrong: gives("long symlink", 1, true, syscall.ENAMETOOLONG)}, long, Awkward},
		"no candidates in the end":      {fault{wrong: gives("mkdir", 5, true, syscall.EDQUOT)}, wins, Untried},
		"all rivals take":               {fault{wrong: afterwards("rename", 3, syscall.ENOTEMPTY, nil)}, wins, Broken},
		"no rival takes":                {fault{wrong: gives("rename", 3, true, syscall.EIO)}, wins, Unable},
		"all rivals recover":            {fault{wrong: afterwards("rename a record", 3, syscall.ENOENT, nil)}, wins, Broken},
		"what is made can't be removed": {fault{wrong: gives("rmdir", 1, true, syscall.EBUSY)}, clean, Unable},
	} {
		t.Run(what, func(t *testing.T) {
			u := &unfit{Dir: openDir(t, t.TempDir()), fault: c.fault}
			var got []string
			for _, s := range Try(u, self(t), true) {
				if s.Name == c.name && s.Outcome == c.want && s.Text != "" {
					return
				}
				got = append(got, s.Name+": "+s.Text)
			}
			t.Errorf("no outcome %d of %q, but %q", c.want, c.name, got)
		})
	}
}

// afterwards is replaced, from the n-th call on.
func afterwards(call string, n int, from, to error) func(string, int, func() error) error {
	return func(c string, i int, do func() error) error {
		err := do()
		if c == call && i >= n && errors.Is(err, from) {
			return to
		}
		return err
	}
}
