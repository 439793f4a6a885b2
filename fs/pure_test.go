package fs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

func TestApart(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a/b", "ab"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a/b", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		source, target string
		says           string
	}{
		{"a", "ab", ""},
		{"ab", "a", ""},
		{"a", "a", ""},
		{"a", "a/b", "the mountpoint"},
		{"a/b", "a", "the source"},
		{"a", "link", "the mountpoint"},
		{"link", "a/b", ""},
		{"a/../ab", "ab", ""},
	} {
		got, err := apart(filepath.Join(dir, test.source), filepath.Join(dir, test.target))
		if test.says != "" {
			if !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s at %s: %v, want EINVAL for %s", test.source, test.target, err, test.says)
			}
			continue
		}
		want, werr := filepath.EvalSymlinks(filepath.Join(dir, test.target))
		if got != want || errors.Join(err, werr) != nil {
			t.Errorf("%s at %s: %q, %v, want %q", test.source, test.target, got, err, want)
		}
	}
	if _, err := apart(filepath.Join(dir, "none"), dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a source that is not there: %v", err)
	}
}

func TestFindDevice(t *testing.T) {
	const text = `22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw
40 22 0:45 / /mnt/a\040b rw,nosuid,nodev - fuse.lockfs /srv rw,user_id=0
41 22 0:46 / /mnt/c rw - tmpfs none rw
42 41 0:47 / /mnt/c rw - fuse.lockfs /srv rw
short
43 22 x:y / /mnt/d rw - tmpfs none rw
`
	for _, test := range []struct {
		target string
		dev    uint64
		ok     bool
	}{
		{"/", unix.Mkdev(254, 1), true},
		{"/mnt/a b", unix.Mkdev(0, 45), true},
		{"/mnt/c", unix.Mkdev(0, 47), true},
		{"/mnt/d", 0, false},
		{"/mnt", 0, false},
	} {
		if dev, ok := findDevice(text, test.target); dev != test.dev || ok != test.ok {
			t.Errorf("%q: %#x, %v, want %#x, %v", test.target, dev, ok, test.dev, test.ok)
		}
	}
}

func TestModeCarriesUmask(t *testing.T) {
	for _, mode := range []uint32{unix.S_IFSOCK | 0o777, unix.S_IFREG | 0o4755, 0o644, 0} {
		for _, umask := range []uint32{0, 0o22, 0o777} {
			if m, u := splitMode(joinMode(mode, umask)); m != mode || u != int(umask) {
				t.Errorf("mode %o and umask %o became %o and %o", mode, umask, m, u)
			}
		}
	}
}

func TestFlagWords(t *testing.T) {
	for _, test := range []struct {
		flags uintptr
		want  []string
	}{
		{0, nil},
		{unix.MS_NOSUID | unix.MS_NODEV, nil}, // fusermount3's own
		{unix.MS_RDONLY | unix.MS_NOEXEC | unix.MS_NOATIME, []string{"ro", "noexec", "noatime"}},
	} {
		if got := flagWords(test.flags); !slices.Equal(got, test.want) {
			t.Errorf("%#x: %q, want %q", test.flags, got, test.want)
		}
	}
}

func TestTimespec(t *testing.T) {
	const set, now = fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW
	for _, test := range []struct {
		valid uint32
		want  unix.Timespec
	}{
		{0, unix.Timespec{Nsec: unix.UTIME_OMIT}},
		{set, unix.Timespec{Sec: 5, Nsec: 6}},
		{set | now, unix.Timespec{Nsec: unix.UTIME_NOW}},
		{fuse.FATTR_ATIME, unix.Timespec{Nsec: unix.UTIME_OMIT}},
	} {
		if got := timespec(test.valid, set, now, 5, 6); got != test.want {
			t.Errorf("%#x: %v, want %v", test.valid, got, test.want)
		}
	}
}

