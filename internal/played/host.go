package played

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killBound is how long a killed process may take to be gone. One that hangs
// in a file system may take for ever.
const killBound = 30 * time.Second

// Host is a played host. Its methods are not to be called by several
// goroutines at once, but Command and Start may, while the host is up.
type Host struct {
	// Name is the host name.
	Name string

	dir    string // of the files that are bound over the real ones
	hostID string
	keeper *exec.Cmd // keeps the namespaces
	hold   io.Closer // the keeper ends when this is closed
}

// keep is what the keeper runs, with the name and the directory as arguments.
// With LOCKFS_HOST_ID set the machine-id is not read by lockfs; it is bound all
// the same where there is one, for whatever else looks. The keeper then waits
// for the end of its input, so that it never outlives who started it.
const keep = `
set -e
echo "$1" >/proc/sys/kernel/hostname
if [ -e /etc/machine-id ]; then mount --bind "$2/machine-id" /etc/machine-id; fi
mount --bind "$2/boot_id" /proc/sys/kernel/random/boot_id
echo up
exec cat >/dev/null`

// New starts a host of that name. Close ends it.
func New(name string) (*Host, error) {
	dir, err := os.MkdirTemp("", "played-"+name+"-")
	if err != nil {
		return nil, err
	}
	h := &Host{Name: name, dir: dir, hostID: name + "-" + randomHex(8)}
	err = os.WriteFile(filepath.Join(dir, "machine-id"), []byte(randomHex(16)+"\n"), 0o444)
	if err == nil {
		err = h.boot()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("play host %s: %w", name, err), os.RemoveAll(dir))
	}
	return h, nil
}

// boot starts the keeper in namespaces of its own, with a new boot id.
func (h *Host) boot() error {
	b := randomHex(16)
	id := b[:8] + "-" + b[8:12] + "-" + b[12:16] + "-" + b[16:20] + "-" + b[20:] + "\n"
	if err := os.WriteFile(filepath.Join(h.dir, "boot_id"), []byte(id), 0o444); err != nil {
		return err
	}
	cmd := exec.Command("sh", "-c", keep, "sh", h.Name, h.dir)
	// Unshareflags, unlike Cloneflags, makes Go set the propagation of every
	// mount to private: nothing of the host is seen outside of it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS, Setsid: true}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		in.Close()
		return fmt.Errorf("namespaces cannot be set up: %w", errors.Join(err, cmd.Wait(), errors.New(strings.TrimSpace(complaint.String()))))
	}
	h.keeper, h.hold = cmd, in
	return nil
}

// Command returns a command that runs on the host, in a session (a job) and a
// process group of its own, with "/" as its working directory. The id of its
// process is the program's own. It has the environment of this process, the
// host's LOCKFS_HOST_ID, and its own place for what outlives a reboot (State).
func (h *Host) Command(name string, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(h.keeper.Process.Pid), "--mount", "--uts", "--", name}
	cmd := exec.Command("nsenter", append(enter, args...)...)
	cmd.Env = append(os.Environ(), h.env(), "STATE_DIRECTORY="+h.State())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// State is the directory in which lockfs on the host keeps what outlives a
// reboot, if there is anything.
func (h *Host) State() string { return filepath.Join(h.dir, "state") }

// Reboot plays a loss of power and a return: every process of the host is
// killed, its mounts are gone, and it comes back with another boot id.
func (h *Host) Reboot() error {
	if err := h.PowerOff(); err != nil {
		return err
	}
	return h.boot()
}

// PowerOff kills every process of the host; its mounts end with them. A host
// that is off stays so: Reboot switches it on again.
func (h *Host) PowerOff() error {
	if h.keeper == nil {
		return nil
	}
	err := h.killAll()
	h.hold.Close()
	h.keeper.Process.Kill()
	h.keeper.Wait() // killed, so it is no error that it ended so
	h.keeper = nil
	if err != nil {
		return fmt.Errorf("power off host %s: %w", h.Name, err)
	}
	return nil
}

// Close ends the host and removes what it was made of.
func (h *Host) Close() error {
	return errors.Join(h.PowerOff(), os.RemoveAll(h.dir))
}

// killAll kills every process of the host but the keeper, and returns when
// they are gone, but for those that wait to be reaped.
func (h *Host) killAll() error {
	own, err := namespaceOf(h.keeper.Process.Pid)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(killBound); ; time.Sleep(time.Millisecond) {
		left, err := h.members(own)
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v do not end", left)
		}
		for _, pid := range left {
			if err := h.kill(pid, own); err != nil {
				return err
			}
		}
	}
}

// members lists the live processes of the host but the keeper; ns is its mount
// namespace.
func (h *Host) members(ns string) ([]int, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil || pid == h.keeper.Process.Pid {
			continue
		}
		if h.runs(pid, ns) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// runs reports whether the process is one of the host's: it is in the mount
// namespace ns, or has the host's id in its environment as an nsenter has that
// is still on its way there. One that has ended is not.
func (h *Host) runs(pid int, ns string) bool {
	if got, err := namespaceOf(pid); err != nil || got == ns {
		return err == nil
	}
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	return err == nil && slices.Contains(strings.Split(string(env), "\x00"), h.env())
}

// kill kills the process pid if it is the host's. The pidfd keeps the number
// from meaning another process in between.
func (h *Host) kill(pid int, ns string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !h.runs(pid, ns) {
		return nil // it has ended
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// env is the variable that tells programs on the host its identity.
func (h *Host) env() string { return "LOCKFS_HOST_ID=" + h.hostID }

func namespaceOf(pid int) (string, error) {
	return os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns/mnt"))
}

// randomHex returns n random bytes in hex.
func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}
