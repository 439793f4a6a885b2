package procid

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestParseUUID(t *testing.T) {
	for text, want := range map[string]string{
		testUUID + "\n":                          testUUID,
		"4C4C4544-0042-3510-8052-B4C04F564433":   testUUID,
		"":                                       "",
		"Not Settable":                           "",
		"00000000-0000-0000-0000-000000000000":   "",
		"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF":   "",
		"03000200-0400-0500-0006-000700080009\n": "",
		"4c4c4544-0042-3510-8052-b4c04f56443":    "",
		"4c4c45440042-3510-8052-b4c0-4f564433":   "",
		"4c4c4544-0042-3510-8052-b4c04f56443z":   "",
	} {
		if got := parseUUID(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestGlobalAddr(t *testing.T) {
	for text, want := range map[string]bool{
		"00:1b:21:3c:4d:5e": true,
		"a4:bf:01:00:00:01": true,
		"02:fc:00:00:00:01": false, // locally administered
		"52:54:00:12:34:56": false, // qemu's
		"01:00:5e:00:00:01": false, // multicast
		"00:00:00:00:00:00": false,
		"80:00:02:08:fe:80:00:00:00:00:00:00:24:8a:07:03:00:11:22:33": false, // InfiniBand
	} {
		a, err := net.ParseMAC(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := globalAddr(a); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if globalAddr(nil) {
		t.Error("no address is a global one")
	}
}

func TestReadHardware(t *testing.T) {
	f := machineFiles().with(
		"sys/devices/pci/0/vendor", "x", "sys/class/net/eth1/device", "-> ../../../devices/pci/0",
		"sys/devices/pci/1/vendor", "x", "sys/class/net/eth0/device", "-> ../../../devices/pci/1",
		"sys/devices/pci/usb1/1-1/vendor", "x", "sys/class/net/usb0/device", "-> ../../../devices/pci/usb1/1-1",
		"sys/devices/pci/vf/physfn", "-> ../0", "sys/class/net/vf0/device", "-> ../../../devices/pci/vf",
		"sys/class/net/lo/mtu", "65536",
		"sys/class/net/gone/device", "-> ../../../devices/nowhere",
		"sys/devices/pci/2/vendor", "x", "sys/class/net/eth2/device", "-> ../../../devices/pci/2",
		"sys/devices/pci/3/vendor", "x", "sys/class/net/eth3/device", "-> ../../../devices/pci/3",
		"sys/devices/pci/4/vendor", "x", "sys/class/net/eth4/device", "-> ../../../devices/pci/4",
	)
	addrs := map[string]string{
		"eth0": "00:1b:21:00:00:0b", "eth1": "00:1b:21:00:00:0a", "eth4": "00:1b:21:00:00:0a",
		"usb0": "00:1b:21:00:00:01", "vf0": "00:1b:21:00:00:02", "lo": "00:1b:21:00:00:03", "gone": "00:1b:21:00:00:04",
		"eth2": "02:00:00:00:00:01",
	}
	h := readHardware(f.write(t), func(i string) (net.HardwareAddr, error) {
		if addrs[i] == "" {
			return nil, errors.New("no permanent address")
		}
		return net.ParseMAC(addrs[i])
	})
	if want := []string{"00:1b:21:00:00:0a", "00:1b:21:00:00:0b"}; h.uuid != testUUID || !slices.Equal(h.addrs, want) {
		t.Errorf("%+v, want %v", h, want)
	}
	if h := readHardware(t.TempDir(), nil); h.uuid != "" || h.addrs != nil {
		t.Errorf("of nothing: %+v", h)
	}
}

func TestFingerprint(t *testing.T) {
	mac := []string{"00:1b:21:00:00:0a"}
	seen := map[string]string{}
	for name, fp := range map[string]string{
		"all":          hardware{testUUID, mac}.fingerprint("hosta"),
		"another host": hardware{testUUID, mac}.fingerprint("hostb"),
		"no address":   hardware{testUUID, nil}.fingerprint("hosta"),
		"no uuid":      hardware{"", mac}.fingerprint("hosta"),
		"two":          hardware{testUUID, append(mac, "00:1b:21:00:00:0b")}.fingerprint("hosta"),
	} {
		if other, ok := seen[fp]; ok || !isHex(fp, 16) || fp == noFingerprint {
			t.Errorf("%s: %q, as %q", name, fp, other)
		}
		seen[fp] = name
		if !sameFingerprint(fp, fp) {
			t.Errorf("%s: does not match itself", name)
		}
	}
	none := hardware{}.fingerprint("hosta")
	if none != noFingerprint || sameFingerprint(none, none) {
		t.Errorf("a host name alone: %q, or it matches itself", none)
	}
	if sameFingerprint("", "") || sameFingerprint("x", "x") {
		t.Error("what is no fingerprint matches itself")
	}
}

// Real interfaces: whatever there is, the question is answered.
func TestPermanentAddr(t *testing.T) {
	if a, err := permanentAddr("nosuchdevice0"); err == nil {
		t.Errorf("of no interface: %v", a)
	}
	ifaces, err := filepath.Glob("/sys/class/net/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range ifaces {
		a, err := permanentAddr(filepath.Base(i))
		text, rerr := os.ReadFile(filepath.Join(i, "address"))
		if err != nil || rerr != nil {
			t.Logf("%s: %v, %v", i, err, rerr)
			continue
		}
		t.Logf("%s: permanent %v, now %s", i, a, text)
		if now, perr := net.ParseMAC(string(text[:len(text)-1])); perr == nil && len(a) != len(now) {
			t.Errorf("%s: %d bytes, and now has %d", i, len(a), len(now))
		}
	}
}
