package main

import (
	"encoding/hex"
	"strings"
	"testing"
)

// The handles are those of clients of Linux 6.1 servers.
func TestReadReexport(t *testing.T) {
	for _, c := range []struct {
		what, handle string
		want         reexport
	}{
		{"the root of an export", "00 00 00 00 01 20 00 00 00 40 00 00 08 00 01 00 01 00 00 00 00 00 00 00", reexportUnseen},
		{"a directory of ext4", "00 00 00 00 0f 00 00 00 00 40 00 00 10 00 01 00 01 01 00 00 00 00 0f 00 00 00 20 4d dc 77 00 00", reexportNone},
		{"a file of ext4", "00 00 00 00 11 00 00 00 00 80 00 00 10 00 01 00 01 01 00 00 00 00 11 00 00 00 10 ec a8 97 00 00", reexportNone},
		{"a directory of xfs", "00 00 00 00 80 00 0c 00 00 40 00 00 14 00 01 00 01 81 00 00 00 00 80 00 0c 00 00 00 00 00 09 33 48 aa 00 00", reexportNone},
		{"a file of tmpfs", "00 00 00 00 04 00 00 00 00 80 00 00 14 00 01 00 01 01 00 00 00 00 5d 1d 6c 49 04 00 00 00 00 00 00 00 00 00", reexportNone},
		{"the root of a re-export", "00 00 00 00 80 00 04 00 00 40 00 00 08 00 01 00 01 00 00 00 00 00 00 00", reexportUnseen},
		{"a directory of re-exported ext4", "00 00 00 00 0f 00 00 00 00 40 00 00 28 00 01 00 01 08 00 00 00 00 00 00 00 00 0f 00 00 00 00 40 00 00 10 00 01 00 01 01 00 00 00 00 0f 00 00 00 d4 94 24 71 00 00 00 00", reexportFound},
		{"a file of re-exported xfs", "00 00 00 00 81 00 0c 00 00 80 00 00 2c 00 01 00 01 09 00 00 00 00 00 00 00 00 81 00 0c 00 00 80 00 00 14 00 01 00 01 81 00 00 00 00 81 00 0c 00 00 00 00 00 d9 95 8f 67 00 00 00 00", reexportFound},
		{"another kind of server", "00 00 00 00 81 00 0c 00 00 80 00 00 04 00 43 be 71 dd", reexportUnseen},
		{"nothing", "", reexportUnseen},
	} {
		handle, err := hex.DecodeString(strings.ReplaceAll(c.handle, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := readReexport(handle); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}
