package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockfs/lockfs/internal/played"
)

// machine is one played host as its administrator sees it, with lockfs
// installed, a tree with the directory D in it, and an empty mountpoint.
type machine struct {
	*played.Host
	t              *testing.T
	dir, tree, mnt string
}

// newMachine makes the machine. Its end, with the test's, ends all that runs
// there; nothing of lockfs may be left in the tree then.
func newMachine(t *testing.T) *machine {
	t.Helper()
	canMount(t)
	need(t, "setpriv", "util-linux")
	dir, err := os.MkdirTemp("", "lockfs machine,")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &machine{t: t, dir: dir, tree: filepath.Join(dir, "the tree"), mnt: filepath.Join(dir, "mnt")}
	for _, d := range []string{filepath.Join(m.tree, "D"), m.mnt, m.path("real"), m.path("bin")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil { // for users
		t.Fatal(err)
	}
	if m.Host, err = played.New("alpha"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	m.install()
	return m
}

// install puts lockfs and its helpers where mount(8) looks, on this host only,
// and gives it an empty fstab.
func (m *machine) install() {
	m.t.Helper()
	m.sh(`set -e
sbin=$(readlink -f /sbin)
cp "$1" "$2/bin/lockfs"
touch "$2/fstab"
mount --bind "$2/fstab" /etc/fstab
mknod -m 666 "$2/fuse" c 10 229 # as udev makes it
mount --bind "$2/fuse" /dev/fuse
mount --bind "$sbin" "$2/real"
mount -t tmpfs none "$sbin"
ln -s "$2"/real/* "$sbin"
for n in lockfs mount.lockfs mount.fuse.lockfs umount.lockfs umount.fuse.lockfs; do ln -s "$2/bin/lockfs" "$sbin/$n"; done`, lockfs, m.dir)
}

func (m *machine) path(name ...string) string {
	return filepath.Join(append([]string{m.dir}, name...)...)
}

// run runs a program on the machine, and returns what it said and its exit code.
func (m *machine) run(name string, args ...string) (said string, code int) {
	m.t.Helper()
	cmd := m.Command(name, args...)
	// Files, not pipes: a daemon that kept them open would not be waited for.
	f, err := os.CreateTemp(m.dir, "said-")
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	defer os.Remove(f.Name())
	cmd.Stdout, cmd.Stderr = f, f
	err = cmd.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		m.t.Fatal(err)
	}
	text, err := os.ReadFile(f.Name())
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// must is run of what must succeed.
func (m *machine) must(name string, args ...string) string {
	m.t.Helper()
	said, code := m.run(name, args...)
	if code != 0 {
		m.t.Fatalf("%s %q: exit code %d: %s", name, args, code, said)
	}
	return strings.TrimSpace(said)
}

// sh runs a shell's script on the machine, which must succeed.
func (m *machine) sh(script string, args ...string) string {
	m.t.Helper()
	return m.must("sh", append([]string{"-c", script, "sh"}, args...)...)
}

// mounted returns the lines of mountinfo of lockfs's mounts on the machine.
func (m *machine) mounted() []string {
	m.t.Helper()
	text := m.sh("grep ' - fuse.lockfs ' /proc/self/mountinfo || true")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// clean fails the test if lockfs has left something: a mount, a daemon, or a
// name in the tree.
func (m *machine) clean(after string) {
	m.t.Helper()
	if ms := m.mounted(); ms != nil {
		m.t.Errorf("after %s there is %q", after, ms)
	}
	// It has let go of everything before it is gone itself.
	for deadline := time.Now().Add(bound); len(m.daemons()) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Errorf("after %s there run %v", after, m.daemons())
			break
		}
	}
	if said := m.must("find", m.tree, "-name", ".lockfs*"); said != "" {
		m.t.Errorf("after %s there is %s", after, said)
	}
}

// The argument lists are those that mount(8) calls its helpers with. umount
// returns when the lock, which would linger for an hour, is gone.
func TestMountHelpers(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for _, tt := range []struct {
		name  string
		args  []string
		flags []string // what mountinfo shows
	}{
		{"lockfs mount", []string{"lockfs", "mount", "-o", "linger=1h", m.tree, m.mnt}, []string{"rw", "nosuid", "nodev"}},
		{"by mount.fuse", []string{"lockfs", m.tree, m.mnt, "-o", "linger=1h,noexec,suid,dev"}, []string{"rw", "noexec"}},
		{"mount.lockfs", []string{"/sbin/mount.lockfs", m.tree, m.mnt, "-s", "-n", "-v",
			"-o", "rw,noexec,nosuid,nodev,relatime,allow_other,timeout=5m,_netdev,nofail,user,linger=1h"}, []string{"noexec", "nosuid", "nodev", "relatime"}},
		{"mount -t lockfs", []string{"mount", "-v", "-t", "lockfs", m.tree, m.mnt, "-o",
			"defaults,noauto,nodiratime,noatime,sync,linger=1h,_netdev,nofail,x-systemd.requires-mounts-for=/a b,comment=c"}, []string{"noatime", "nodiratime", "sync"}},
		{"mount -t fuse.lockfs", []string{"mount", "-t", "fuse.lockfs", m.tree, m.mnt, "-o", "linger=1h,strictatime"}, nil},
		{"without environment", []string{"sh", "-c", `exec env -i LOCKFS_HOST_ID="$LOCKFS_HOST_ID" /sbin/mount.lockfs "$@"`, "sh", m.tree, m.mnt, "-o", "linger=1h"}, nil},
	} {
		m.must(tt.args[0], tt.args[1:]...)
		ms := m.mounted()
		if len(ms) != 1 {
			t.Fatalf("%s: mounted is %q", tt.name, ms)
		}
		words := strings.FieldsFunc(ms[0], func(c rune) bool { return c == ' ' || c == ',' })
		for _, flag := range tt.flags {
			if !slices.Contains(words, flag) {
				t.Errorf("%s: no %s in %s", tt.name, flag, ms[0])
			}
		}
		record := m.sh(`echo x >"$1/D/f" && ls "$2/D/.lockfs"`, m.mnt, m.tree)
		if f := strings.Split(record, ","); len(f) < 5 || len(m.daemons()) != 1 || !m.daemons()[number(f[4])] {
			t.Errorf("%s: the lock is that of %q, and %v serves", tt.name, record, m.daemons())
		}
		m.must("umount", m.mnt)
		m.clean(tt.name)
	}
	m.must("mount", "-f", "-t", "lockfs", m.tree, m.mnt)
	m.clean("a fake mount")
}

// The fstab has a space and a comma in its source.
func TestFstab(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	line := strings.NewReplacer(" ", `\040`).Replace(m.tree) + " " + strings.NewReplacer(" ", `\040`).Replace(m.mnt) +
		" lockfs _netdev,nofail,wait=5s,x-systemd.requires-mounts-for=/ 0 0\n"
	m.sh(`printf %s "$1" >/etc/fstab`, line)
	for range 2 {
		m.must("mount", "-a")
	}
	if ms := m.mounted(); len(ms) != 1 {
		t.Fatalf("after two mount -a: %q", ms)
	}
	if said, code := m.run("mount", m.mnt); code == 0 {
		t.Errorf("mounted again: %s", said)
	}
	// By the mountpoint mount(8) hands on what the kernel shows, with the
	// source what fstab says.
	for _, remount := range [][]string{{"mount", "-o", "remount,ro", m.mnt}, {"mount", "-t", "lockfs", "-o", "remount,ro", m.tree, m.mnt}, {"lockfs", "mount", "-o", "remount,ro", m.tree, m.mnt}} {
		m.must(remount[0], remount[1:]...)
		if said, code := m.run("touch", m.mnt+"/D/f"); code == 0 || !strings.Contains(said, "Read-only") {
			t.Errorf("after %q a write ends with %d: %s", remount, code, said)
		}
		if ms := m.mounted(); !strings.Contains(ms[0], "nosuid,nodev") {
			t.Errorf("after %q: %s", remount, ms[0])
		}
		m.must("mount", "-o", "remount,rw", m.mnt)
		m.must("touch", m.mnt+"/D/f")
	}
	m.must("umount", "-a", "-t", "fuse.lockfs")
	m.clean("umount -a")
}

// What can't be mounted says why and ends with the code for it, and nothing is
// left.
func TestBadMounts(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	const nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups "
	for _, tt := range []struct {
		name   string
		script string
		code   int
		says   string
	}{
		{"a missing source", `lockfs mount "$D/none" "$D/mnt"`, 73, "none: no such file"},
		{"a source that is a file", `lockfs mount "$D/fstab" "$D/mnt"`, 73, "fstab is not a directory"},
		{"a missing mountpoint", `lockfs mount "$TREE" "$D/none"`, 73, "none: no such file"},
		{"a mountpoint that is a file", `lockfs mount "$TREE" "$D/fstab"`, 73, "fstab is not a directory"},
		{"the same for mount(8)", `mount -t lockfs "$TREE" "$D/fstab"`, 32, "fstab is not a directory"},
		{"a mountpoint in the source", `lockfs mount "$TREE" "$TREE/D"`, 73, "inside the source"},
		{"a source in the mountpoint", `lockfs mount "$TREE/D" "$TREE"`, 73, "inside the mountpoint"},
		{"a mountpoint in use", `lockfs mount "$TREE" "$D/mnt"; lockfs mount "$TREE" "$D/mnt"; e=$?; lockfs umount "$D/mnt"; exit $e`, 75, "is a mount of lockfs already"},
		{"a source in a mount of lockfs", `lockfs mount "$TREE" "$D/mnt"; lockfs mount "$D/mnt/D" "$D/real"; e=$?; lockfs umount "$D/mnt"; exit $e`, 73, "in a mount of lockfs already"},
		{"a misspelt option", `lockfs mount -o ro,wiat=5 "$TREE" "$D/mnt"`, 64, `"wiat=5"`},
		{"the same for mount(8)", `mount -t lockfs -o ro,wiat=5 "$TREE" "$D/mnt"`, 1, `"wiat=5"`},
		{"a log that can't be", `lockfs mount -o log=/none/x "$TREE" "$D/mnt"`, 73, "/none/x"},
		{"a source that is not mounted yet", `echo "srv:/x $D/exp nfs defaults" | sed 's/machine,/machine,/; s/lockfs machine/lockfs\\040machine/' >/etc/fstab; mkdir -p "$D/exp"
			lockfs mount "$D/exp" "$D/mnt"; e=$?; >/etc/fstab; exit $e`, 73, "not mounted yet"},
		{"no /dev/fuse", `mkdir -p "$D/dev"; mount -t tmpfs none "$D/dev"; mknod -m 666 "$D/dev/null" c 1 3; mount --bind "$D/dev" /dev
			lockfs mount "$TREE" "$D/mnt"; e=$?; umount /dev; umount "$D/dev"; exit $e`, 69, "modprobe fuse"},
		{"no rights to the source", `mkdir -p -m 700 "$D/secret"; mkdir -p -m 777 "$D/mine"; chown 65534 "$D/mine"; ` + nobody + `lockfs mount "$D/secret" "$D/mine"`, 77, "permission denied"},
		{"no fusermount3", `mkdir -p -m 777 "$D/theirs"; chown 65534 "$D/theirs"; f=$(command -v fusermount3); [ -z "$f" ] || mount --bind /dev/null "$f"
			` + nobody + `lockfs mount "$D/theirs" "$D/mine"; e=$?; [ -z "$f" ] || umount "$f"; exit $e`, 69, "apt install fuse3"},
		{"a user's mount for all", nobody + `lockfs mount -o allow_other "$D/theirs" "$D/mine"`, 77, "allow_other"},
		{"no rights to mount", `setpriv --bounding-set -sys_admin --inh-caps -sys_admin lockfs mount "$TREE" "$D/mnt"`, 77, "not permitted"},
		{"nothing to unmount", `lockfs umount "$D/mnt"`, 64, "not mounted"},
		{"nothing to remount", `lockfs mount -o remount,ro "$TREE" "$D/mnt"`, 64, "not mounted"},
	} {
		said, code := m.run("sh", "-c", `D=$1 TREE=$2; `+tt.script, "sh", m.dir, m.tree)
		if code != tt.code || !strings.Contains(said, tt.says) {
			t.Errorf("%s: exit code %d, want %d; it says %q, which should say %q", tt.name, code, tt.code, said, tt.says)
		}
		m.clean(tt.name)
	}
	// A read-only export can be read.
	m.sh(`mkdir -p "$1/ro" && echo x >"$2/D/f" && mount --bind "$2" "$1/ro" && mount -o remount,bind,ro "$1/ro" && lockfs mount "$1/ro" "$1/mnt" && grep -q x "$1/mnt/D/f"`, m.dir, m.tree)
	if said, code := m.run("sh", "-c", `echo y >>"$0/D/f"`, m.mnt); code == 0 || !strings.Contains(said, "Read-only") {
		t.Errorf("a write to a read-only export ends with %d: %s", code, said)
	}
	m.must("lockfs", "umount", m.mnt)
	m.clean("a read-only export")
}

// A killed daemon's mountpoint is mounted again by each route, over the tree
// itself too.
func TestDeadMountpoint(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for _, at := range []string{m.mnt, m.tree} {
		routes := [][]string{
			{"lockfs", "mount", m.tree, at}, {"mount", "-t", "lockfs", m.tree, at}, {"mount", "-t", "fuse.lockfs", m.tree, at}, {"lockfs", m.tree, at, "-o", "rw"},
		}
		m.must("lockfs", "mount", m.tree, at)
		for _, route := range routes {
			m.kill()
			if said, code := m.run("ls", at); code == 0 || !strings.Contains(said, "not connected") {
				t.Fatalf("a dead mount lists: %d, %s", code, said)
			}
			m.must(route[0], route[1:]...)
			if ms := m.mounted(); len(ms) != 1 {
				t.Errorf("after %q: %q", route, ms)
			}
			m.must("touch", filepath.Join(at, "D/f"))
		}
		m.kill()
		m.must("umount", at)
		m.must("lockfs", "recover", m.tree) // the lock of the last write may have lingered
		m.clean("an unmount of a dead mount")
	}
}

// daemons returns the ids of the processes of lockfs on the machine.
func (m *machine) daemons() map[int]bool {
	m.t.Helper()
	own := m.must("readlink", "/proc/self/ns/mnt")
	all := map[int]bool{}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		m.t.Fatal(err)
	}
	for _, dir := range dirs {
		ns, _ := os.Readlink(dir + "/ns/mnt") // of a dead one there is none
		comm, _ := os.ReadFile(dir + "/comm")
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && ns == own && string(comm) == "lockfs\n" {
			all[pid] = true
		}
	}
	return all
}

