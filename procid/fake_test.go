package procid

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	testMachine = "3d1219c7c4c5404aaa1f6d2a48adfda4"
	testBoot    = "8ee524b38346437f923e43f0f1afcf2c"
	testUUID    = "4c4c4544-0042-3510-8052-b4c04f564433"
)

// fakeRoot is a directory with the files of /etc, /proc and /sys that the
// package reads. A value is a file's text, or "-> x" for a link to x.
type fakeRoot map[string]string

// machineFiles are those of a machine whose process 100, started at tick
// 5000, is this one.
func machineFiles() fakeRoot {
	return fakeRoot{
		"etc/machine-id":                   testMachine + "\n",
		"sys/class/dmi/id/product_uuid":    testUUID + "\n",
		"proc/sys/kernel/random/boot_id":   "8ee524b3-8346-437f-923e-43f0f1afcf2c\n",
		"proc/self":                        "-> 100",
		"proc/100/stat":                    statText(100, "lockfs", 'S', 100, 9, 5000),
		"proc/100/status":                  statusText("lockfs", 100, ""),
		"proc/100/ns/pid":                  "-> pid:[4026531836]",
		"proc/100/ns/time":                 "-> time:[4026531834]",
		"sys/devices/pci/eth9/nothing":     "",
		"sys/devices/virtual/net/lo/empty": "",
	}
}

// with returns f with some files added or, if empty, taken away.
func (f fakeRoot) with(kv ...string) fakeRoot {
	for i := 0; i < len(kv); i += 2 {
		if f[kv[i]] = kv[i+1]; kv[i+1] == "" {
			delete(f, kv[i])
		}
	}
	return f
}

// write makes the files below a new directory.
func (f fakeRoot) write(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range f {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// origin returns where the identity of the fake machine is read from.
func (f fakeRoot) origin(t testing.TB) origin {
	t.Helper()
	return origin{
		root:      f.write(t),
		hostname:  func() (string, error) { return "hosta", nil },
		permanent: func(string) (net.HardwareAddr, error) { return nil, errors.New("no interface") },
	}
}

// local returns the identity and judge of the fake machine's process 100.
// No other process of it can be opened until open is set.
func (f fakeRoot) local(t testing.TB) *Local {
	t.Helper()
	l, err := f.origin(t).local(100)
	if err != nil {
		t.Fatal(err)
	}
	l.open = func(int) (int, error) { return -1, unix.EPERM }
	return l
}

// statText is a text of proc_pid_stat(5), from a real one.
func statText(pid int, comm string, state byte, session, threads int, start uint64) string {
	return fmt.Sprintf("%d (%s) %c 1 %d %d 0 -1 4194560 1043 0 0 0 3 2 0 0 20 0 %d 0 %d 1263693824 2105 18446744073709551615 1 1 0 0 0 0 0 4096 17475 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
		pid, comm, state, session, session, threads, start)
}

// statusText is a text of proc_pid_status(5), from a real one; more is lines
// at its end. name is as the kernel escapes it.
func statusText(name string, tgid int, more string) string {
	return fmt.Sprintf("Name:\t%s\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t%d\nNgid:\t0\nPid:\t%d\nPPid:\t1\nTracerPid:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t64\nGroups:\t4 24 1000 \nNStgid:\t%d\nNSpid:\t%d\nNSpgid:\t0\nNSsid:\t0\nVmPeak:\t 1234 kB\nThreads:\t9\nSigQ:\t0/7823\n%s",
		name, tgid, tgid, tgid, tgid, more)
}
