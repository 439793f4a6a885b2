package procid

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

func TestParseMachineID(t *testing.T) {
	for text, want := range map[string]string{
		testMachine + "\n":                     testMachine,
		testMachine:                            testMachine,
		strings.ToUpper(testMachine):           testMachine,
		"":                                     "",
		"\n":                                   "",
		"uninitialized\n":                      "",
		strings.Repeat("0", 32) + "\n":         "",
		testMachine[1:] + "\n":                 "",
		testMachine + "0\n":                    "",
		testMachine + "\n\n":                   "",
		" " + testMachine[1:] + "\n":           "",
		testMachine[1:] + "g\n":                "",
		"3d1219c7-c4c5-404a-aa1f-6d2a48adfda4": "",
	} {
		if got, err := parseMachineID(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

// The error says what to do, and the cause stays to be asked for.
func TestMachineIDError(t *testing.T) {
	for name, text := range map[string]string{"missing": "", "uninitialized": "uninitialized\n", "all zero": strings.Repeat("0", 32)} {
		f := machineFiles().with("etc/machine-id", text)
		l, err := f.origin(t).local(100)
		if l != nil || !errors.Is(err, ErrMachineID) || errors.Is(err, fs.ErrNotExist) != (text == "") {
			t.Errorf("%s: %v, %v", name, l, err)
			continue
		}
		for _, word := range []string{"systemd-machine-id-setup", EnvHostID, "etc/machine-id"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: the error does not name %s: %v", name, word, err)
			}
		}
	}
}

func TestParseBootID(t *testing.T) {
	for text, want := range map[string]string{
		"8ee524b3-8346-437f-923e-43f0f1afcf2c\n": testBoot,
		"":                                       "",
		"8ee524b3\n":                             "",
		"00000000-0000-0000-0000-000000000000\n": "",
		"8ee524b3-8346-437f-923e-43f0f1afcf2x\n": "",
	} {
		if got, err := parseBootID(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

func FuzzParseIDs(f *testing.F) {
	f.Add(testMachine + "\n")
	f.Add("8ee524b3-8346-437f-923e-43f0f1afcf2c\n")
	f.Add(testUUID)
	f.Add("uninitialized\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name, parse := range map[string]func(string) (string, error){"machine-id": parseMachineID, "boot id": parseBootID} {
			if id, err := parse(text); (err == nil) != isHex(id, 32) || err != nil && id != "" {
				t.Errorf("%s: %q, %v", name, id, err)
			}
		}
		if u := parseUUID(text); u != "" && len(u) != 36 {
			t.Errorf("uuid %q", u)
		}
	})
}

// No two identities run together in the hash.
func TestDigest(t *testing.T) {
	seen := map[string]string{}
	for name, d := range map[string]string{
		"ab":              digest(16, "x", "ab"),
		"a b":             digest(16, "x", "a", "b"),
		"b a":             digest(16, "x", "b", "a"),
		"ab, empty":       digest(16, "x", "ab", ""),
		"empty, ab":       digest(16, "x", "", "ab"),
		"for another use": digest(16, "y", "ab"),
	} {
		if other, ok := seen[d]; ok || !isHex(d, 16) {
			t.Errorf("%s: %q, as %q", name, d, other)
		}
		seen[d] = name
	}
	if a, b := digest(32, "x", "ab"), digest(16, "x", "ab"); a[:16] != b {
		t.Errorf("%q does not begin with %q", a, b)
	}
}