// number reads a number, or is 0.
func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// kill kills every daemon of the machine, and returns when they are dead.
func (m *machine) kill() {
	m.t.Helper()
	for pid := range m.daemons() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			m.t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(bound); len(m.daemons()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Fatal("killed daemons live on")
		}
	}
}

// Two mounts of one tree on one host exclude each other.
func TestTwoMountsOfOneTree(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.must("mkdir", m.path("other"))
	m.must("lockfs", "mount", m.tree, m.mnt)
	m.must("lockfs", "mount", "-o", "wait=0", m.tree, m.path("other"))
	said, code := m.run("sh", "-c", `exec 3>"$0/D/f" && echo x >"$1/D/g"`, m.mnt, m.path("other"))
	if code == 0 || !strings.Contains(said, "busy") {
		t.Errorf("a write beside a writer in another mount: %d, %s", code, said)
	}
	m.must("touch", m.path("other", "D/g"))
	m.must("umount", m.mnt)
	m.must("umount", m.path("other"))
	m.clean("two mounts")
}

// Of eight that mount at one place at once one does; and eight at their own
// places don't disturb each other.
func TestMountsAtOnce(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for i := range 8 {
		m.must("mkdir", m.path(fmt.Sprint(i)))
	}
	m.sh(`for i in 0 1 2 3 4 5 6 7; do lockfs mount "$1" "$2/mnt" 2>"$2/said$i" && echo >"$2/ok$i" & done; wait; [ $(ls "$2" | grep -c '^ok') = 1 ] || cat "$2"/said*`, m.tree, m.dir)
	if ms := m.mounted(); len(ms) != 1 {
		t.Errorf("eight mounts at one place: %q", ms)
	}
	m.must("lockfs", "umount", m.mnt)
	m.sh(`for i in 0 1 2 3 4 5 6 7; do
	( n=0; while [ $((n = n + 1)) -le "$3" ]; do
		lockfs mount "$1" "$2/$i" && echo $n >"$2/$i/D/$i" && lockfs umount "$2/$i" || { echo "$i failed"; exit 1; }
	done ) || touch "$2/failed" &
done
wait
[ ! -e "$2/failed" ]`, m.tree, m.dir, rounds)
	m.clean("mounts at once")
}