func TestAligned(t *testing.T) {
	for _, n := range []int{1, 511, 4096, 1 << 20} {
		buf := aligned(n)
		if len(buf) != n || uintptr(unsafe.Pointer(&buf[0]))%directAlign != 0 {
			t.Errorf("%d bytes: %d bytes at %p", n, len(buf), &buf[0])
		}
	}
}

// A descriptor is closed when the last of its users has ended, once, and never
// while one uses it.
func TestDescriptor(t *testing.T) {
	fd, err := unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := newDescriptor(fd)
	closed := 0
	d.closed = func(err error) {
		closed++
		if err != nil {
			t.Errorf("close: %v", err)
		}
	}
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for {
				err := d.use(func(fd int) error {
					var st unix.Stat_t
					return unix.Fstat(fd, &st)
				})
				if err == unix.ENOTCONN {
					return
				}
				if err != nil {
					t.Errorf("an open descriptor: %v", err)
					return
				}
			}
		})
	}
	d.close()
	d.close()
	users.Wait()
	if closed != 1 {
		t.Errorf("it was closed %d times", closed)
	}
}

// After a take each file is asked for once.
func TestFresh(t *testing.T) {
	var f fresh
	a, b := fusefs.StableAttr{Ino: 1}, fusefs.StableAttr{Ino: 1, Gen: 2}
	want := func(id fusefs.StableAttr, stale bool, when string) {
		t.Helper()
		if got := f.stale(id); got != stale {
			t.Errorf("%s: stale %v", when, got)
		}
	}
	want(a, false, "never taken")
	for range 2 {
		f.reset()
		want(a, true, "after a take")
		want(a, false, "asked for")
		want(b, true, "another file")
	}
	f.forget(a)
	want(a, true, "could not be asked for")
	for i := range uint64(freshMost) {
		f.stale(fusefs.StableAttr{Ino: 2 + i})
	}
	if len(f.files) > freshMost {
		t.Errorf("%d are known to be fresh", len(f.files))
	}
	want(a, true, "forgotten for others")
}

// The maps of directories are made anew when most are gone, and lose none.
func TestShrink(t *testing.T) {
	tr := &tree{dirs: map[fusefs.StableAttr]*dirNode{}, ids: map[uint64]*dirNode{}, idle: newIdleDirs()}
	const most = 20_000
	for i := range uint64(most) {
		n := &dirNode{tree: tr, id: fusefs.StableAttr{Mode: unix.S_IFDIR, Ino: 10 + i}, known: 1}
		tr.dirs[n.id] = n
		tr.known(10+i, n.id)
	}
	for i := range uint64(most) {
		if i%500 != 0 {
			tr.forget(10+i, 1)
		}
	}
	if tr.idsMost == most || len(tr.ids) != most/500 || len(tr.dirs) != most/500 {
		t.Errorf("%d at the most, %d and %d are left", tr.idsMost, len(tr.ids), len(tr.dirs))
	}
	for i := uint64(0); i < most; i += 500 {
		if n := tr.numbered(10 + i); n == nil || n.id.Ino != 10+i {
			t.Errorf("%d is lost", i)
		}
	}
}

func TestWritesAreToldApart(t *testing.T) {
	for _, c := range []struct {
		name           string
		flags, write   uint32
		appends, pages bool
	}{
		{"plain", unix.O_WRONLY, 0, false, false},
		{"appending", unix.O_WRONLY | unix.O_APPEND, 0, true, false},
		{"pages", unix.O_RDWR, fuse.WRITE_CACHE, false, true},
		{"pages of a file that is appended to", unix.O_RDWR | unix.O_APPEND, fuse.WRITE_CACHE, false, true},
	} {
		in := &fuse.WriteIn{Offset: 1<<62 - 1, Flags: c.flags, WriteFlags: c.write}
		in.Offset = joinOffset(in)
		in.Offset = joinOffset(in) // Writev, and then Write
		off, appends, pages := splitOffset(int64(in.Offset))
		if off != 1<<62-1 || appends != c.appends || pages != c.pages {
			t.Errorf("%s: %d, %v, %v", c.name, off, appends, pages)
		}
	}
}
