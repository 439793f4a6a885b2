package integration

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockfs/lockfs/lock"
)

// booted is a container with systemd as its first process. What it writes goes
// to a layer in memory over this machine's files, but for one directory, which
// is its /lab.
//
// It has one tree mounted by fstab's line for lockfs, and another one by the
// template unit, in place. A bind mount stands below each for the NFS mount.
type booted struct {
	t    *testing.T
	dir  string
	cmd  *exec.Cmd
	init int // the number of its first process, here
	done chan struct{}
}

// bootEnter puts itself into a control group of its own, $2 in the directory
// $1/cgroup, and goes on in namespaces of its own.
const bootEnter = `set -e
mount -t cgroup2 none "$1/cgroup"
mkdir "$1/cgroup/$2"
echo $$ >"$1/cgroup/$2/cgroup.procs"
exec unshare --fork --pid --mount --cgroup --ipc --uts --net --kill-child --propagation private sh -c "$3" sh "$1"`

// bootScript becomes the first process of the container, with the directory $1
// as /lab. It leaves this machine's own root before systemd is run: what that
// clears at boot is the container's.
const bootScript = `set -e
mount -t tmpfs none "$1/layer"
mkdir "$1/layer/upper" "$1/layer/work" "$1/layer/root"
mount -t overlay -o lowerdir=/,upperdir="$1/layer/upper",workdir="$1/layer/work" none "$1/layer/root"
cd "$1/layer/root"
mkdir lab outside
mount --bind "$1" lab
for d in run tmp var/tmp var/lib var/log etc/systemd dev; do mount -t tmpfs none $d; done
for n in null zero full random urandom tty; do cp -a /dev/$n dev/; done
mknod -m 666 dev/fuse c 10 229
mkdir dev/pts dev/shm run/lock
ln -s /proc/self/fd dev/fd
mount -t proc proc proc
for f in sys sysrq-trigger; do
	[ -e proc/$f ] || continue
	mount --bind proc/$f proc/$f
	mount -o remount,bind,ro proc/$f
done
mount -t sysfs -o ro sys sys
mount -t tmpfs none sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 none sys/fs/cgroup
pivot_root . outside
umount -l /outside
cd /
[ -z "$(ls -A /outside)" ]
cp /lab/fstab /etc/fstab
cat /lab/machine-id >/etc/machine-id
cp /lab/journald.conf /etc/systemd/
sbin=$(readlink -f /sbin)
for n in mount.lockfs umount.fuse.lockfs; do ln -s /lab/lockfs "$sbin/$n"; done
systemd=/usr/lib/systemd/systemd
[ -x $systemd ] || systemd=/lib/systemd/systemd
export SYSTEMD_UNIT_PATH=/lab/units:/run/systemd/generator container=lockfs-test
exec $systemd --unit=lab.target --log-target=journal --show-status=no`

// systemUnits are the only units of the distribution that the container has.
var systemUnits = []string{
	"systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket",
	"sysinit.target", "basic.target", "sockets.target", "local-fs-pre.target", "local-fs.target", "remote-fs-pre.target",
	"remote-fs.target", "network.target", "network-online.target", "umount.target", "shutdown.target", "final.target",
	"exit.target", "systemd-exit.service",
}

