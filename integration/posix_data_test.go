package integration

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	posixCases["truncate"] = posixTruncate
	posixCases["size limits"] = posixSizeLimits
	posixCases["times given"] = posixTimesGiven
	posixCases["times changed"] = posixTimesChanged
	posixCases["flags of open"] = posixFlagsOfOpen
	posixCases["mapping"] = posixMapping
	posixCases["removed and open"] = posixRemovedOpen
	posixCases["allocate and seek"] = posixAllocate
	posixCases["attributes"] = posixAttributes
	posixCases["directories read"] = posixDirectoriesRead
}

func posixTruncate(p *posix) {
	for _, size := range []int64{0, 1, 6, 100, 4096, 4097, 1 << 20, -1, 1 << 40, 1 << 62, 1<<63 - 1} {
		for _, how := range []string{"truncate", "ftruncate"} {
			p.file("f", 0o644, 0, 0)
			if how == "truncate" {
				p.say(fmt.Sprintf("truncate %d", size), unix.Truncate("f", size))
			} else {
				fd, err := unix.Open("f", unix.O_RDWR, 0)
				p.need(err)
				p.say(fmt.Sprintf("ftruncate %d", size), unix.Ftruncate(fd, size))
				b := make([]byte, 10)
				n, err := unix.Pread(fd, b, 0)
				p.say("read", fmt.Sprintf("%q", b[:max(n, 0)]), err)
				p.need(unix.Close(fd))
			}
			p.stat("f")
		}
	}
	ro, err := unix.Open("f", unix.O_RDONLY, 0)
	p.need(err)
	p.say("of a file open for reading", unix.Ftruncate(ro, 0))
	p.need(unix.Close(ro))
	p.dir("d", 0o755, 0, 0)
	p.need(unix.Mkfifo("p", 0o644))
	p.say("of a directory", unix.Truncate("d", 0))
	p.say("of a fifo", unix.Truncate("p", 0))
}

// posixSizeLimits writes beyond the process's own limit and the largest file.
func posixSizeLimits(p *posix) {
	var was unix.Rlimit
	p.need(unix.Getrlimit(unix.RLIMIT_FSIZE, &was))
	p.need(unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 10000, Max: was.Max}))
	defer func() { p.need(unix.Setrlimit(unix.RLIMIT_FSIZE, &was)) }()
	fd, err := unix.Open("f", unix.O_CREAT|unix.O_RDWR, 0o644)
	p.need(err)
	for _, off := range []int64{0, 9990, 10000, 20000} {
		n, err := unix.Pwrite(fd, make([]byte, 100), off)
		p.say(fmt.Sprintf("write at %d", off), n, err)
	}
	p.say("ftruncate", unix.Ftruncate(fd, 20000))
	p.say("truncate", unix.Truncate("f", 20000))
	p.say("fallocate", unix.Fallocate(fd, 0, 0, 20000))
	p.need(unix.Close(fd))
	p.stat("f")
}

func posixTimesGiven(p *posix) {
	p.file("f", 0o666, ann, ann)
	p.dir("d", 0o777, ann, ann)
	p.need(unix.Symlink("f", "l"))
	times := []struct {
		name string
		ts   []unix.Timespec
	}{
		{"1, 2", []unix.Timespec{{Sec: 1, Nsec: 1}, {Sec: 2, Nsec: 999999999}}},
		{"before 1970", []unix.Timespec{{Sec: -1}, {Sec: -1000000000, Nsec: 5}}},
		{"beyond 32 bits", []unix.Timespec{{Sec: 1 << 32}, {Sec: 1<<33 - 1}}},
		{"the second only", []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: 100}}},
		{"the first only", []unix.Timespec{{Sec: 200}, {Nsec: unix.UTIME_OMIT}}},
		{"none", []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}},
		{"invalid", []unix.Timespec{{Nsec: 1000000000}, {Nsec: 5}}},
	}
	for _, name := range []string{"f", "d", "l"} {
		for _, t := range times {
			p.say(name+" "+t.name, unix.UtimesNanoAt(unix.AT_FDCWD, name, t.ts, unix.AT_SYMLINK_NOFOLLOW))
			var st unix.Stat_t
			p.need(unix.Lstat(name, &st))
			p.say("times", st.Atim, st.Mtim)
		}
	}
	now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	half := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_OMIT}}
	for _, mode := range []uint32{0o666, 0o644} {
		p.need(unix.Chmod("f", mode))
		p.as(bob, []int{bob}, func() {
			p.say(fmt.Sprintf("another, now %o", mode), unix.UtimesNanoAt(unix.AT_FDCWD, "f", now, 0))
			p.say(fmt.Sprintf("another, half now %o", mode), unix.UtimesNanoAt(unix.AT_FDCWD, "f", half, 0))
			p.say(fmt.Sprintf("another, a time %o", mode), unix.UtimesNanoAt(unix.AT_FDCWD, "f", times[0].ts, 0))
		})
	}
	p.need(unix.Chmod("f", 0o444))
	p.as(ann, []int{ann}, func() {
		p.say("the owner, now", unix.UtimesNanoAt(unix.AT_FDCWD, "f", now, 0))
		p.say("the owner, a time", unix.UtimesNanoAt(unix.AT_FDCWD, "f", times[0].ts, 0))
	})
	fd, err := unix.Open("f", unix.O_RDONLY, 0)
	p.need(err)
	p.say("of an open file", unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), times[0].ts, 0))
	p.need(unix.Close(fd))
}

