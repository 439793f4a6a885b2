package integration

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// exitCode returns the status that a program ended with, -1 for none.
func exitCode(err error) int {
	var failed *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &failed):
		return failed.ExitCode()
	}
	return -1
}

// A signal whose action is to end the process ends its wait, and leaves no
// lock and no candidate.
func TestSignalsEndAWait(t *testing.T) {
	for _, sig := range []syscall.Signal{unix.SIGTERM, unix.SIGKILL, unix.SIGINT, unix.SIGHUP} {
		for _, script := range []string{"exec 3>>held", "exec 3>new", "exec mkdir new"} {
			t.Run(sig.String()+" "+script, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				j := w.beta.hold()
				// The tests may run with some signals ignored, as in a shell's
				// background.
				waiter := w.alpha.start("env", "--default-signal", "sh", "-c", "cd "+w.in()+" || exit; "+script)
				w.alpha.waits(1)
				if err := waiter.Signal(sig); err != nil {
					t.Fatal(err)
				}
				if err := w.ended(waiter); !exitedBy(err, sig) {
					t.Errorf("the waiter ended with %v, want %v", err, sig)
				}
				w.alpha.waits(0)
				w.tell(j)
				w.tell(j)
				w.done(j)
				w.free()
				w.nothingLeft()
			})
		}
	}
}

// A handler that asks for an end makes the call fail with EINTR; one that
// keeps house does not.
func TestCaughtSignals(t *testing.T) {
	for _, tt := range []struct {
		sigs []syscall.Signal
		want string
	}{
		{[]syscall.Signal{unix.SIGCHLD, unix.SIGWINCH, unix.SIGURG, unix.SIGCONT, unix.SIGIO, unix.SIGPROF, unix.SIGURG}, "open ok"},
		{[]syscall.Signal{unix.SIGTERM}, "open EINTR"},
		{[]syscall.Signal{unix.SIGINT}, "open EINTR"},
		{[]syscall.Signal{unix.SIGUSR1}, "open EINTR"},
		{[]syscall.Signal{unix.SIGALRM}, "open EINTR"},
		{[]syscall.Signal{unix.SIGURG, unix.SIGTERM}, "open EINTR"}, // after one that was ignored
	} {
		t.Run(tt.want+" after "+tt.sigs[0].String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.write("old", "old\n")
			j := w.beta.hold()
			waiter := w.alpha.client("signals", w.in("old"))
			ctx, cancel := context.WithTimeout(w.ctx, bound)
			defer cancel()
			line, err := waiter.Line(ctx)
			if err != nil {
				t.Fatal(err)
			}
			tid, err := strconv.Atoi(line)
			if err != nil {
				t.Fatal(err)
			}
			w.alpha.waits(1)
			for _, sig := range tt.sigs {
				if err := unix.Tgkill(waiter.PID, tid, sig); err != nil {
					t.Fatal(err)
				}
			}
			if tt.want == "open ok" {
				// Each status is a round through the daemon: the signals have
				// been looked at by then, or will be while it goes on waiting.
				for range 5 {
					w.alpha.waits(1)
				}
			} else {
				w.expect(waiter, tt.want)
				w.alpha.waits(0)
			}
			w.tell(j)
			if tt.want == "open ok" {
				w.expect(waiter, tt.want)
			}
			w.done(waiter)
			w.tell(j)
			w.done(j)
			w.free()
		})
	}
}
