package procid

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestStatusProgram(t *testing.T) {
	for escaped, want := range map[string]string{
		"sh":             "sh",
		" a ":            " a ",
		`x\ny`:           "x\ny",
		`a\\nb`:          `a\nb`,
		"a) R 1 (b":      "a) R 1 (b",
		"":               "",
		"Tgid:\t1 ":      "Tgid:\t1 ",
		`\nTgid:\t1\\\n`: "\nTgid:\\t1\\\n",
	} {
		name, pid, err := status(statusText(escaped, 77, "")).program()
		if err != nil || name != want || pid != 77 {
			t.Errorf("%q: %q, %d, %v; want %q, 77", escaped, name, pid, err, want)
		}
	}
	// A kernel that does not escape: the name ends at its newline, but the
	// lines it feigns are not believed.
	s := status(statusText("x\nTgid:\t1\nPid:\t1", 77, ""))
	if _, pid, err := s.program(); err != nil || pid != 77 {
		t.Errorf("a feigned Tgid: %d, %v", pid, err)
	}
	for _, text := range []string{"", "Tgid:\t5\n", "Name:\tsh\n", "Name:\tsh\nTgid:\tx\n"} {
		if _, _, err := status(text).program(); !errors.Is(err, errStatus) {
			t.Errorf("%q: %v; want errStatus", text, err)
		}
	}
}

func TestStatusGroups(t *testing.T) {
	for line, want := range map[string][]uint32{
		"Groups:\t\n":                 nil,
		"Groups:\t4 24 4294967295 \n": {4, 24, 4294967295},
	} {
		got, err := status(line).numbers("Groups")
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", line, got, err, want)
		}
	}
	for _, line := range []string{"", "Groups:\t4 x\n", "Groups:\t4294967296\n", "Groups:\t-1\n"} {
		if got, err := status(line).numbers("Groups"); !errors.Is(err, errStatus) {
			t.Errorf("%q: %v, %v; want errStatus", line, got, err)
		}
	}
}

// No text makes the readers of status panic, and what a thread calls itself,
// escaped by the kernel, feigns no field.
func FuzzStatus(f *testing.F) {
	f.Add(statusText("sh", 1, ""), "sh")
	f.Add("Name:\tx\nState:\t\nSigPnd:\tzz\n", "a\nTgid:\t1")
	f.Fuzz(func(t *testing.T, text, comm string) {
		s := status(text)
		s.endsWait()
		s.program()
		s.numbers("Groups")
		escaped := strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(comm)
		name, pid, err := status(statusText(escaped, 77, "")).program()
		if err != nil || name != comm || pid != 77 {
			t.Errorf("%q, %d, %v; want %q, 77", name, pid, err, comm)
		}
	})
}
