package procid

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// noFingerprint is the fingerprint of a machine that has nothing a clone
// lacks. It never matches, not even itself.
const noFingerprint = "0000000000000000"

// sameFingerprint reports whether two records are of one machine as far as
// hardware can tell.
func sameFingerprint(a, b string) bool { return a == b && a != noFingerprint && isHex(a, 16) }

// hardware is what tells a machine from its clones.
type hardware struct {
	uuid  string   // DMI product uuid, "" if there is none or it may not be read
	addrs []string // permanent hardware addresses, sorted
}

// fingerprint hashes the hardware and the host name. A host name alone is no
// proof: too many machines are called localhost.
func (h hardware) fingerprint(host string) string {
	if h.uuid == "" && len(h.addrs) == 0 {
		return noFingerprint
	}
	return digest(16, "fingerprint", append([]string{h.uuid, host}, h.addrs...)...)
}

// readHardware reads the hardware below root. permanent returns an
// interface's permanent address. What cannot be read counts as absent: the
// fingerprint is another one then, and no match is the safe answer. So a
// process without root's rights, to whom the uuid is closed, has another
// fingerprint than root on the same machine.
func readHardware(root string, permanent func(iface string) (net.HardwareAddr, error)) hardware {
	var h hardware
	if b, err := os.ReadFile(filepath.Join(root, "sys/class/dmi/id/product_uuid")); err == nil {
		h.uuid = parseUUID(string(b))
	}
	dir := filepath.Join(root, "sys/class/net")
	ifaces, _ := os.ReadDir(dir)
	for _, i := range ifaces {
		if !fixedDevice(filepath.Join(dir, i.Name())) {
			continue
		}
		if a, err := permanent(i.Name()); err == nil && globalAddr(a) {
			h.addrs = append(h.addrs, a.String())
		}
	}
	slices.Sort(h.addrs)
	h.addrs = slices.Compact(h.addrs)
	return h
}

// placeholderUUIDs are what vendors leave in boards that they did not number.
var placeholderUUIDs = []string{
	"03000200-0400-0500-0006-000700080009",
	"12345678-1234-5678-90ab-cddeefaabbcc",
	"fefefefe-fefe-fefe-fefe-fefefefefefe",
}

// parseUUID returns the uuid in lower case, or "" for one that says nothing.
func parseUUID(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	f := strings.Split(s, "-")
	if len(f) != 5 || slices.Contains(placeholderUUIDs, s) {
		return ""
	}
	for i, n := range []int{8, 4, 4, 4, 12} {
		if !isHex(f[i], n) {
			return ""
		}
	}
	if strings.Trim(s, "0-") == "" || strings.Trim(s, "f-") == "" {
		return ""
	}
	return s
}

// fixedDevice reports whether the interface at the sysfs path is a device of
// the machine: no virtual one (it has no device), none on USB (it comes and
// goes), no virtual function of another (its address is assigned).
func fixedDevice(path string) bool {
	dev, err := filepath.EvalSymlinks(filepath.Join(path, "device"))
	if err != nil || strings.Contains(dev, "/usb") {
		return false
	}
	_, err = os.Lstat(filepath.Join(dev, "physfn"))
	return os.IsNotExist(err)
}

// globalAddr reports whether a is an Ethernet address that a manufacturer
// assigned: neither multicast nor locally administered (IEEE 802), not zero.
func globalAddr(a net.HardwareAddr) bool {
	return len(a) == 6 && a[0]&3 == 0 && slices.ContainsFunc(a, func(b byte) bool { return b != 0 })
}
