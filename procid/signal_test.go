package procid

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

func TestEndsWaitRule(t *testing.T) {
	set := setOf
	const rt = unix.Signal(34)
	for _, tt := range []struct {
		name string
		m    masks
		want bool
	}{
		{"nothing", masks{}, false},
		{"killed", masks{thread: set(unix.SIGKILL)}, true},
		{"the process killed", masks{shared: set(unix.SIGKILL)}, true},
		{"killed, all blocked", masks{thread: set(unix.SIGKILL), blocked: ^signals(0)}, true},
		{"terminated", masks{shared: set(unix.SIGTERM)}, true},
		{"terminated, blocked", masks{shared: set(unix.SIGTERM), blocked: set(unix.SIGTERM)}, false},
		{"terminated, ignored", masks{shared: set(unix.SIGTERM), ignored: set(unix.SIGTERM)}, false},
		{"hung up, ignored (nohup)", masks{thread: set(unix.SIGHUP), ignored: set(unix.SIGHUP)}, false},
		{"fault", masks{thread: set(unix.SIGSEGV)}, true},
		{"a pipe broke", masks{thread: set(unix.SIGPIPE)}, true},
		{"a pipe broke, caught", masks{thread: set(unix.SIGPIPE), caught: set(unix.SIGPIPE)}, false},
		{"two, one blocked", masks{shared: set(unix.SIGINT, unix.SIGCHLD), blocked: set(unix.SIGINT), caught: set(unix.SIGCHLD, unix.SIGINT)}, false},
		{"two, one counts", masks{thread: set(unix.SIGURG), shared: set(unix.SIGTERM), caught: set(unix.SIGURG, unix.SIGTERM)}, true},
		{"real-time, default", masks{shared: set(rt)}, true},
		{"real-time, caught", masks{shared: set(rt), caught: set(rt)}, false},
		{"the last signal", masks{shared: set(64)}, true},
	} {
		if got := status(tt.m.text()).endsWait(); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	// Each signal, pending alone: by default, and caught.
	caught := map[unix.Signal]bool{unix.SIGINT: true, unix.SIGTERM: true, unix.SIGHUP: true, unix.SIGQUIT: true, unix.SIGALRM: true, unix.SIGUSR1: true, unix.SIGUSR2: true}
	harmless := map[unix.Signal]bool{unix.SIGCHLD: true, unix.SIGWINCH: true, unix.SIGURG: true, unix.SIGCONT: true, unix.SIGSTOP: true, unix.SIGTSTP: true, unix.SIGTTIN: true, unix.SIGTTOU: true}
	for s := unix.Signal(1); s <= 64; s++ {
		if got, want := status(masks{shared: set(s)}.text()).endsWait(), !harmless[s]; got != want {
			t.Errorf("%v by default: %v, want %v", s, got, want)
		}
		if s == unix.SIGKILL || s == unix.SIGSTOP {
			continue // cannot be caught
		}
		if got, want := status(masks{thread: set(s), caught: set(s)}.text()).endsWait(), caught[s]; got != want {
			t.Errorf("%v caught: %v, want %v", s, got, want)
		}
	}
	for state, want := range map[string]bool{"S (sleeping)": false, "D (disk sleep)": false, "T (stopped)": false, "Z (zombie)": true, "X (dead)": true, "": false} {
		if got := status("Name:\tsh\nState:\t" + state + "\n").endsWait(); got != want {
			t.Errorf("state %q: %v, want %v", state, got, want)
		}
	}
	if status("SigPnd:\tnonsense\nShdPnd:\n").endsWait() {
		t.Error("a set that cannot be read ended the wait")
	}
}

// masks are the sets of signals of a status text.
type masks struct{ thread, shared, blocked, ignored, caught signals }

func (m masks) text() string {
	return statusText("sh", 1, fmt.Sprintf("SigPnd:\t%016x\nShdPnd:\t%016x\nSigBlk:\t%016x\nSigIgn:\t%016x\nSigCgt:\t%016x\n",
		uint64(m.thread), uint64(m.shared), uint64(m.blocked), uint64(m.ignored), uint64(m.caught)))
}