// posixTimesChanged says which times of a file each operation changes, and
// whether one that changes names changes that of the directory. The lock of
// any other may change it too.
func posixTimesChanged(p *posix) {
	ops := []struct {
		name  string
		do    func() error
		names bool
	}{
		{"chmod", func() error { return unix.Chmod("d/f", 0o600) }, false},
		{"chown", func() error { return unix.Chown("d/f", 0, 0) }, false},
		{"link", func() error { return unix.Link("d/f", "d/g") }, true},
		{"unlink the other name", func() error { return unix.Unlink("d/g") }, true},
		{"rename", func() error { return unix.Rename("d/f", "d/h") }, true},
		{"rename back", func() error { return unix.Rename("d/h", "d/f") }, true},
		{"write", func() error { return os.WriteFile("d/f", []byte("more text\n"), 0o644) }, false},
		{"append", func() error {
			fd, err := unix.Open("d/f", unix.O_WRONLY|unix.O_APPEND, 0)
			p.need(err)
			defer unix.Close(fd)
			_, err = unix.Write(fd, []byte("more\n"))
			return err
		}, false},
		{"truncate", func() error { return unix.Truncate("d/f", 3) }, false},
		{"set an attribute", func() error { return unix.Setxattr("d/f", "user.x", []byte("x"), 0) }, false},
		{"open for reading", func() error { return closing(unix.Open("d/f", unix.O_RDONLY, 0)) }, false},
		{"chmod of the directory", func() error { return unix.Chmod("d", 0o700) }, false},
		{"mkdir", func() error { return unix.Mkdir("d/sub", 0o755) }, true},
		{"rmdir", func() error { return unix.Rmdir("d/sub") }, true},
		{"symlink", func() error { return unix.Symlink("x", "d/l") }, true},
		{"failing unlink", func() error { return unix.Unlink("d/none") }, false},
		{"failing rmdir", func() error { return unix.Rmdir("d/f") }, false},
	}
	p.dir("d", 0o755, 0, 0)
	p.file("d/f", 0o644, 0, 0)
	p.file("clock", 0o644, 0, 0)
	for _, op := range ops {
		var before, after [2]unix.Stat_t
		look := func(at *[2]unix.Stat_t) {
			unix.Lstat("d/f", &at[0]) // it may have another name
			p.need(unix.Lstat("d", &at[1]))
		}
		look(&before)
		p.tick()
		err := op.do()
		look(&after)
		p.say(op.name, err, "mtime", before[0].Mtim != after[0].Mtim, "ctime", before[0].Ctim != after[0].Ctim,
			"directory", op.names && before[1].Mtim != after[1].Mtim)
	}
}

// tick returns when the clock of the file system has gone on.
func (p *posix) tick() {
	var was, is unix.Stat_t
	p.need(unix.Stat("clock", &was))
	for deadline := time.Now().Add(bound); is.Ctim == was.Ctim || is.Ctim == (unix.Timespec{}); {
		p.need(unix.Chmod("clock", 0o644))
		p.need(unix.Stat("clock", &is))
		if time.Now().After(deadline) {
			p.need(fmt.Errorf("the clock stands still"))
		}
	}
}

