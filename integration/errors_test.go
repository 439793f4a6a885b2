package integration

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// failing is a file system that fails, and a program that meets its errors and
// prints what each call answers.
type failing struct {
	name     string
	packages map[string]string // of programs that are needed
	// module is what the kernel must have; "" for what all have.
	module string
	// mount mounts it at $BACK with $WORK, an empty directory, to work in.
	mount string
	// serves is what mount says once it serves the file system itself; "" if it
	// ends.
	serves string
	script string
}

// say is the beginning of each program in Python.
const say = `
import errno, mmap, os
def say(what, f, *a):
    try:
        r = f(*a)
        print(what, "ok" if r is None else r)
        return r
    except OSError as e: print(what, errno.errorcode[e.errno])
`

// The file systems are full at 256 KiB, a page or two of which may be a lock's,
// and so on.
var failures = []failing{
	{
		name:  "no space",
		mount: `mount -t tmpfs -o size=256k none "$BACK"`,
		script: `python3 -c '` + say + `
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
	},
	{
		name:  "read-only",
		mount: `mount -t tmpfs none "$BACK"`,
		script: `echo there >there; mount -o remount,ro "$BACK" && python3 -c '` + say + `
say("create", os.open, "f", os.O_CREAT | os.O_WRONLY)
say("mkdir", os.mkdir, "d")
say("unlink", os.unlink, "there")
say("write", os.open, "there", os.O_WRONLY)
say("chmod", os.chmod, "there", 0o600)
say("rename", os.rename, "there", "x")
print(open("there").read())
'; mount -o remount,rw "$BACK"; echo x >f; cat f; rm f`,
	},
	{
		// Blocks are found when the data is written back, and a file without
		// extents has 16 GiB at the most.
		name:     "a full disk, and too large a file",
		packages: map[string]string{"mkfs.ext4": "e2fsprogs", "losetup": "mount"}, module: "ext4",
		mount: `truncate -s 8M "$WORK/image" && mkfs.ext4 -q -b 1024 -O ^extent,^64bit "$WORK/image" && mount -o loop "$WORK/image" "$BACK"`,
		script: `python3 -c '` + say + `
fd = os.open("f", os.O_CREAT | os.O_RDWR)
for size in (1 << 33, 1 << 34, 1 << 35, 1 << 45):
    say("truncate to %d" % size, os.ftruncate, fd, size)
    say("write at %d" % size, os.pwrite, fd, b"x", size)
    say("allocate at %d" % size, os.posix_fallocate, fd, size, 1)
    print(os.fstat(fd).st_size)
os.ftruncate(fd, 0)
n = 0
while n < 1 << 24:
    w = say("write", os.write, fd, b"x" * (1 << 20))
    if w is None: break
    n += w
print(n == os.fstat(fd).st_size)
say("fsync", os.fsync, fd); say("fsync", os.fsync, fd)
say("write", os.write, fd, b"x" * (1 << 20)); say("fsync", os.fsync, fd)
os.ftruncate(fd, n); say("close", os.close, fd)
print(os.path.getsize("f") == n, set(open("f", "rb").read()) == {ord("x")})
' | sed 's/^write [0-9]*$/written/' | uniq; rm f`,
	},
	{
		// The limit is the directory's and counts what is in it.
		name:     "quota",
		packages: map[string]string{"mkfs.btrfs": "btrfs-progs", "losetup": "mount"}, module: "btrfs",
		mount: `truncate -s 120M "$WORK/image" && mkfs.btrfs -q -M "$WORK/image" >/dev/null 2>&1 && mount -o loop "$WORK/image" "$BACK" && btrfs quota enable "$BACK" &&
for d in native mounted; do rmdir "$BACK/$d" 2>/dev/null; btrfs -q subvolume create "$BACK/$d" && btrfs qgroup limit 1M "$BACK/$d"; done`,
		script: `python3 -c '` + say + `
held = os.open("held", os.O_CREAT | os.O_WRONLY)
fd = os.open("f", os.O_CREAT | os.O_RDWR)
n = 0
while n < 1 << 21:
    try: n += os.write(fd, b"x" * 4096)
    except OSError as e: print(errno.errorcode[e.errno]); break
print(500000 < n < 1 << 20, os.fstat(fd).st_size == n)
say("write", os.write, fd, b"x" * 65536)
say("fsync", os.fsync, fd); say("allocate", os.posix_fallocate, fd, n, 1 << 20); say("close", os.close, fd)
say("mkdir", os.mkdir, "d")
print(os.path.getsize("f") == n); os.unlink("f"); os.sync()
os.close(held)
'; echo after >f; cat f held; rm f held`,
	},
	{
		// Each error is told once, at the call that met it, as an NFS client
		// tells what a server said.
		name:   "errors as told",
		serves: "up",
		mount:  `mkdir "$WORK/tree" && exec env ` + clientEnv + `=1 "$CLIENT" faulty "$WORK/tree" "$BACK" "$FAULTS"`,
		script: `python3 -c '` + say + `
def told(**faults):
    for operation, no in faults.items():
        with open(os.environ["FAULTS"] + "/new", "w") as f: f.write(str(no))
        os.rename(os.environ["FAULTS"] + "/new", os.environ["FAULTS"] + "/" + operation)
def left(): print("left", sorted(os.listdir(os.environ["FAULTS"])))
for no in (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EREMOTEIO, errno.EPERM, errno.ESTALE):
    print(errno.errorcode[no])
    fd = os.open("f", os.O_CREAT | os.O_RDWR | os.O_TRUNC)
    say("write", os.write, fd, b"first\n"); told(write=no); say("write", os.write, fd, b"lost\n"); say("write", os.write, fd, b"second\n"); left()
    told(fsync=no); say("fsync", os.fsync, fd); say("fsync", os.fsync, fd); left()
    told(fsync=no); say("fdatasync", os.fdatasync, fd); say("fdatasync", os.fdatasync, fd); left()
    told(allocate=no); say("allocate", os.posix_fallocate, fd, 0, 5); say("allocate", os.posix_fallocate, fd, 0, 5); left()
    if no != errno.ESTALE: told(setattr=no); say("truncate", os.ftruncate, fd, 8); say("truncate", os.ftruncate, fd, 8); left()
    other = os.dup(fd); told(flush=no); say("close", os.close, other); other = os.dup(fd); say("close", os.close, other); left()
    os.lseek(fd, 0, os.SEEK_SET); os.write(fd, b"F"); told(flush=no); say("close", os.close, fd); left()
    print(open("f").read())
    fd = os.open("f", os.O_WRONLY | os.O_APPEND); told(write=no); say("append", os.write, fd, b"lost\n"); say("append", os.write, fd, b"third\n"); say("close", os.close, fd); left()
    fd = os.open("f", os.O_RDWR); told(half=1); say("write", os.write, fd, b"halfwritten\n"); say("write", os.write, fd, b"rest\n"); left()
    m = mmap.mmap(fd, 0); m[0:3] = b"map"; told(write=no); say("msync", m.flush); m[0:3] = b"MAP"; say("msync", m.flush); left()
    m[0:3] = b"end"; told(write=no); say("fsync", os.fsync, fd); say("fsync", os.fsync, fd); m.close(); say("close", os.close, fd); left()
    if no != errno.ESTALE:
        told(create=no); say("create", os.open, "g", os.O_CREAT | os.O_WRONLY); left()
        told(rename=no); say("rename", os.rename, "f", "h"); told(unlink=no); say("unlink", os.unlink, "f"); left()
        told(setattr=no); say("chmod", os.chmod, "f", 0o600); left()
        told(read=no); say("read", lambda: open("f", "rb").read()); left()
    print(os.listdir())
'; echo x >f; echo 5 >"$FAULTS/flush"; cp /etc/hostname g 2>/dev/null; echo $?; echo 28 >"$FAULTS/write"; cp /etc/hostname g 2>/dev/null; echo $?; echo 122 >"$FAULTS/flush"; python3 -c 'open("g", "w").write("x")' 2>&1 | tail -1; rm f g`,
	},
}

