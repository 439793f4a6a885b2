package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockfs/lockfs/lock"
)

func TestRunUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{}, "after --"},
		{[]string{"/d"}, "after --"},
		{[]string{"/d", "true"}, "after --"},
		{[]string{"/d", "--"}, "after --"},
		{[]string{"--", "true"}, "after --"},
		{[]string{"-c", "true"}, "after --"},
		{[]string{"-c", "true", "/d", "--", "true"}, "after --"},
		{[]string{"-w", "soon", "/d", "--", "true"}, "soon"},
		{[]string{"-w", "-1", "/d", "--", "true"}, "-1"},
		{[]string{"-w", "NaN", "/d", "--", "true"}, "NaN"},
		{[]string{"-n", "-w", "1", "/d", "--", "true"}, "nonblock"},
		{[]string{"-E", "256", "/d", "--", "true"}, "256"},
		{[]string{"-x", "/d", "--", "true"}, "-x"},
	} {
		cmd := newCommand()
		cmd.SetArgs(append([]string{"run"}, tt.args...))
		if err := cmd.Execute(); exitCode(err) != exitUsage || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("run %q: %v (code %d), want %q", tt.args, err, exitCode(err), tt.says)
		}
	}
}

func TestParseSeconds(t *testing.T) {
	for in, want := range map[string]time.Duration{"0": 0, "1.5": 1500 * time.Millisecond, "3600": time.Hour} {
		if d, err := parseSeconds(in); err != nil || d != want {
			t.Errorf("parseSeconds(%s) = %v, %v", in, d, err)
		}
	}
}

func TestRunCoded(t *testing.T) {
	r := &runRequest{busy: 9}
	for _, tt := range []struct {
		err  error
		want int
	}{
		{&lock.HeldError{}, 9}, {syscall.EAGAIN, 9}, {syscall.EBUSY, 9}, {lock.ErrNoAnswer, 9}, {syscall.EACCES, exitRefused}, {syscall.EIO, exitIO},
		{lock.ErrDeadlock, exitIO}, {withCode(130, syscall.EAGAIN), 130},
	} {
		if got := exitCode(r.coded(tt.err)); got != tt.want {
			t.Errorf("%v: code %d, want %d", tt.err, got, tt.want)
		}
	}
}

func TestLookCommand(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"sh": 0, "no-such-program": exitNotFound, "/no/such": exitNotFound, plain: exitNotExecutable, "/": exitNotExecutable} {
		if _, err := lookCommand(name); exitCode(err) != want {
			t.Errorf("lookCommand(%s): %v (code %d), want %d", name, err, exitCode(err), want)
		}
	}
}

func TestChildStatus(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -9 $$": 137, "exit 255": 255} {
		err := childStatus(exec.Command("sh", "-c", script).Run())
		if exitCode(err) != want || err != nil && !errors.Is(err, errTold) {
			t.Errorf("%s: %v (code %d), want %d", script, err, exitCode(err), want)
		}
	}
}
