package played

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// newHost plays a host until the test ends.
func newHost(t *testing.T, name string) *Host {
	t.Helper()
	if os.Geteuid() != 0 {
		unable(t, "needs root: namespaces are made")
	}
	if _, err := exec.LookPath("nsenter"); err != nil {
		unable(t, "needs nsenter: apt-get install util-linux")
	}
	h, err := New(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// unable skips a test that cannot run here; in CI that is a failure.
func unable(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// output runs a command and returns its output without the last newline.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	return strings.TrimSpace(string(out))
}

func TestHostsDiffer(t *testing.T) {
	a, b := newHost(t, "alpha"), newHost(t, "beta")
	for _, what := range []string{
		"cat /proc/sys/kernel/random/boot_id", "cat /proc/sys/kernel/hostname", "echo $LOCKFS_HOST_ID", "readlink /proc/self/ns/mnt",
	} {
		va, vb, here := output(t, a.Command("sh", "-c", what)), output(t, b.Command("sh", "-c", what)), output(t, exec.Command("sh", "-c", what))
		if va == vb || va == here || va == "" {
			t.Errorf("%s: %q on alpha, %q on beta, %q here", what, va, vb, here)
		}
	}
	if n := output(t, a.Command("cat", "/proc/sys/kernel/hostname")); n != "alpha" {
		t.Errorf("host name %q", n)
	}
	if _, err := os.Stat("/etc/machine-id"); err == nil {
		if va, vb := output(t, a.Command("cat", "/etc/machine-id")), output(t, b.Command("cat", "/etc/machine-id")); va == vb {
			t.Errorf("both have machine-id %s", va)
		}
	}
}

func TestRebootKeepsTheHost(t *testing.T) {
	h := newHost(t, "alpha")
	id := func() (boot, host string) {
		return output(t, h.Command("cat", "/proc/sys/kernel/random/boot_id")), output(t, h.Command("sh", "-c", "echo $LOCKFS_HOST_ID"))
	}
	boot, host := id()
	sleeper := h.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	// Its own process is the one that was started, so that it can be killed.
	if err := h.Reboot(); err != nil {
		t.Fatal(err)
	}
	if err := sleeper.Wait(); err == nil {
		t.Error("a process outlived the loss of power")
	}
	boot2, host2 := id()
	if boot2 == boot {
		t.Error("the boot id outlived the reboot")
	}
	if host2 != host {
		t.Errorf("the host's id became %q, it was %q", host2, host)
	}
}

// What is mounted on a host is seen there only, and is gone with it.
func TestMountsStayInside(t *testing.T) {
	h, dir := newHost(t, "alpha"), t.TempDir()
	output(t, h.Command("mount", "-t", "tmpfs", "none", dir))
	inside := output(t, h.Command("grep", "-c", dir, "/proc/self/mountinfo"))
	if inside != "1" {
		t.Errorf("%s mounts inside, want 1", inside)
	}
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), dir) {
		t.Error("the mount is seen outside")
	}
}

func TestJob(t *testing.T) {
	h := newHost(t, "alpha")
	j, err := h.Start("sh", "-c", "echo up; read x; echo went on; sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), killBound)
	defer cancel()
	if err := j.Expect(ctx, "up"); err != nil {
		t.Fatal(err)
	}
	if j.Over() {
		t.Error("it did not wait to be told")
	}
	if err := j.Tell(); err != nil {
		t.Fatal(err)
	}
	if err := j.Expect(ctx, "went on"); err != nil {
		t.Fatal(err)
	}
	j.Close()
	if err := j.Wait(ctx); err == nil {
		t.Error("it was killed, and ended well")
	}
	if _, err := j.Line(ctx); err == nil {
		t.Error("it is dead, and said something")
	}
}
