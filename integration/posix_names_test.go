package integration

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func init() {
	posixCases["name length"] = posixNameLength
	posixCases["path length"] = posixPathLength
	posixCases["names that are not there"] = posixNoNames
	posixCases["rename matrix"] = posixRenameMatrix
	posixCases["rename odd"] = posixRenameOdd
	posixCases["rename sticky"] = posixRenameSticky
	posixCases["link"] = posixLink
	posixCases["symlink"] = posixSymlink
	posixCases["remove odd"] = posixRemoveOdd
	posixCases["remove sticky"] = posixRemoveSticky
	posixCases["mknod"] = posixMknod
}

// naming are the calls that make a name.
var naming = []struct {
	name string
	do   func(path string) error
}{
	{"open", func(path string) error { return closing(unix.Open(path, unix.O_CREAT|unix.O_WRONLY, 0o644)) }},
	{"mkdir", func(path string) error { return unix.Mkdir(path, 0o755) }},
	{"mkfifo", func(path string) error { return unix.Mkfifo(path, 0o644) }},
	{"symlink", func(path string) error { return unix.Symlink("target", path) }},
	{"link", func(path string) error { return unix.Link("old", path) }},
	{"rename", func(path string) error { return unix.Rename("old", path) }},
}

// make says what each of naming answers for a path, and what has come of it.
func (p *posix) make(path string) {
	for _, n := range naming {
		if _, err := os.Lstat("old"); errors.Is(err, os.ErrNotExist) {
			p.file("old", 0o644, 0, 0)
		}
		p.say(n.name+" "+short(path), n.do(path))
		p.stat(path)
		os.RemoveAll(path)
	}
}

func posixNameLength(p *posix) {
	for _, n := range []int{1, 254, 255, 256, 4095} {
		p.make(strings.Repeat("n", n))
	}
	for _, name := range []string{"a\nb", "\xff\xfe", " ", "-", "\\", "..."} {
		p.make(name)
	}
}

// posixPathLength makes a directory whose path from here has such a length
// that a name in it reaches PATH_MAX, or is a byte too long.
func posixPathLength(p *posix) {
	here, err := os.Getwd()
	p.need(err)
	var path string
	for len(path)+201 < unix.PathMax-60 {
		part := strings.Repeat("d", 199)
		p.need(unix.Mkdir(part, 0o755))
		p.need(unix.Chdir(part))
		path += part + "/"
	}
	rest := unix.PathMax - 1 - len(path) // a path may have PATH_MAX-1 bytes
	p.need(unix.Chdir(here))
	p.file("old", 0o644, 0, 0)
	for _, more := range []int{-1, 0, 1} {
		name := path + strings.Repeat("x", rest+more)
		for _, n := range naming {
			if n.name == "link" || n.name == "rename" {
				continue // from another directory
			}
			p.say(n.name+" "+short(name), n.do(name))
			p.stat(name)
			p.say("chmod", unix.Chmod(name, 0o700))
			p.say("truncate", unix.Truncate(name, 3))
			p.say("remove", os.Remove(name) == nil)
		}
		p.say("rename "+short(name), unix.Rename("old", name))
		p.say("rename back", unix.Rename(name, "old"))
	}
	for _, n := range []int{1, 1023, unix.PathMax - 1, unix.PathMax} {
		link := fmt.Sprintf("link%d", n)
		p.say("symlink to "+link, unix.Symlink(strings.Repeat("t", n), link))
		target, err := os.Readlink(link)
		p.say("readlink "+link, err == nil, len(target))
	}
}

