package procid

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"testing"
)

func TestLocal(t *testing.T) {
	l := machineFiles().local(t)
	want := ID{
		Host: "hosta", Machine: testMachine, Boot: testBoot, Fingerprint: hardware{uuid: testUUID}.fingerprint("hosta"),
		PID: 100, Start: 5000, PIDNS: 4026531836, TimeNS: 4026531834,
	}
	if l.ID() != want || l.Warning() != "" {
		t.Errorf("%+v, %q; want %+v", l.ID(), l.Warning(), want)
	}
}

// A machine without anything a clone lacks may be used, with a warning.
func TestLocalWithoutFingerprint(t *testing.T) {
	l := machineFiles().with("sys/class/dmi/id/product_uuid", "").local(t)
	if l.ID().Fingerprint != noFingerprint || !strings.Contains(l.Warning(), EnvHostID) {
		t.Errorf("fingerprint %s, warning %q", l.ID().Fingerprint, l.Warning())
	}
	f := machineFiles().with("sys/class/dmi/id/product_uuid", "", "sys/devices/pci/0/vendor", "x", "sys/class/net/eth0/device", "-> ../../../devices/pci/0")
	o := f.origin(t)
	o.permanent = func(string) (net.HardwareAddr, error) { return net.ParseMAC("00:1b:21:00:00:0a") }
	l, err := o.local(100)
	if err != nil || l.ID().Fingerprint == noFingerprint || l.Warning() != "" {
		t.Errorf("with an address: %+v, %v", l, err)
	}
}

// LOCKFS_HOST_ID stands for the machine and its fingerprint, whatever else the
// machine has.
func TestLocalHostID(t *testing.T) {
	of := func(id string, f fakeRoot) *Local {
		o := f.origin(t)
		o.hostID = id
		l, err := o.local(100)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	a := of("rack1-node7", machineFiles()).ID()
	bare := of("rack1-node7", machineFiles().with("etc/machine-id", "", "sys/class/dmi/id/product_uuid", ""))
	if a != bare.ID() || bare.Warning() != "" {
		t.Errorf("%+v and %+v, %q", a, bare.ID(), bare.Warning())
	}
	b := of("rack1-node8", machineFiles()).ID()
	if a.Machine == b.Machine || a.Fingerprint == b.Fingerprint || !isHex(a.Machine, 32) || !sameFingerprint(a.Fingerprint, a.Fingerprint) {
		t.Errorf("%+v and %+v", a, b)
	}
	if a.Machine == testMachine || a.Machine[:16] == a.Fingerprint {
		t.Errorf("not hashed apart: %+v", a)
	}
	o := machineFiles().origin(t)
	o.hostID = " \t"
	if _, err := o.local(100); !errors.Is(err, ErrMachineID) {
		t.Errorf("a blank %s: %v", EnvHostID, err)
	}
}

// Whatever cannot be read is an error, with its cause.
func TestLocalErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		files []string
		want  error // nil: any
	}{
		"no boot id":          {[]string{"proc/sys/kernel/random/boot_id", ""}, fs.ErrNotExist},
		"a bad boot id":       {[]string{"proc/sys/kernel/random/boot_id", "x"}, nil},
		"no proc":             {[]string{"proc/self", ""}, fs.ErrNotExist},
		"a bad self":          {[]string{"proc/self", "-> x"}, nil},
		"no stat":             {[]string{"proc/100/stat", ""}, fs.ErrNotExist},
		"a bad stat":          {[]string{"proc/100/stat", "100 sh"}, errStat},
		"a hidden namespace":  {[]string{"proc/100/ns/pid", ""}, fs.ErrNotExist},
		"and a hidden status": {[]string{"proc/100/ns/pid", "", "proc/100/status", ""}, fs.ErrNotExist},
		"a bad namespace":     {[]string{"proc/100/ns/pid", "-> pid:[0]"}, nil},
		"a bad time":          {[]string{"proc/100/ns/time", "-> x"}, nil},
	} {
		l, err := machineFiles().with(tt.files...).origin(t).local(100)
		if l != nil || err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, %v; want %v", name, l, err, tt.want)
		}
	}
	o := machineFiles().origin(t)
	o.hostname = func() (string, error) { return "", os.ErrPermission }
	if _, err := o.local(100); !errors.Is(err, os.ErrPermission) {
		t.Errorf("no host name: %v", err)
	}
}

// A kernel without the namespaces.
func TestLocalWithoutNamespaces(t *testing.T) {
	l := machineFiles().with("proc/100/ns/pid", "", "proc/100/ns/time", "", "proc/100/status", "Name:\tlockfs\nTgid:\t100\n").local(t)
	if id := l.ID(); id.PIDNS != 0 || id.TimeNS != 0 {
		t.Errorf("%+v", id)
	}
	if j := l.Judge(l.ID()); j.Verdict == Dead {
		t.Errorf("itself: %+v", j)
	}
}

// In a /proc of an outer namespace the identity can be read, and nobody judged.
func TestLocalForeignProc(t *testing.T) {
	o := machineFiles().origin(t)
	l, err := o.local(7)
	if err != nil {
		t.Fatal(err)
	}
	if l.ID().PID != 7 || l.ID().Start != 5000 {
		t.Errorf("%+v", l.ID())
	}
	other := l.ID()
	other.PID = 8
	l.open = func(int) (int, error) { t.Error("a process was looked for"); return 0, nil }
	if j := l.Judge(other); j.Verdict != Unknown {
		t.Errorf("%+v", j)
	}
}
