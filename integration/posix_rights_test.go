package integration

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func init() {
	posixCases["umask"] = posixUmask
	posixCases["rights to files"] = posixRightsToFiles
	posixCases["rights to directories"] = posixRightsToDirectories
	posixCases["rights in directories"] = posixRightsInDirectories
	posixCases["chmod"] = posixChmod
	posixCases["chown"] = posixChown
	posixCases["set-id bits and writes"] = posixSetIDWrites
	posixCases["setgid directory"] = posixSetgidDirectory
	posixCases["groups that change"] = posixGroupsChange
}

func posixUmask(p *posix) {
	for _, umask := range []int{0, 0o022, 0o027, 0o077, 0o177, 0o777} {
		for _, mode := range []uint32{0, 0o444, 0o644, 0o666, 0o755, 0o777, 0o1777, 0o7777} {
			unix.Umask(umask)
			what := fmt.Sprintf("umask %o mode %o ", umask, mode)
			p.say(what+"open", closing(unix.Open("f", unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, mode)))
			p.say(what+"mkdir", unix.Mkdir("d", mode))
			p.say(what+"mknod", unix.Mknod("p", unix.S_IFIFO|mode, 0))
			for _, name := range []string{"f", "d", "p"} {
				p.stat(name)
				p.need(os.Remove(name))
			}
		}
	}
}

// posixRightsToFiles opens files of all modes as owner, member of the group,
// and neither.
func posixRightsToFiles(p *posix) {
	p.file("f", 0o644, ann, crew)
	for _, mode := range []uint32{0o700, 0o070, 0o007, 0o600, 0o060, 0o006, 0o400, 0o040, 0o004, 0o200, 0o020, 0o002, 0o477, 0o747, 0o774, 0} {
		p.need(unix.Chmod("f", mode))
		for _, who := range []struct {
			uid    int
			groups []int
		}{{ann, []int{ann}}, {bob, []int{crew}}, {bob, []int{bob, crew}}, {bob, []int{bob}}} {
			what := fmt.Sprintf("%o as %v ", mode, who)
			p.as(who.uid, who.groups, func() {
				for _, flags := range []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR, unix.O_RDONLY | unix.O_TRUNC, unix.O_WRONLY | unix.O_APPEND, unix.O_RDONLY | unix.O_NOATIME} {
					p.say(fmt.Sprintf("%sopen %#o", what, flags), closing(unix.Open("f", flags, 0)))
				}
				for _, access := range []uint32{unix.R_OK, unix.W_OK, unix.X_OK} {
					p.say(fmt.Sprintf("%saccess %d", what, access), unix.Faccessat(unix.AT_FDCWD, "f", access, unix.AT_EACCESS))
				}
				p.say(what+"truncate", unix.Truncate("f", 1))
				p.say(what+"read an attribute", xattr("f"))
				p.say(what+"set an attribute", unix.Setxattr("f", "user.x", []byte("x"), 0))
			})
		}
	}
}

func xattr(name string) error {
	_, err := unix.Getxattr(name, "user.none", make([]byte, 10))
	return err
}

// posixRightsToDirectories opens and searches directories of all modes.
func posixRightsToDirectories(p *posix) {
	p.dir("d", 0o755, ann, crew)
	p.file("d/f", 0o666, 0, 0)
	for _, mode := range []uint32{0o600, 0o060, 0o006, 0o500, 0o050, 0o005, 0o100, 0o010, 0o001, 0o477, 0o747, 0o774, 0o300, 0o030, 0o003, 0} {
		p.need(unix.Chmod("d", mode))
		for _, who := range []struct {
			uid    int
			groups []int
		}{{ann, []int{ann}}, {bob, []int{bob, crew}}, {bob, []int{bob}}} {
			what := fmt.Sprintf("%o as %v ", mode, who)
			p.as(who.uid, who.groups, func() {
				p.say(what+"open", closing(unix.Open("d", unix.O_RDONLY, 0)))
				names, err := os.ReadDir("d")
				p.say(what+"list", err == nil, len(names))
				p.say(what+"look", unix.Access("d/f", unix.F_OK))
				p.say(what+"look at what is not there", unix.Access("d/none", unix.F_OK))
				p.say(what+"open a file", closing(unix.Open("d/f", unix.O_WRONLY, 0)))
				p.say(what+"make", unix.Mkdir("d/new", 0o755))
				p.say(what+"rename", unix.Rename("d/new", "d/newer"))
				p.say(what+"remove", unix.Rmdir("d/newer"))
			})
			os.Remove("d/new")
			os.Remove("d/newer")
		}
	}
}

