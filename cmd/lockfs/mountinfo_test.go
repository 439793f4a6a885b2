package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestParseMountinfo(t *testing.T) {
	const text = `26 1 254:0 / / rw,relatime - ext4 /dev/vda rw
90 26 0:50 / /mnt/a\040b\134 rw,nosuid,nodev shared:7 master:2 - fuse.lockfs srv:/x\040y rw,user_id=0
91 26 0:51 / /mnt/c rw - fuse
damaged line
92 26 0:52 / /mnt/d rw no separator
`
	want := []mountEntry{
		{dev: "254:0", root: "/", point: "/", fsType: "ext4", source: "/dev/vda", options: []string{"rw", "relatime", "rw"}},
		{dev: "0:50", root: "/", point: `/mnt/a b\`, fsType: "fuse.lockfs", source: "srv:/x y", options: []string{"rw", "nosuid", "nodev", "rw", "user_id=0"}},
	}
	if got := parseMountinfo(text); !reflect.DeepEqual(got, want) {
		t.Errorf("parseMountinfo: %+v, want %+v", got, want)
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		"": "", `a\040b`: "a b", `\011\012`: "\t\n", `\134040`: `\040`, `a\`: `a\`, `\9`: `\9`, `\999`: `\999`, `\04`: `\04`,
	} {
		if got := unescape(in); got != want {
			t.Errorf("unescape(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestMountpoint(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "real", "mnt"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"parent": "real", "direct": "real/mnt"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	want := filepath.Join(dir, "real", "mnt")
	for _, in := range []string{"real/mnt", "real/mnt/", "real/../real/mnt", "parent/mnt", "direct"} {
		got, err := mountpoint(filepath.Join(dir, in))
		if err != nil || got != want {
			t.Errorf("mountpoint(%s) = %q, %v; want %q", in, got, err, want)
		}
	}
	if _, err := mountpoint(filepath.Join(dir, "none", "mnt")); err == nil {
		t.Error("a mountpoint below nothing has a path")
	}
}

func TestTopMount(t *testing.T) {
	if m, err := topMount("/proc"); err != nil || m == nil || m.fsType != "proc" || m.ours() {
		t.Errorf("topMount(/proc) = %+v, %v", m, err)
	}
	if m, err := topMount(t.TempDir()); err != nil || m != nil {
		t.Errorf("topMount of no mount = %+v, %v", m, err)
	}
}
