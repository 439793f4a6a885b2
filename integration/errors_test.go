package integration

import (
	"os"
	"path/filepath"
	"testing"
)

// failing are programs that meet errors of the file system, which is full at
// 256 KiB, a page or two of which may be a lock's, or read-only. What each call
// answers is printed.
var failing = map[string]string{
	"no space": `python3 -c '
import errno, os
def say(what, f, *a):
    try: print(what, f(*a))
    except OSError as e: print(what, errno.errorcode[e.errno])
fd = os.open("f", os.O_CREAT | os.O_WRONLY)
n, full = 0, 0
for i in range(100):
    try: n += os.write(fd, b"x" * 4096)
    except OSError as e: full += e.errno == errno.ENOSPC
print("all", os.fstat(fd).st_size == n, "full", full > 30, n > 200000)
say("fsync", os.fsync, fd)
say("allocate", os.posix_fallocate, fd, 0, 1 << 20)
say("close", os.close, fd)
print(os.stat("f").st_size == n)
say("truncate", os.truncate, "f", 4096)
fd = os.open("f", os.O_WRONLY | os.O_APPEND)
say("append", os.write, fd, b"y" * 4096)
say("fsync", os.fsync, fd)
say("close", os.close, fd)
print(os.stat("f").st_size)
os.unlink("f")
'; dd if=/dev/zero of=g bs=64k count=100 2>/dev/null; echo $?; cp g h 2>/dev/null; echo $?; rm -f g h; echo after >f; cat f; rm f`,
	"read-only": `mount -o remount,ro "$BACK" && python3 -c '
import errno, os
def say(what, f, *a):
    try: print(what, f(*a))
    except OSError as e: print(what, errno.errorcode[e.errno])
say("create", os.open, "f", os.O_CREAT | os.O_WRONLY)
say("mkdir", os.mkdir, "d")
say("unlink", os.unlink, "there")
say("write", os.open, "there", os.O_WRONLY)
say("chmod", os.chmod, "there", 0o600)
say("rename", os.rename, "there", "x")
print(open("there").read())
'; mount -o remount,rw "$BACK"; echo x >f; cat f; rm f`,
}

// Errors of the file system reach programs as without lockfs: the same one at
// the same call.
func TestErrors(t *testing.T) {
	need(t, "python3", "python3")
	for name, script := range failing {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := func(cmd ...string) {
				t.Helper()
				if out, err := w.alpha.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %v: %s", cmd, err, out)
				}
			}
			small := filepath.Join(w.tree, "D")
			run("mount", "-t", "tmpfs", "-o", "size=256k", "none", small)
			defer func() {
				if err := w.alpha.daemon.Stop(); err != nil {
					t.Error(err)
				}
				run("umount", small)
				w.alpha.mount()
			}()
			run("sh", "-c", "cd "+small+" && mkdir native mounted && echo there | tee native/there mounted/there")
			if err := os.Setenv("BACK", small); err != nil {
				t.Fatal(err)
			}
			defer os.Unsetenv("BACK")
			want := w.program(w.tree, "D/native", script)
			if got := w.program(w.mnt, "D/mounted", script); got != want {
				t.Errorf("through the mount:\n%s\nwithout:\n%s", got, want)
			}
		})
	}
}
