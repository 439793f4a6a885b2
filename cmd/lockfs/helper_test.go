package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The argument lists are those that mount(8), umount(8) and mount.fuse(8) of
// Debian 12 were seen to call their helpers with.
func TestHelperOf(t *testing.T) {
	for _, tt := range []struct {
		argv []string
		args []string // nil: it is a command
	}{
		{[]string{"/sbin/mount.lockfs", "/s", "/m", "-o", "rw"}, []string{"/s", "/m", "-o", "rw"}},
		{[]string{"/sbin/mount.fuse.lockfs", "/s", "/m"}, []string{"/s", "/m"}},
		{[]string{"umount.fuse.lockfs", "/m", "-l"}, []string{"/m", "-l"}},
		{[]string{"lockfs", "/s", "/m", "-o", "rw"}, []string{"/s", "/m", "-o", "rw"}},
		{[]string{"lockfs", "status", "/m"}, nil},
		{[]string{"lockfs", "staus", "/m"}, nil},
		{[]string{"lockfs", "/m"}, nil},
		{[]string{"lockfs"}, nil},
	} {
		help, args := helperOf(tt.argv)
		if (help != nil) != (tt.args != nil) || !slices.Equal(args, tt.args) {
			t.Errorf("helperOf(%q) = %v, %q", tt.argv, help != nil, args)
		}
	}
}

func TestHelperCode(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, 0}, {usage("x"), 1}, {withCode(exitInterrupted, errors.New("x")), 8}, {syscall.EBUSY, 32}, {withCode(exitUnfit, errors.New("x")), 32},
	} {
		if got := helperCode(tt.err); got != tt.want {
			t.Errorf("helperCode(%v) = %d, want %d", tt.err, got, tt.want)
		}
	}
}

// A fake mount mounts nothing and says what is wrong all the same.
func TestMountHelperFake(t *testing.T) {
	all := "ro,noexec,nosuid,nodev,relatime,allow_other,timeout=5m,_netdev,nofail,user"
	for _, tt := range []struct {
		args []string
		says string // "": it is well
	}{
		{[]string{"/s", "/m", "-s", "-n", "-v", "-f", "-o", all}, ""},
		{[]string{"/s", "/m", "-f", "-n", "-o", all}, `"timeout=5m"`},
		{[]string{"/s", "/m", "-snvf", "-t", "fuse.lockfs"}, ""},
		{[]string{"-f", "-o", "ro", "-o", "wait=1m", "a b", "/m"}, ""},
		{[]string{"/s", "-f"}, "SOURCE MOUNTPOINT"},
		{[]string{"/s", "/m", "/n", "-f"}, "SOURCE MOUNTPOINT"},
		{[]string{"/s", "/m", "-f", "-x"}, "-x"},
		{[]string{"/s", "/m", "-f", "-N", "/proc/1/ns/mnt"}, "nsenter"},
	} {
		err := mountHelper(tt.args, io.Discard)
		switch {
		case tt.says == "" && err != nil:
			t.Errorf("mountHelper(%q): %v", tt.args, err)
		case tt.says != "" && (helperCode(err) != helperUsage || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("mountHelper(%q): %v (code %d), want %q and code 1", tt.args, err, helperCode(err), tt.says)
		}
	}
}