// rounds is how often each of those that mount at once does it.
const rounds = "4"

// An ordinary user mounts for himself.
func TestUserMount(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	need(t, "fusermount3", "fuse3")
	user := []string{"--reuid", "65534", "--regid", "65534", "--clear-groups", "--", "env", "HOME=", "LOCKFS_HOST_ID=user-test"}
	as := func(args ...string) (string, int) { return m.run("setpriv", append(user, args...)...) }
	m.sh(`chown -R 65534:65534 "$1" "$2"`, m.tree, m.mnt)
	if said, code := as("lockfs", "mount", "-o", "linger=1h,noexec,noatime", m.tree, m.mnt); code != 0 {
		t.Fatalf("mount: %d, %s", code, said)
	}
	ms := m.mounted()
	if len(ms) != 1 || !strings.Contains(ms[0], "nosuid,nodev,noexec,noatime") {
		t.Errorf("mounted: %q", ms)
	}
	if said, code := as("sh", "-c", `cd "$0/D" && echo x >f && ls "$1/D/.lockfs" && mkdir d && mv f d && ln -s d l && rm -r d l`, m.mnt, m.tree); code != 0 {
		t.Errorf("work in it: %d, %s", code, said)
	}
	if said, code := m.run("ls", m.mnt); code == 0 {
		t.Errorf("root, for whom it is not, lists it: %s", said)
	}
	if said, code := as("lockfs", "umount", m.mnt); code != 0 {
		t.Errorf("umount: %d, %s", code, said)
	}
	m.clean("a user's mount")
	if said, code := as("lockfs", "mount", m.tree, m.mnt); code != 0 {
		t.Fatalf("mount: %d, %s", code, said)
	}
	m.kill()
	if said, code := as("lockfs", "mount", m.tree, m.mnt); code != 0 {
		t.Errorf("mount over a dead mount: %d, %s", code, said)
	}
	if said, code := as("umount", m.mnt); code != 0 {
		t.Errorf("umount(8): %d, %s", code, said)
	}
	m.clean("a user's second mount")
}