// boot starts the container and returns when it is up.
func boot(t *testing.T) *booted {
	t.Helper()
	canMount(t)
	need(t, "unshare", "util-linux")
	need(t, "systemctl", "systemd")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &booted{t: t, dir: dir, done: make(chan struct{})}
	b.furnish()
	group := fmt.Sprintf("lockfs-test-%d", os.Getpid())
	b.cmd = exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", bootEnter, "sh", dir, group, bootScript)
	said, err := os.Create(b.path("console"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	b.cmd.Stdout, b.cmd.Stderr = said, said
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { b.cmd.Wait(); close(b.done) }()
	t.Cleanup(func() {
		b.cmd.Process.Kill() // and with it the first process, and with that all
		<-b.done
		b.removeGroup(group)
	})
	b.until("that it is up", func() bool {
		select {
		case <-b.done:
			console, _ := os.ReadFile(b.path("console"))
			t.Fatalf("the container has ended: %s", console)
		default:
		}
		if b.init == 0 {
			b.init = firstOf(t, b.cmd.Process.Pid)
			return false
		}
		_, err := b.try("systemctl", "is-active", "lab.target")
		return err == nil
	})
	return b
}

// furnish makes what the container finds in /lab.
func (b *booted) furnish() {
	b.t.Helper()
	for _, d := range []string{"units", "layer", "cgroup", "fstabback/D", "unitback/D", "fstabexp", "unitexp", "mnt"} {
		if err := os.MkdirAll(b.path(d), 0o755); err != nil {
			b.t.Fatal(err)
		}
	}
	read := func(names ...string) string {
		var err error
		for _, name := range names {
			var text []byte
			if text, err = os.ReadFile(name); err == nil {
				return string(text)
			}
		}
		b.t.Fatal(err)
		return ""
	}
	files := map[string]string{
		"lockfs":        read(lockfs),
		"machine-id":    strings.Repeat("5e", 16) + "\n",
		"journald.conf": "[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\n",
		"fstab": "/lab/fstabback /lab/fstabexp none bind 0 0\n/lab/unitback /lab/unitexp none bind 0 0\n" +
			"/lab/fstabexp /lab/mnt lockfs _netdev,nofail,x-systemd.before=remote-fs.target,x-systemd.requires-mounts-for=/lab/fstabexp 0 0\n",
		"units/lockfs@.service": strings.ReplaceAll(read("../packaging/systemd/lockfs@.service"), "/usr/bin/lockfs", "/lab/lockfs"),
		"units/lab.target": "[Unit]\nWants=systemd-journald.service local-fs.target remote-fs.target " +
			placeUnit + " writer@lab-mnt.service writer@lab-unitexp.service\n",
		// What it says to the fourth file it has written to the third before.
		"units/writer@.service": `[Unit]
After=remote-fs.target
StartLimitIntervalSec=0
[Service]
ExecStart=/bin/sh -c 'exec 3>>%f/D/out 4>>/lab/%i.said; while echo x >&3; do echo x >&4; sleep 0.02; done'
Restart=always
RestartSec=100ms
`,
	}
	for _, name := range systemUnits {
		files["units/"+name] = read("/usr/lib/systemd/system/"+name, "/lib/systemd/system/"+name)
	}
	for name, text := range files {
		mode := os.FileMode(0o644)
		if name == "lockfs" {
			mode = 0o755
		}
		if err := os.WriteFile(b.path(name), []byte(text), mode); err != nil {
			b.t.Fatal(err)
		}
	}
}

// placeUnit is the template unit of the tree /lab/unitexp.
const placeUnit = "lockfs@lab-unitexp.service"

// removeGroup removes the container's control groups, whose processes are gone.
func (b *booted) removeGroup(group string) {
	b.t.Helper()
	out, err := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c",
		`mount -t cgroup2 none "$1/cgroup" && find "$1/cgroup/$2" -depth -type d -exec rmdir {} +`, "sh", b.dir, group).CombinedOutput()
	if err != nil {
		b.t.Errorf("remove the control group %s: %v: %s", group, err, out)
	}
}

// firstOf returns the child of the process that is the first in a pid namespace
// of its own, or 0.
func firstOf(t *testing.T, parent int) int {
	t.Helper()
	ours, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		text, _ := os.ReadFile(name) // of a dead one there is none
		_, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(parent) {
			// Before it there are those that make its namespaces.
			if ns, err := os.Readlink(filepath.Join(filepath.Dir(name), "ns/pid")); err != nil || ns == ours {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	return 0
}

func (b *booted) path(name string) string { return filepath.Join(b.dir, name) }

// try runs a program in the container.
func (b *booted) try(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"--target", strconv.Itoa(b.init), "--mount", "--pid", "--ipc", "--uts", "--net", "--", name}, args...)...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// must is try of what must succeed.
func (b *booted) must(name string, args ...string) string {
	b.t.Helper()
	out, err := b.try(name, args...)
	if err != nil {
		b.t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return out
}

// property returns a property of a unit.
func (b *booted) property(unit, name string) string {
	b.t.Helper()
	return b.must("systemctl", "show", "--value", "--property", name, unit)
}

// until waits for a state.
func (b *booted) until(what string, holds func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(bound); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			console, _ := os.ReadFile(b.path("console"))
			journal, _ := b.try("journalctl", "--no-pager", "-n", "60")
			b.t.Fatalf("not seen within %v: %s\n%s\n%s", bound, what, console, journal)
		}
	}
}

// lines counts the lines of a file; none if it is not there.
func (b *booted) lines(name string) int {
	b.t.Helper()
	text, err := os.ReadFile(b.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// grows waits for more of what a writer writes.
func (b *booted) grows(name string) {
	b.t.Helper()
	n := b.lines(name)
	b.until(name+" to grow", func() bool { return b.lines(name) > n })
}

// A host boots with a tree in fstab and another one by the template unit; the
// unit's daemon is killed and started again; and the host is shut down while
// programs write: nothing that was written is lost, and no lock is left.
func TestSystemd(t *testing.T) {
	t.Parallel()
	b := boot(t)
	for _, back := range []string{"fstabback/D/out", "unitback/D/out"} {
		b.grows(back)
	}
	// A writer keeps the lock.
	b.until("the status of the unit", func() bool {
		return b.property(placeUnit, "StatusText") == "1 directory is locked, 0 operations wait"
	})
	// Shutdown is in the opposite order.
	for unit, below := range map[string]string{"lab-mnt.mount": "lab-fstabexp.mount", placeUnit: "lab-unitexp.mount"} {
		if after := b.property(unit, "After"); !strings.Contains(after, below) {
			t.Errorf("%s is after %s only", unit, after)
		}
		if before := b.property(unit, "Before"); !strings.Contains(before, "remote-fs.target") {
			t.Errorf("%s is before %s only", unit, before)
		}
	}
	if journal := b.must("journalctl", "--no-pager", "-t", "lockfs", "-o", "export"); !strings.Contains(journal, "mounted") || !strings.Contains(journal, "PRIORITY=6") {
		t.Errorf("the journal of the daemon in the background: %s", journal)
	}

	first := b.property(placeUnit, "MainPID")
	b.must("kill", "-9", first)
	b.until("another daemon", func() bool {
		return b.property(placeUnit, "ActiveState") == "active" && b.property(placeUnit, "MainPID") != first
	})
	if n := b.must("grep", "-c", " /lab/unitexp .* fuse.lockfs ", "/proc/self/mountinfo"); n != "1" {
		t.Errorf("%s mounts of lockfs", n)
	}
	b.grows("unitback/D/out")

	// The manager may end before it has answered.
	out, err := b.try("systemctl", "exit")
	select {
	case <-b.done:
	case <-time.After(2 * bound):
		t.Fatalf("the host does not go down: %v: %s", err, out)
	}
	for back, said := range map[string]string{"fstabback": "lab-mnt.said", "unitback": "lab-unitexp.said"} {
		if out, said := b.lines(back+"/D/out"), b.lines(said); out < said || said == 0 {
			t.Errorf("of %d lines that were written to %s %d are there", said, back, out)
		}
		err := filepath.WalkDir(b.path(back), func(path string, e fs.DirEntry, err error) error {
			if err == nil && strings.HasPrefix(e.Name(), lock.Reserved) {
				t.Errorf("left behind: %s", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
