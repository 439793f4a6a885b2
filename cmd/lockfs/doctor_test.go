package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestNFSOptions(t *testing.T) {
	for options, want := range map[string]string{
		"rw,vers=4.2,hard":                "ok ok ok ok",
		"rw,vers=4.2,soft":                "fault ok ok ok",
		"rw,vers=4.1,softerr,noac":        "fault ok ok ok",
		"rw,vers=3,hard,lookupcache=none": "ok ok ok ok",
		"rw,hard":                         "ok warning ok ok",
	} {
		var got []string
		for _, f := range nfsOptions(strings.Split(options, ",")) {
			got = append(got, f.Level)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", options, got, want)
		}
	}
	if f := nfsOptions([]string{"vers=3"})[1]; !strings.Contains(f.Text, "twice") {
		t.Errorf("version 3: %+v", f)
	}
	if f := nfsOptions([]string{"vers=4.2", "noac"})[2]; !strings.Contains(f.Text, "slow") {
		t.Errorf("noac: %+v", f)
	}
}

func TestFileSystem(t *testing.T) {
	for fsType, want := range map[string]string{"nfs4": "ok nfs4 of srv:/x at /m", "ext4": "ok ext4 at /m: local", "ceph": "warning ceph at /m: whether"} {
		f := fileSystem(mountEntry{fsType: fsType, source: "srv:/x", point: "/m"})
		if got := f.Level + " " + f.Text; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", fsType, got)
		}
	}
}

func TestShowFindings(t *testing.T) {
	var b bytes.Buffer
	err := showFindings(&b, []finding{ok("a", "fine"), fault("long", "do it", "bad\x1b")})
	const want = "ok       a     fine\nfault    long  bad\\x1b\n               -> do it\n"
	if err != nil || b.String() != want {
		t.Errorf("%q, %v; want %q", b.String(), err, want)
	}
}