// posixRightsInDirectories makes names where that is not allowed, and files
// that their own maker may not open.
func posixRightsInDirectories(p *posix) {
	p.dir("ro", 0o755, 0, 0)
	p.dir("rw", 0o777, 0, 0)
	p.file("ro/f", 0o666, 0, 0)
	p.as(ann, []int{ann}, func() {
		p.open("ro/new", unix.O_CREAT|unix.O_WRONLY, 0o644)
		p.open("ro/f", unix.O_CREAT|unix.O_WRONLY, 0o644)
		p.open("ro/f", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)
		p.say("mkdir", unix.Mkdir("ro/d", 0o755))
		p.say("symlink", unix.Symlink("x", "ro/l"))
		p.say("link", unix.Link("ro/f", "ro/g"))
		p.say("unlink", unix.Unlink("ro/f"))
		p.say("rename", unix.Rename("ro/f", "rw/f"))
		for _, mode := range []uint32{0, 0o444, 0o222, 0o111} {
			name := fmt.Sprintf("rw/%o", mode)
			fd, err := unix.Open(name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, mode)
			p.say("made "+name, err)
			n, err := unix.Write(fd, []byte("x"))
			p.say("written", n, err)
			p.say("closed", unix.Close(fd))
			p.open(name, unix.O_RDWR, 0)
			p.stat(name)
		}
	})
}

func posixChmod(p *posix) {
	p.file("f", 0o644, ann, crew)
	p.dir("d", 0o755, ann, crew)
	for _, name := range []string{"f", "d"} {
		for _, mode := range []uint32{0o1777, 0o2755, 0o4755, 0o6777, 0o2644, 0o7777, 0} {
			p.as(ann, []int{ann, crew}, func() { p.say(fmt.Sprintf("owner in the group %o", mode), unix.Chmod(name, mode)) })
			p.stat(name)
			p.as(ann, []int{ann}, func() { p.say(fmt.Sprintf("owner not in the group %o", mode), unix.Chmod(name, mode)) })
			p.stat(name)
			p.as(bob, []int{crew}, func() { p.say(fmt.Sprintf("another %o", mode), unix.Chmod(name, 0o777)) })
			p.say(fmt.Sprintf("root %o", mode), unix.Chmod(name, mode))
			p.stat(name)
		}
	}
}

func posixChown(p *posix) {
	for _, name := range []string{"f", "d"} {
		for _, mode := range []uint32{0o6755, 0o2644} {
			reset := func() {
				os.Remove(name)
				if name == "f" {
					p.file(name, mode, ann, ann)
				} else {
					p.dir(name, mode, ann, ann)
				}
			}
			for _, to := range [][2]int{{-1, -1}, {ann, -1}, {-1, crew}, {-1, other}, {bob, -1}, {ann, crew}, {0, 0}} {
				reset()
				p.as(ann, []int{ann, crew}, func() { p.say(fmt.Sprintf("%s %o by its owner to %v", name, mode, to), unix.Chown(name, to[0], to[1])) })
				p.stat(name)
				reset()
				p.as(bob, []int{bob, crew}, func() { p.say(fmt.Sprintf("%s %o by another to %v", name, mode, to), unix.Chown(name, to[0], to[1])) })
				p.stat(name)
				reset()
				p.say(fmt.Sprintf("%s %o by root to %v", name, mode, to), unix.Chown(name, to[0], to[1]))
				p.stat(name)
			}
		}
	}
}

