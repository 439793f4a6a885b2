package fs

import (
	"slices"
	"syscall"
	"testing"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

func TestThrough(t *testing.T) {
	f, g, h := fusefs.StableAttr{Ino: 1}, fusefs.StableAttr{Ino: 2}, fusefs.StableAttr{Ino: 3}
	var known []int32 // what the kernel knows
	next, refuses := int32(0), syscall.Errno(0)
	tr := &through{on: true}
	open := func(file fusefs.StableAttr) int32 {
		t.Helper()
		o, no := tr.open(file, func() (int32, syscall.Errno) {
			if refuses != 0 {
				return 0, refuses
			}
			next++
			known = append(known, next)
			return next, 0
		})
		if no != refuses && no != 0 {
			t.Errorf("open: %v", no)
		}
		if o == nil {
			return 0
		}
		return o.id
	}
	closed := func(file fusefs.StableAttr) {
		t.Helper()
		if no := tr.close(file, func(id int32) syscall.Errno {
			known = slices.DeleteFunc(known, func(k int32) bool { return k == id })
			return 0
		}); no != 0 {
			t.Errorf("close: %v", no)
		}
	}
	knows := func(want ...int32) {
		t.Helper()
		if !slices.Equal(known, want) {
			t.Errorf("the kernel knows %v, want %v", known, want)
		}
	}
	// All handles of a file have one id, which goes with the last.
	if a, b, c := open(f), open(g), open(f); a != 1 || b != 2 || c != 1 {
		t.Errorf("ids %d, %d, %d", a, b, c)
	}
	closed(f)
	knows(1, 2)
	closed(f)
	knows(2)
	if id := open(f); id != 3 {
		t.Errorf("opened anew it has the id %d", id)
	}
	// One that is to be written ends it: for itself at once, for those that are
	// open so with their last handle, since all handles of a file are of a kind.
	if no := tr.end(h); no != 0 {
		t.Errorf("a file that nobody reads can't be written: %v", no)
	}
	if no := tr.end(f); no != syscall.ETXTBSY {
		t.Errorf("a file that is read can be written: %v", no)
	}
	if a, b := open(f), open(h); a != 3 || b != 0 {
		t.Errorf("then the ids are %d, %d", a, b)
	}
	closed(f)
	closed(f)
	knows(2)
	if id, no := open(f), tr.end(f); id != 0 || no != 0 {
		t.Errorf("when it is closed: %d, %v", id, no)
	}
	closed(g)
	knows()

	// A kernel that refuses is asked once.
	tr, refuses = &through{on: true}, syscall.EPERM
	open(f)
	refuses = 0
	if id := open(g); id != 0 {
		t.Error("a kernel that has refused is asked again")
	}
}

func TestJoinThrough(t *testing.T) {
	for _, id := range []int32{1, 2, mostThrough} {
		flags, got := splitThrough(joinThrough(fuse.FOPEN_NOFLUSH, id))
		if flags != fuse.FOPEN_NOFLUSH|fuse.FOPEN_PASSTHROUGH || got != id {
			t.Errorf("of id %d there are flags %#x and %d", id, flags, got)
		}
	}
	if flags, id := splitThrough(fuse.FOPEN_DIRECT_IO); flags != fuse.FOPEN_DIRECT_IO || id != 0 {
		t.Errorf("of flags alone there are %#x and %d", flags, id)
	}
}
