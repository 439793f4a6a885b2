package gate

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// stopped starts a process that has the files open and is stopped, so that a
// signal stays pending as it does for a process in a system call.
func stopped(t *testing.T, files ...*os.File) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	cmd.ExtraFiles = files
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	var ws syscall.WaitStatus
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Wait4(cmd.Process.Pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("%v, %v", ws, err)
	}
	return cmd
}

func realWorld(t *testing.T) *world {
	w := newWorld(t, Config{Wait: lock.Forever, Jobs: procid.ByProcess})
	w.Gate.host = thisHost{}
	return w
}

// until polls for a state.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// The signals of a real process: CHLD does not end its wait, KILL does.
func TestRealSignals(t *testing.T) {
	w := realWorld(t)
	other := w.locks.hold(d1, job(1))
	p := stopped(t)
	c := Caller{TID: p.Process.Pid}
	_, no := w.Alter(t.Context(), new(c), d1)
	w.want("alter", no, syscall.ESTALE)
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan syscall.Errno)
	go func() { ended <- w.Attributes(ctx, c, d1) }()
	until(t, "it waits", func() bool { return w.locks.waiters() == 1 })
	if err := p.Process.Signal(syscall.SIGCHLD); err != nil {
		t.Fatal(err)
	}
	interrupt()
	select {
	case no := <-ended:
		t.Fatalf("ended by SIGCHLD: %v", no)
	case <-time.After(2 * lookAgain):
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	w.want("killed", <-ended, syscall.EINTR)
	w.drop(other)
	w.empty()
}

// The reservation of a process that is killed is released.
func TestRealDeathDropsReservation(t *testing.T) {
	w := realWorld(t)
	other := w.locks.hold(d1, job(1))
	p := stopped(t)
	c := Caller{TID: p.Process.Pid}
	_, no := w.Alter(t.Context(), new(c), d1)
	w.want("alter", no, syscall.ESTALE)
	w.drop(other)
	w.want("attributes", w.Attributes(t.Context(), c, d1), 0)
	if w.locks.held() != 1 {
		t.Fatal("no reservation")
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Not reaped yet: a zombie does not come back either.
	until(t, "the reservation is released", func() bool { return w.locks.held() == 0 })
	w.empty()
}

func TestRealDescriptor(t *testing.T) {
	w := realWorld(t)
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	_, done, no := w.OpenVirtual(t.Context(), Caller{TID: os.Getpid()}, d1, st.Dev, st.Ino)
	w.want("virtual", no, 0)
	heir, stranger := stopped(t, f), stopped(t)
	h, no := w.Alter(t.Context(), new(Caller{TID: heir.Process.Pid}), d1)
	w.want("heir", no, 0)
	w.drop(h)
	_, no = w.Alter(t.Context(), new(Caller{TID: stranger.Process.Pid}), d1)
	w.want("stranger", no, syscall.ESTALE)
	done()
	w.empty()
}
