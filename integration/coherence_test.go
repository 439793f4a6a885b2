package integration

import (
	"strconv"
	"strings"
	"testing"
)

// What one host has done is seen by another at once, which had it all in its
// caches before: by stat, read, mmap and readdir.
func TestCoherence(t *testing.T) {
	need(t, "python3", "python3")
	w := newWorld(t)
	w.write("f", "old\n")
	w.write("gone", "gone\n")
	w.write("kind", "file\n")
	// look prints all that it sees, with what it has open from before as well.
	const look = `
import mmap, os, sys
held = open("f", "rb")
def look():
    for name in sorted(n for n in os.listdir(".")):
        s = os.lstat(name)
        print(name, oct(s.st_mode), s.st_size, s.st_nlink, end=" ")
        if os.path.isfile(name) and not os.path.islink(name) and s.st_size:
            fd = os.open(name, os.O_RDONLY)
            m = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
            print(m[:], os.pread(fd, 100, 0), os.fstat(fd).st_size, end="")
            m.close(); os.close(fd)
        print()
    print(os.pread(held.fileno(), 100, 0), os.path.exists("new"), os.path.exists("gone"))
    print("end", flush=True)
for line in sys.stdin: look()
`
	j := w.beta.start("python3", "-c", "import os; os.chdir('"+w.in()+"')"+look)
	seen := func() string {
		t.Helper()
		w.tell(j)
		var lines []string
		for {
			line := w.line(j)
			if line == "end" {
				return strings.Join(lines, "\n")
			}
			lines = append(lines, line)
		}
	}
	for _, step := range []struct{ do, want string }{
		{"true", `f 0o100644 4 1 b'old\n' b'old\n' 4
gone 0o100644 5 1 b'gone\n' b'gone\n' 5
kind 0o100644 5 1 b'file\n' b'file\n' 5
b'old\n' False True`},
		{"echo more >>f; rm gone; echo new >new; chmod 600 new", `f 0o100644 9 1 b'old\nmore\n' b'old\nmore\n' 9
kind 0o100644 5 1 b'file\n' b'file\n' 5
new 0o100600 4 1 b'new\n' b'new\n' 4
b'old\nmore\n' True False`},
		{"printf OLD | dd of=f conv=notrunc 2>/dev/null; truncate -s 4 f; rm kind; mkdir kind; mv new gone", `f 0o100644 4 1 b'OLD\n' b'OLD\n' 4
gone 0o100600 4 1 b'new\n' b'new\n' 4
kind 0o40755 SIZE NLINK 
b'OLD\n' False True`},
		{"rmdir kind; ln -s f kind; ln gone new; : >f", `f 0o100644 0 1 
gone 0o100600 4 2 b'new\n' b'new\n' 4
kind 0o120777 1 1 
new 0o100600 4 2 b'new\n' b'new\n' 4
b'' True True`},
	} {
		w.done(w.alpha.sh(step.do))
		got := seen()
		want := strings.ReplaceAll(strings.ReplaceAll(step.want, "SIZE", directorySize(got)), "NLINK", "2")
		if got != want {
			t.Errorf("after %q:\n%s\nwant:\n%s", step.do, got, want)
		}
	}
}

// directorySize is the size that a directory is said to have, which is the file
// system's to choose.
func directorySize(lines string) string {
	if _, rest, ok := strings.Cut(lines, "kind 0o40755 "); ok {
		return strings.Fields(rest)[0]
	}
	return ""
}

// Lines that two hosts append to one file, in turns, are all there, in order.
func TestAppendsOfTwoHosts(t *testing.T) {
	const lines = 200
	w := newWorld(t)
	script := "i=0; while [ $i -lt 200 ]; do echo $NAME $i >>log || exit; i=$((i+1)); done"
	a, b := w.alpha.sh("NAME=alpha; "+script), w.beta.sh("NAME=beta; "+script)
	w.done(a)
	w.done(b)
	next := map[string]int{}
	for line := range strings.Lines(w.read("log")) {
		name, n, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n != strconv.Itoa(next[name]) {
			t.Fatalf("line %q, want number %d of %s", line, next[name], name)
		}
		next[name]++
	}
	if next["alpha"] != lines || next["beta"] != lines {
		t.Errorf("%v lines, want %d of each", next, lines)
	}
}

// Whoever gets the lock sees the sizes that the last holder left, though the
// kernel took those from before for valid for a moment longer.
func TestSizesAfterATake(t *testing.T) {
	need(t, "python3", "python3")
	w := newWorld(t, "-o", "linger=0")
	w.write("f", "")
	const look = `
import os, sys, threading
back = sys.argv[1]
held, wrong, end = os.open("f", os.O_RDONLY), 0, False
def reader():
    while not end: os.fstat(held)
t = threading.Thread(target=reader); t.start()
for i in range(150):
    lock = os.open(".lockfs", os.O_WRONLY)
    sizes = os.fstat(held).st_size, os.stat("f").st_size, len(os.pread(held, 1 << 20, 0))
    if set(sizes) != {os.stat(back).st_size}: wrong += 1
    os.close(lock)
end = True; t.join()
print("wrong", wrong, flush=True)
`
	writer := w.beta.sh("while [ ! -e stop ]; do echo line >>f || exit; sleep 0.01; done")
	j := w.alpha.start("python3", "-c", "import os; os.chdir('"+w.in()+"')"+look, w.back("f"))
	w.expect(j, "wrong 0")
	w.done(j)
	w.write("stop", "")
	w.done(writer)
}

// A job sees each of its own changes in the attributes of the directory whose
// lock it holds, though for most of what it does there they need not be asked of
// the server; and so does everybody once the lock is gone.
func TestAttributesOfAHeldDirectory(t *testing.T) {
	need(t, "python3", "python3")
	w := newWorld(t, "-o", "linger=0")
	_, read := w.alpha.measured()
	const work = `
import os, sys, time
back, wrong = sys.argv[1], 0
fields = "st_mode st_nlink st_uid st_gid st_size st_mtime_ns st_ctime_ns".split()
def same(what):
    global wrong
    here, there = os.stat("."), os.stat(back)
    for f in fields:
        if getattr(here, f) != getattr(there, f):
            wrong += 1
            print(what, f, getattr(here, f), getattr(there, f), file=sys.stderr)
lock = os.open(".lockfs", os.O_WRONLY)
for i in range(3):
    for what, do in (("create", lambda: open("f", "x").close()), ("write", lambda: open("f", "a").write("x")),
                     ("link", lambda: os.link("f", "g")), ("rename", lambda: os.rename("g", "h")),
                     ("unlink", lambda: (os.unlink("f"), os.unlink("h"))), ("mkdir", lambda: os.mkdir("s")),
                     ("rmdir", lambda: os.rmdir("s")), ("symlink", lambda: os.symlink("x", "l")), ("unlink", lambda: os.unlink("l")),
                     ("chmod", lambda: os.chmod(".", 0o700 + i % 8)), ("utime", lambda: os.utime(".", (i, i)))):
        time.sleep(0.02) # what was asked before is no longer valid
        do()
        same(what)
same("before the release")
os.close(lock)
print("closed", flush=True); sys.stdin.readline()
fields.remove("st_ctime_ns") # what the release does to it is not shown
same("after it")
print("wrong", wrong, flush=True)
`
	j := w.alpha.start("python3", "-c", "import os; os.chdir('"+w.in()+"')"+work, w.back())
	w.expect(j, "closed")
	w.until("the release", func() bool { return total(t, read(), "lockfs_holds") == 0 })
	w.tell(j)
	w.expect(j, "wrong 0")
	w.done(j)
}
