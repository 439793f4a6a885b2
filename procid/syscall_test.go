package procid

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseCall(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       Call
		ok         bool
	}{
		{"read", "0 0x3 0x7ffe0 0x400 0x0 0x0 0x0 0x7ffd8 0x7f12\n", Call{0, [6]uint64{3, 0x7ffe0, 0x400}}, true},
		{"fchmod", "91 0x5 0x1ed 0x0 0xffffffffffffffff 0x1 0x0 0x7ffd8 0x7f12\n", Call{91, [6]uint64{5, 0x1ed, 0, ^uint64(0), 1}}, true},
		{"running", "running\n", Call{}, false},
		{"in no call", "-1 0x7ffd8 0x7f12\n", Call{}, false},
		{"empty", "", Call{}, false},
		{"no number", "x 0x3 0x7ffe0 0x400 0x0 0x0 0x0 0x7ffd8 0x7f12", Call{}, false},
		{"no argument", "0 0x3 y 0x400 0x0 0x0 0x0 0x7ffd8 0x7f12", Call{}, false},
		{"negative", "-2 0x3 0x7ffe0 0x400 0x0 0x0 0x0 0x7ffd8 0x7f12", Call{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, ok := parseCall(test.text); got != test.want || ok != test.ok {
				t.Errorf("got %v, %v, want %v, %v", got, ok, test.want, test.ok)
			}
		})
	}
}

func TestCallOf(t *testing.T) {
	for _, tid := range []int{0, -1, 1 << 30} {
		if c, err := CallOf(tid); err == nil {
			t.Errorf("thread %d is seen in %v", tid, c)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	cmd := exec.Command("cat")
	cmd.Stdin = r
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	eventually(t, "cat in its read", func() bool {
		c, err := CallOf(cmd.Process.Pid)
		return err == nil && c.Number == unix.SYS_READ && c.Args[0] == 0
	})
	if !Look(cmd.Process.Pid).Alone() {
		t.Error("cat has more than one thread")
	}
}