func posixFlagsOfOpen(p *posix) {
	p.file("f", 0o644, 0, 0)
	for _, flags := range []int{
		unix.O_WRONLY | unix.O_APPEND, unix.O_RDWR | unix.O_SYNC, unix.O_RDWR | unix.O_DSYNC, unix.O_RDWR | unix.O_NONBLOCK,
		unix.O_RDWR | unix.O_NOATIME, unix.O_RDWR | unix.O_APPEND | unix.O_SYNC, unix.O_RDONLY | unix.O_TRUNC, unix.O_WRONLY | unix.O_CREAT,
		unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL, unix.O_RDONLY | unix.O_CREAT | unix.O_DIRECTORY, unix.O_WRONLY | unix.O_RDWR,
	} {
		p.need(os.WriteFile("f", []byte("hello\n"), 0o644))
		fd, err := unix.Open("f", flags, 0o644)
		p.say(fmt.Sprintf("open %#o", flags), err)
		if err != nil {
			continue
		}
		got, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		p.say("flags", fmt.Sprintf("%#o", got), err)
		n, err := unix.Pwrite(fd, []byte("XY"), 1)
		p.say("pwrite", n, err)
		b := make([]byte, 20)
		n, err = unix.Pread(fd, b, 0)
		p.say("pread", n, err, fmt.Sprintf("%q", b[:max(n, 0)]))
		// Appending can be switched on and off.
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, got^unix.O_APPEND)
		p.say("switch", err)
		n, err = unix.Pwrite(fd, []byte("Z"), 0)
		p.say("pwrite", n, err)
		p.say("fsync", unix.Fsync(fd))
		p.say("fdatasync", unix.Fdatasync(fd))
		p.say("close", unix.Close(fd))
		b, err = os.ReadFile("f")
		p.say("file", fmt.Sprintf("%q", b), err)
	}
	p.need(unix.Mkfifo("p", 0o644))
	p.open("p", unix.O_WRONLY|unix.O_NONBLOCK, 0)
	p.open("p", unix.O_RDONLY|unix.O_NONBLOCK, 0)
	p.open("p", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_TRUNC, 0)
	p.dir("d", 0o755, 0, 0)
	p.open("d", unix.O_RDONLY|unix.O_TRUNC, 0)
	p.open("d", unix.O_RDONLY|unix.O_CREAT, 0)
	p.open("d", unix.O_PATH, 0)
	p.open("new/", unix.O_CREAT|unix.O_WRONLY, 0o644)
}

