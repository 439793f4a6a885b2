package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

func TestStatusText(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	cause := lock.Cause{Program: "cc", PID: 7, User: "ann", Job: "session 5", Mount: "/mnt"}
	for name, tt := range map[string]struct {
		st    lock.Status
		wants []string
	}{
		"free": {lock.Status{Path: "/d", State: lock.Free}, []string{"/d: free\n"}},
		"held": {
			lock.Status{Path: "/d", State: lock.Held, Host: "alpha", PID: 12, Verdict: "foreign", Reason: "it is of another machine",
				Since: now.Add(-90 * time.Second), Cause: cause, Hint: "wait for it"},
			[]string{"/d: held, by process 12 of host alpha", "(1m30s)", "cc (pid 7), user ann, session 5, through /mnt", "foreign: it is of another machine", "wait for it"},
		},
		"stale": {lock.Status{Path: "/d", State: lock.Stale, Host: "a", PID: 1, Verdict: "dead", Reason: "no process 1 is left"},
			[]string{"/d: stale", "dead: no process 1 is left"}},
		"odd": {lock.Status{Path: "/d", State: lock.Odd, Reason: "two records", Entries: []string{"x\ny"}}, []string{"odd: two records", `"x\ny"`}},
		"waiters": {
			lock.Status{Path: "/d", State: lock.Held, Host: "a", PID: 1, Verdict: "alive",
				Holder:     &lock.LocalHolder{Job: "session 5", Cause: cause, Since: now, Uses: 2, Lost: true},
				Waiters:    []lock.Waiter{{Job: "session 9", Cause: lock.Cause{Program: "sh", PID: 9}, Since: now.Add(time.Hour)}},
				Candidates: []string{".lockfs.v1,x"}},
			[]string{"held here by cc (pid 7), user ann, session 5", "in use 2 times, LOST", "waiting here: sh (pid 9), session 9", "(0s)", "not published: .lockfs.v1,x"},
		},
	} {
		text := statusText(tt.st, now)
		for _, w := range tt.wants {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q lacks %q", name, text, w)
			}
		}
	}
}

func TestStatusOfTree(t *testing.T) {
	self, err := procid.Self()
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, file} {
		st, err := statusOf(path, self.Judge)
		if err != nil || st.State != lock.Free || st.Path != dir {
			t.Errorf("statusOf(%s) = %+v, %v", path, st, err)
		}
	}
	if _, err := statusOf(filepath.Join(dir, "none"), self.Judge); err == nil {
		t.Error("there is a status of nothing")
	}
}

// The command says all it can of the other paths when one fails, as JSON too.
func TestStatusCommand(t *testing.T) {
	if _, err := procid.Self(); err != nil {
		t.Skip(err)
	}
	good, odd := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(odd, lock.Reserved), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := newCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"status", "--json", odd, good})
	err := cmd.ExecuteContext(t.Context())
	if exitCode(err) != exitOdd {
		t.Errorf("exit code %d (%v), want %d", exitCode(err), err, exitOdd)
	}
	d := json.NewDecoder(&out)
	for _, want := range []lock.State{lock.Odd, lock.Free} {
		var st lock.Status
		if err := d.Decode(&st); err != nil || st.State != want {
			t.Errorf("%+v, %v; want state %s", st, err, want)
		}
	}
}