// A container that sees the host's mounts (rslave) sees a mount that was made
// anew after its daemon had died, too.
func TestMountSeenInAContainer(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	mnt := m.path("shared", "mnt")
	m.sh(`mkdir "$1" && mount -t tmpfs none "$1" && mount --make-shared "$1" && mkdir "$2" && echo hello >"$3/D/f"`,
		m.path("shared"), mnt, m.tree)
	m.must("lockfs", "mount", m.tree, mnt)
	c, err := m.Start("unshare", "--mount", "--propagation", "slave", "sh", "-c",
		`while read go; do { echo again >>"$0/D/g" && cat "$0/D/f"; } 2>/dev/null || echo nothing; done`, mnt)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sees := func(want string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		defer cancel()
		if err := errors.Join(c.Tell(), c.Expect(ctx, want)); err != nil {
			t.Fatal(err)
		}
	}
	sees("hello")
	m.kill()
	sees("nothing")
	m.must("lockfs", "mount", m.tree, mnt)
	sees("hello")
	c.Close()
	m.must("lockfs", "umount", mnt)
	if text, err := os.ReadFile(filepath.Join(m.tree, "D", "g")); err != nil || string(text) != "again\nagain\n" {
		t.Errorf("what the container wrote: %q, %v", text, err)
	}
	m.sh(`umount "$1"`, m.path("shared"))
	m.clean("a container")
}