func posixNoNames(p *posix) {
	p.file("f", 0o644, 0, 0)
	p.need(unix.Symlink("nowhere", "dangling"))
	p.need(unix.Symlink("loop", "loop"))
	p.dir("d", 0o755, 0, 0)
	for _, name := range []string{"none", "none/x", "f/x", "f/", "dangling", "dangling/x", "loop", "loop/x", "d/", "d/.", "d/..", ".", "..", ""} {
		p.open(name, unix.O_RDONLY, 0)
		p.open(name, unix.O_WRONLY, 0)
		p.open(name, unix.O_RDONLY|unix.O_NOFOLLOW, 0)
		p.open(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		p.open(name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)
		if name == "dangling" {
			p.open(name, unix.O_CREAT|unix.O_WRONLY, 0o644)
			p.stat("nowhere")
			p.need(unix.Unlink("nowhere"))
		}
		p.say("chmod "+name, unix.Chmod(name, 0o755))
		p.say("chown "+name, unix.Chown(name, 0, 0))
		p.say("truncate "+name, unix.Truncate(name, 0))
		p.say("unlink x "+name, unix.Unlink(name+"/x"))
		p.say("mkdir "+name, unix.Mkdir(name, 0o755))
		p.say("readlink "+name, readlink(name))
	}
}

func readlink(name string) error {
	_, err := unix.Readlink(name, make([]byte, 100))
	return err
}

// kinds are the kinds of files that a rename meets.
var kinds = map[string]func(p *posix, name string){
	"nothing": func(*posix, string) {},
	"file":    func(p *posix, name string) { p.file(name, 0o644, 0, 0) },
	"symlink": func(p *posix, name string) { p.need(unix.Symlink("target", name)) },
	"fifo":    func(p *posix, name string) { p.need(unix.Mkfifo(name, 0o644)) },
	"empty":   func(p *posix, name string) { p.dir(name, 0o755, 0, 0) },
	"full":    func(p *posix, name string) { p.dir(name, 0o755, 0, 0); p.file(name+"/f", 0o644, 0, 0) },
}

func posixRenameMatrix(p *posix) {
	names := []string{"nothing", "file", "symlink", "fifo", "empty", "full"}
	p.dir("e", 0o755, 0, 0)
	for _, from := range names {
		for _, to := range names {
			for _, target := range []string{"b", "e/b"} {
				for _, flags := range []uint{0, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE} {
					if flags == unix.RENAME_NOREPLACE && target != "b" {
						continue // it answers the same
					}
					kinds[from](p, "a")
					kinds[to](p, target)
					p.say(fmt.Sprintf("%s onto %s as %s, flags %d", from, to, target, flags), unix.Renameat2(unix.AT_FDCWD, "a", unix.AT_FDCWD, target, flags))
					p.stat("a")
					p.stat(target)
					os.RemoveAll("a")
					os.RemoveAll(target)
				}
			}
		}
	}
}

func posixRenameOdd(p *posix) {
	p.dir("d", 0o755, 0, 0)
	p.dir("d/s", 0o755, 0, 0)
	p.file("f", 0o644, 0, 0)
	p.need(unix.Link("f", "g"))
	for _, names := range [][2]string{{"d", "d/s/x"}, {"d", "d/x"}, {"d", "d"}, {"f", "f"}, {"f", "g"}, {"d/.", "x"}, {"d/..", "x"}, {"f", "d/."}, {".", "x"}, {"f", ""}, {"f/", "x"}, {"f", "x/"}, {"d/", "x/"}, {"x/", "d"}, {"d/s", ".."}, {"f", "d/s/../../h"}} {
		p.say(fmt.Sprintf("%q to %q", names[0], names[1]), unix.Rename(names[0], names[1]))
	}
	for _, name := range []string{"f", "g", "h", "d", "d/s"} {
		p.stat(name)
	}
	// A directory that moves to another gets a new "..", which needs the right
	// to write in it.
	p.dir("from", 0o777, 0, 0)
	p.dir("to", 0o777, 0, 0)
	for _, mode := range []uint32{0o755, 0o775, 0o777} {
		p.dir("from/x", mode, ann, crew)
		p.as(bob, []int{bob, crew}, func() { p.say(fmt.Sprintf("another's directory, %o", mode), unix.Rename("from/x", "to/x")) })
		os.RemoveAll("from/x")
		os.RemoveAll("to/x")
	}
}

// posixRenameSticky moves files out of, into and over others in directories
// with the sticky bit.
func posixRenameSticky(p *posix) {
	for _, dirOwner := range []int{0, ann, bob} {
		for _, fileOwner := range []int{0, ann, bob} {
			for _, kind := range []string{"file", "empty"} {
				p.dir("s", 0o1777, dirOwner, 0)
				p.dir("t", 0o777, 0, 0)
				for _, name := range []string{"s/x", "s/y"} {
					kinds[kind](p, name)
					p.need(unix.Lchown(name, fileOwner, 0))
				}
				kinds[kind](p, "t/x")
				p.need(unix.Lchown("t/x", ann, 0))
				what := fmt.Sprintf("%s of %d in sticky of %d", kind, fileOwner, dirOwner)
				p.as(ann, []int{ann}, func() {
					p.say(what+" renamed", unix.Rename("s/x", "s/z"))
					p.say(what+" replaced", unix.Rename("t/x", "s/y"))
					p.say(what+" moved out", unix.Rename("s/y", "t/y"))
				})
				p.need(os.RemoveAll("s"))
				p.need(os.RemoveAll("t"))
			}
		}
	}
}

func posixLink(p *posix) {
	p.dir("d", 0o755, 0, 0)
	p.file("f", 0o644, 0, 0)
	p.need(unix.Symlink("f", "l"))
	p.need(unix.Mkfifo("p", 0o644))
	for _, names := range [][2]string{{"d", "x"}, {"f", "f"}, {"f", "l"}, {"f", "x"}, {"l", "y"}, {"p", "q"}, {"none", "z"}, {"f", "f/z"}, {"f", "none/z"}} {
		p.say(names[0]+" to "+names[1], unix.Link(names[0], names[1]))
	}
	p.say("followed", unix.Linkat(unix.AT_FDCWD, "l", unix.AT_FDCWD, "w", unix.AT_SYMLINK_FOLLOW))
	for _, name := range []string{"f", "x", "y", "l", "p", "q", "w"} {
		p.stat(name)
	}
	p.say("unlink", unix.Unlink("f"))
	p.stat("x")
	p.dir("open", 0o777, 0, 0)
	p.file("open/f", 0o600, ann, ann)
	p.as(bob, []int{bob}, func() { p.say("another's file", unix.Link("open/f", "open/g")) })
	p.as(ann, []int{ann}, func() { p.say("one's own file", unix.Link("open/f", "open/h")) })
	p.stat("open/f")
}

func posixSymlink(p *posix) {
	for _, target := range []string{"x", "/", "a/b/c", "..", "\xff", "spa ce"} {
		p.say("symlink "+target, unix.Symlink(target, "l"))
		got, err := os.Readlink("l")
		p.say("readlink", err == nil, got)
		p.stat("l")
		p.need(unix.Unlink("l"))
	}
	p.say("empty target", unix.Symlink("", "l"))
	p.file("f", 0o644, 0, 0)
	p.need(unix.Symlink("f", "l"))
	p.say("lchown", unix.Lchown("l", ann, bob))
	p.stat("l")
	p.stat("f")
	p.say("existing", unix.Symlink("x", "l"))
	p.say("chmod of the link", unix.Fchmodat(unix.AT_FDCWD, "l", 0o600, unix.AT_SYMLINK_NOFOLLOW))
}

func posixRemoveOdd(p *posix) {
	for _, name := range []string{"nothing", "file", "symlink", "fifo", "empty", "full"} {
		kinds[name](p, "x")
		p.say("unlink "+name, unix.Unlink("x"))
		p.say("unlink again", unix.Unlink("x") == nil)
		os.RemoveAll("x")
		kinds[name](p, "x")
		p.say("rmdir "+name, unix.Rmdir("x"))
		os.RemoveAll("x")
	}
	p.dir("d", 0o755, 0, 0)
	p.dir("d/e", 0o755, 0, 0)
	for _, name := range []string{"d/.", "d/..", "d/e/..", "d/e/.", "", ".", "d/e/", "d/"} {
		p.say("rmdir "+name, unix.Rmdir(name))
	}
	p.dir("ro", 0o555, ann, ann)
	p.dir("ro/d", 0o777, ann, ann)
	p.dir("closed", 0, ann, ann)
	p.as(ann, []int{ann}, func() {
		p.say("rmdir in a directory that may not be written", unix.Rmdir("ro/d"))
		p.say("rmdir in one that may not be searched", unix.Rmdir("closed/d"))
	})
	p.as(ann, []int{ann}, func() {
		p.need(unix.Chmod("ro", 0o755))
		p.need(unix.Chmod("ro/d", 0))
		p.say("rmdir of mode 0", unix.Rmdir("ro/d"))
	})
}

func posixRemoveSticky(p *posix) {
	for _, dirOwner := range []int{0, ann, bob} {
		for _, fileOwner := range []int{0, ann, bob} {
			p.dir("s", 0o1777, dirOwner, 0)
			what := fmt.Sprintf("of %d in sticky of %d", fileOwner, dirOwner)
			for _, kind := range []string{"file", "empty", "fifo", "symlink"} {
				kinds[kind](p, "s/x")
				p.need(unix.Lchown("s/x", fileOwner, 0))
				p.as(ann, []int{ann}, func() {
					if kind == "empty" {
						p.say(kind+" "+what, unix.Rmdir("s/x"))
					} else {
						p.say(kind+" "+what, unix.Unlink("s/x"))
					}
				})
				os.RemoveAll("s/x")
			}
			p.need(os.RemoveAll("s"))
		}
	}
}

func posixMknod(p *posix) {
	p.dir("d", 0o777, 0, 0)
	types := []uint32{unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK, unix.S_IFDIR, 0}
	for _, typ := range types {
		for _, mode := range []uint32{0, 0o644, 0o7777} {
			p.say(fmt.Sprintf("as root %o", typ|mode), unix.Mknod("x", typ|mode, int(unix.Mkdev(1, 3))))
			p.stat("x")
			os.Remove("x")
			p.as(ann, []int{bob}, func() {
				p.say(fmt.Sprintf("as a user %o", typ|mode), unix.Mknod("d/x", typ|mode, int(unix.Mkdev(1, 3))))
			})
			p.stat("d/x")
			os.Remove("d/x")
		}
	}
}
