package integration

import (
	"bytes"
	"crypto/rand"
	"os"
	"strconv"
	"strings"
	"testing"
)

// On a read-only mount the kernel reads files by itself: what it reads is what
// other hosts write at that moment, nobody reads what he may not, and no daemon
// is needed to go on. A remount ends it.
func TestReadOnlyMountIsReadByTheKernel(t *testing.T) {
	need(t, "python3", "python3")
	w := newWorld(t)
	content := make([]byte, 3<<20)
	rand.Read(content)
	w.write("f", string(content))
	w.write("g", "of root\n")
	w.write("h", "")
	if err := os.Chmod(w.back("g"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.options = append(w.options, "-o", "ro")
	_, read := w.alpha.measured()
	const reader = `
import mmap, os, sys
fd, second = os.open("f", os.O_RDONLY), os.open("f", os.O_RDONLY)
there = open(sys.argv[1], "rb").read()
m = mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ)
def same():
    there = open(sys.argv[1], "rb").read()
    again = os.open("f", os.O_RDONLY) if len(sys.argv) < 3 else second
    here = [os.pread(fd, len(there) + 1, 0), os.pread(second, len(there) + 1, 0), os.pread(again, len(there) + 1, 0), m[:] + os.pread(fd, 99, len(m))]
    print("same" if here == [there] * 4 else "differ", flush=True)
    sys.stdin.readline()
same()
same()
sys.argv.append("") # nothing can be opened
same()
`
	j := w.alpha.start("python3", "-c", "import os; os.chdir('"+w.in()+"')"+reader, w.back("f"))
	w.expect(j, "same")
	if w.alpha.says("the kernel can't read files") {
		unable(t, "needs Linux 6.9")
	}
	if n := operations(t, read(), "read"); n != 0 {
		t.Errorf("the daemon was asked to read %d times", n)
	}
	w.done(w.beta.sh("printf new | dd of=f conv=notrunc bs=1 seek=1000000 && echo more >>f"))
	w.tell(j)
	w.expect(j, "same")

	for _, c := range []struct{ does, says string }{
		{"os.setgroups([]); os.setgid(65534); os.setuid(65534); print(len(open('f', 'rb').read()), flush=True); open('g')", "Permission denied"},
		{"print(len(open('f', 'rb').read()), flush=True); open('f', 'r+')", "Read-only file system"},
	} {
		cmd := w.alpha.Command("python3", "-c", "import os; os.chdir('"+w.in()+"'); "+c.does)
		out, err := cmd.CombinedOutput()
		if size := strconv.Itoa(len(content) + len("more\n")); err == nil || !bytes.HasPrefix(out, []byte(size+"\n")) || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v: %s, want %s and %s", c.does, err, out, size, c.says)
		}
	}
	if n := operations(t, read(), "read"); n != 0 {
		t.Errorf("the daemon was asked to read %d times", n)
	}

	// What is read so can't be written, all else can.
	w.alpha.runs(0, []string{"mount", "-o", "remount,rw", w.tree, w.mnt})
	w.expect(w.alpha.start("python3", "-c", `
import errno, os
os.chdir("`+w.in()+`")
for name in "f", "h", "new":
    try: os.close(os.open(name, os.O_RDWR | os.O_CREAT)); print(name, "ok", end=" ")
    except OSError as e: print(name, errno.errorcode[e.errno], end=" ")
print(open("h").read(), open("f", "rb").read() == open("`+w.back("f")+`", "rb").read(), flush=True)
`), "f ETXTBSY h ok new ok  True")

	if err := w.alpha.daemon.Kill(); err != nil {
		t.Fatal(err)
	}
	w.done(w.beta.sh("printf newer | dd of=f conv=notrunc bs=1 seek=2000000"))
	w.tell(j)
	w.expect(j, "same")
	w.tell(j)
	w.done(j)
	w.options = w.options[:len(w.options)-2]
	w.alpha.mount()
	w.done(w.alpha.sh("echo again >>f && [ $(wc -c <f) -gt 3000000 ]"))
}