// posixMapping stores into mappings of a file that other handles of the same
// file are open on, by any of which the kernel may write what was stored.
func posixMapping(p *posix) {
	for _, mapped := range []int{unix.O_RDWR, unix.O_RDWR | unix.O_APPEND, unix.O_RDWR | unix.O_SYNC, unix.O_RDWR | unix.O_DIRECT} {
		for _, beside := range []int{unix.O_WRONLY, unix.O_WRONLY | unix.O_APPEND, unix.O_WRONLY | unix.O_DIRECT, unix.O_RDONLY} {
			p.need(os.WriteFile("f", []byte(strings.Repeat("x", 5000)), 0o644))
			fd, err := unix.Open("f", mapped, 0)
			p.need(err)
			m, err := unix.Mmap(fd, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			p.say(fmt.Sprintf("map %#o", mapped), err)
			p.need(unix.Close(fd))
			other, err := unix.Open("f", beside, 0)
			p.say(fmt.Sprintf("open %#o", beside), err)
			if m != nil {
				m[0], m[4999] = 'A', 'B'
				p.say("msync", unix.Msync(m, unix.MS_SYNC))
				m[1] = 'C'
				p.say("munmap", unix.Munmap(m))
			}
			if beside&unix.O_APPEND != 0 {
				_, err = unix.Write(other, []byte("end"))
				p.say("append", err)
			}
			p.say("close", unix.Close(other))
			b, err := os.ReadFile("f")
			p.say("file", err, len(b), fmt.Sprintf("%q", b[:3]), fmt.Sprintf("%q", b[4998:]))
		}
	}
}

func posixRemovedOpen(p *posix) {
	for _, how := range []string{"unlink", "rename onto"} {
		p.file("f", 0o644, 0, 0)
		fd, err := unix.Open("f", unix.O_RDWR, 0)
		p.need(err)
		if how == "unlink" {
			p.say(how, unix.Unlink("f"))
		} else {
			p.file("g", 0o644, 0, 0)
			p.say(how, unix.Rename("g", "f"))
		}
		state := func() {
			var st unix.Stat_t
			p.say("fstat", unix.Fstat(fd, &st), fmt.Sprintf("%o", st.Mode), st.Uid, st.Size, st.Nlink)
		}
		state()
		p.say("fchmod", unix.Fchmod(fd, 0o6700))
		p.say("fchown", unix.Fchown(fd, ann, -1))
		p.say("ftruncate", unix.Ftruncate(fd, 3))
		p.say("fsetxattr", unix.Fsetxattr(fd, "user.x", []byte("v"), 0))
		n, err := unix.Fgetxattr(fd, "user.x", make([]byte, 10))
		p.say("fgetxattr", n, err)
		state()
		n, err = unix.Write(fd, []byte("new"))
		p.say("write", n, err)
		p.say("fsync", unix.Fsync(fd))
		proc := fmt.Sprintf("/proc/self/fd/%d", fd)
		b, err := os.ReadFile(proc)
		p.say("read again", fmt.Sprintf("%q", b), err)
		again, err := unix.Open(proc, unix.O_RDWR, 0)
		p.say("open again", err)
		n, err = unix.Pwrite(again, []byte("!"), 10)
		p.say("write there", n, err)
		p.say("close", unix.Close(again))
		state()
		p.say("link", unix.Linkat(unix.AT_FDCWD, proc, unix.AT_FDCWD, "h", unix.AT_SYMLINK_FOLLOW))
		p.say("close", unix.Close(fd))
		os.Remove("f")
	}
	p.dir("d", 0o755, 0, 0)
	fd, err := unix.Open("d", unix.O_RDONLY, 0)
	p.need(err)
	p.say("rmdir", unix.Rmdir("d"))
	n, err := unix.ReadDirent(fd, make([]byte, 1000))
	p.say("readdir of a removed directory", n, err)
	p.say("make in it", unix.Mkdirat(fd, "x", 0o755))
	p.say("create in it", closing(unix.Openat(fd, "x", unix.O_CREAT|unix.O_WRONLY, 0o644)))
	p.need(unix.Close(fd))
}

func posixAllocate(p *posix) {
	modes := map[string]uint32{
		"allocate": 0, "keep size": unix.FALLOC_FL_KEEP_SIZE, "punch": unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE,
		"punch and grow": unix.FALLOC_FL_PUNCH_HOLE, "unknown": 1 << 15,
	}
	for _, name := range []string{"allocate", "keep size", "punch", "punch and grow", "unknown"} {
		for _, at := range [][2]int64{{0, 8192}, {4096, 4096}, {1 << 16, 100}, {0, 0}, {-1, 5}, {1 << 62, 1 << 62}} {
			p.need(os.WriteFile("f", []byte(strings.Repeat("x", 12288)), 0o644))
			fd, err := unix.Open("f", unix.O_RDWR, 0)
			p.need(err)
			p.say(fmt.Sprintf("%s %v", name, at), unix.Fallocate(fd, modes[name], at[0], at[1]))
			p.need(unix.Close(fd))
			p.stat("f")
			b, err := os.ReadFile("f")
			p.say("zeroes", strings.Count(string(b), "\x00"), err)
		}
	}
	fd, err := unix.Open("f", unix.O_RDWR|unix.O_TRUNC, 0)
	p.need(err)
	_, err = unix.Pwrite(fd, []byte("x"), 1<<20)
	p.need(err)
	for _, off := range []int64{0, 1 << 19, 1 << 20, 1<<20 + 1, -1} {
		for _, whence := range []int{unix.SEEK_SET, unix.SEEK_END, unix.SEEK_DATA, unix.SEEK_HOLE} {
			at, err := unix.Seek(fd, off, whence)
			p.say(fmt.Sprintf("seek %d %d", off, whence), at, err)
		}
	}
	p.need(unix.Close(fd))
	ro, err := unix.Open("f", unix.O_RDONLY, 0)
	p.need(err)
	p.say("allocate in a file open for reading", unix.Fallocate(ro, 0, 0, 10))
	p.need(unix.Close(ro))
}

func posixAttributes(p *posix) {
	p.file("f", 0o644, ann, ann)
	p.dir("d", 0o755, ann, ann)
	p.dir("s", 0o1777, bob, bob)
	p.need(unix.Symlink("f", "l"))
	for _, name := range []string{"f", "d", "s", "l"} {
		for _, attr := range []string{"user.a", "user.", "user", "nothing.a", "trusted.a", "security.a", "user." + strings.Repeat("n", 250), "user." + strings.Repeat("n", 251), ""} {
			what := name + " " + short(attr)
			for _, size := range []int{0, 1, 1000, 65537} {
				p.say(fmt.Sprintf("set %s %d", what, size), unix.Lsetxattr(name, attr, make([]byte, size), 0))
			}
			p.say("create "+what, unix.Lsetxattr(name, attr, []byte("v"), unix.XATTR_CREATE))
			p.say("replace "+what, unix.Lsetxattr(name, attr, []byte("value"), unix.XATTR_REPLACE))
			for _, size := range []int{0, 1, 5, 100} {
				b := make([]byte, size)
				n, err := unix.Lgetxattr(name, attr, b)
				p.say(fmt.Sprintf("get %s %d", what, size), n, err, fmt.Sprintf("%q", b[:min(max(n, 0), size)]))
			}
			p.as(ann, []int{ann}, func() {
				p.say("set as ann "+what, unix.Lsetxattr(name, attr, []byte("ann"), 0))
				n, err := unix.Lgetxattr(name, attr, make([]byte, 100))
				p.say("get as ann "+what, n, err)
			})
			for _, size := range []int{0, 3, 1000} {
				n, err := unix.Llistxattr(name, make([]byte, size))
				p.say(fmt.Sprintf("list %s %d", what, size), n, err)
			}
			p.say("remove "+what, unix.Lremovexattr(name, attr))
			p.say("remove again "+what, unix.Lremovexattr(name, attr))
		}
	}
	// CAP_NET_RAW, permitted and effective (struct vfs_cap_data of
	// linux/capability.h): a write takes it away, even root's.
	capability := []byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	p.say("set a capability", unix.Setxattr("f", "security.capability", capability, 0))
	b := make([]byte, 100)
	n, err := unix.Getxattr("f", "security.capability", b)
	p.say("get a capability", fmt.Sprintf("%x", b[:max(n, 0)]), err)
	p.need(os.WriteFile("f", []byte("x"), 0))
	n, err = unix.Getxattr("f", "security.capability", b)
	p.say("get it after a write", fmt.Sprintf("%x", b[:max(n, 0)]), err)
}

// posixDirectoriesRead reads a large directory whose entries are removed
// meanwhile, and compares what it says of each with stat(2).
func posixDirectoriesRead(p *posix) {
	const many = 160
	p.dir("d", 0o755, 0, 0)
	for i := range many {
		p.file(fmt.Sprintf("d/%03d", i), 0o644, 0, 0)
	}
	p.need(unix.Mkfifo("d/fifo", 0o644))
	p.need(unix.Symlink("x", "d/link"))
	p.dir("d/dir", 0o755, 0, 0)
	f, err := os.Open("d")
	p.need(err)
	defer f.Close()
	seen := map[string]int{}
	for {
		entries, err := f.ReadDir(50)
		for _, e := range entries {
			seen[e.Name()]++
			info, err := e.Info()
			p.need(err)
			if info.Mode().Type() != e.Type() {
				p.say(e.Name(), info.Mode().Type(), e.Type())
			}
			p.need(os.Remove("d/" + e.Name()))
		}
		if err != nil {
			break
		}
	}
	twice := 0
	for _, n := range seen {
		if n > 1 {
			twice++
		}
	}
	left, err := os.ReadDir("d")
	p.say("names", len(seen), "twice", twice, "left", len(left), err)
	p.say("rmdir", unix.Rmdir("d"))
	d, err := unix.Open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	p.need(err)
	n, err := unix.ReadDirent(d, make([]byte, 5))
	p.say("too small a buffer", n, err)
	p.say("fsync", unix.Fsync(d))
	p.need(unix.Close(d))
}