// Errors of the file system reach programs as without lockfs: the same one at
// the same call, and once.
func TestErrors(t *testing.T) {
	need(t, "python3", "python3")
	for _, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			for program, pkg := range f.packages {
				need(t, program, pkg)
			}
			if !kernelHas(t, f.module) {
				t.Skip("needs a kernel with " + f.module)
			}
			w := newWorld(t)
			faults := t.TempDir()
			t.Setenv("FAULTS", faults)
			w.over(f.serves, f.mount)
			if said := w.shell(bound, "sh", "-c", `cd "$BACK" && mkdir -p native mounted`); said != "" {
				t.Fatal(said)
			}
			want := w.program(w.tree, "D/native", f.script)
			if got := w.program(w.mnt, "D/mounted", f.script); got != want {
				t.Error(firstDifference(got, want))
			}
		})
	}
}

// kernelHas reports whether the kernel has a file system, or can load it.
func kernelHas(t *testing.T, name string) bool {
	t.Helper()
	if name == "" {
		return true
	}
	// Where there is no modprobe, or no such module, the list tells.
	_ = exec.Command("modprobe", "-q", name).Run()
	known, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(known, []byte("\t"+name+"\n"))
}

// over has the script mount a file system at D on alpha, where its environment
// says $BACK, until the test ends. serves is as in failing.
func (w *world) over(serves, script string) {
	w.t.Helper()
	for name, value := range map[string]string{"BACK": w.back(), "WORK": w.t.TempDir(), "CLIENT": client} {
		w.t.Setenv(name, value)
	}
	mount := w.alpha.start("sh", "-c", script)
	if serves != "" {
		w.expect(mount, serves)
	} else {
		w.done(mount)
	}
	w.t.Cleanup(func() {
		if err := w.alpha.daemon.Stop(); err != nil {
			w.t.Error(err)
		}
		if said := w.shell(bound, "umount", w.back()); said != "" {
			w.t.Error(said)
		}
		w.alpha.mount()
	})
}