// posixSetIDWrites changes files with set-id bits, which clears them, unless
// root does it.
func posixSetIDWrites(p *posix) {
	p.file("source", 0o644, 0, 0)
	writes := []struct {
		name string
		do   func(fd int) error
	}{
		{"write", func(fd int) error { _, err := unix.Write(fd, []byte("x")); return err }},
		{"write nothing", func(fd int) error { _, err := unix.Write(fd, nil); return err }},
		{"pwrite", func(fd int) error { _, err := unix.Pwrite(fd, []byte("x"), 100); return err }},
		{"ftruncate", func(fd int) error { return unix.Ftruncate(fd, 2) }},
		{"ftruncate to the same size", func(fd int) error { return unix.Ftruncate(fd, 6) }},
		{"fallocate", func(fd int) error { return unix.Fallocate(fd, 0, 0, 100) }},
		{"truncate", func(int) error { return unix.Truncate("f", 3) }},
		{"open to truncate", func(int) error { return closing(unix.Open("f", unix.O_WRONLY|unix.O_TRUNC, 0)) }},
		{"copy", func(fd int) error {
			from, err := unix.Open("source", unix.O_RDONLY, 0)
			p.need(err)
			defer unix.Close(from)
			_, err = unix.CopyFileRange(from, nil, fd, nil, 3, 0)
			return err
		}},
		{"times", func(int) error { return unix.UtimesNanoAt(unix.AT_FDCWD, "f", nil, 0) }},
	}
	for _, mode := range []uint32{0o4777, 0o2777, 0o6666} {
		for _, write := range writes {
			for _, uid := range []int{0, ann, bob} {
				p.file("f", mode, ann, crew)
				do := func() {
					fd, err := unix.Open("f", unix.O_RDWR, 0)
					p.need(err)
					p.say(fmt.Sprintf("%s %o by %d", write.name, mode, uid), write.do(fd))
					var st unix.Stat_t
					p.say("fstat", unix.Fstat(fd, &st), fmt.Sprintf("%o", st.Mode), st.Size)
					p.need(unix.Close(fd))
				}
				if uid == 0 {
					do()
				} else {
					p.as(uid, []int{uid, other}, do)
				}
				p.stat("f")
				p.need(unix.Unlink("f"))
			}
		}
	}
}

func posixSetgidDirectory(p *posix) {
	p.dir("d", 0o2777, ann, crew)
	p.as(bob, []int{bob}, func() {
		p.open("d/f", unix.O_CREAT|unix.O_WRONLY, 0o2755)
		p.say("mkdir", unix.Mkdir("d/d", 0o755))
		p.say("mkdir in it", unix.Mkdir("d/d/d", 0o755))
		p.say("fifo", unix.Mkfifo("d/p", 0o644))
		p.say("symlink", unix.Symlink("x", "d/l"))
		p.say("socket", unix.Mknod("d/s", unix.S_IFSOCK|0o644, 0))
	})
	for _, name := range []string{"d/f", "d/d", "d/d/d", "d/p", "d/l", "d/s"} {
		p.stat(name)
	}
}

// posixGroupsChange makes files in a directory of a group, to which the
// process belongs at one time and not at another.
func posixGroupsChange(p *posix) {
	p.dir("d", 0o770, 0, crew)
	p.file("d/f", 0o660, 0, crew)
	for i := range 6 {
		groups := []int{bob}
		if i%2 == 1 {
			groups = append(groups, crew)
		}
		p.as(bob, groups, func() {
			p.open("d/f", unix.O_RDWR, 0)
			p.open(fmt.Sprintf("d/new%d", i), unix.O_CREAT|unix.O_RDWR, 0o644)
			p.say("mkdir", unix.Mkdir(fmt.Sprintf("d/dir%d", i), 0o755))
		})
		p.stat(fmt.Sprintf("d/new%d", i))
	}
}
