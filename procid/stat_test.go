package procid

import (
	"errors"
	"strings"
	"testing"
)

func TestParseStat(t *testing.T) {
	for _, comm := range []string{"sh", "a) R 1 (b", ")", "(", ") Z 1 1", "", " ", "x\ny", "tmux: server", "a)\n1 (b) S"} {
		s, err := parseStat([]byte(statText(42, comm, 'D', 7, 3, 123456)), 42)
		want := stat{comm: comm, state: 'D', session: 7, threads: 3, start: 123456}
		if err != nil || s != want {
			t.Errorf("comm %q: %+v, %v; want %+v", comm, s, err, want)
		}
	}
	good := statText(42, "sh", 'S', 7, 3, 123456)
	for name, text := range map[string]string{
		"empty":                "",
		"no parenthesis":       "42 sh S 1 2",
		"turned parentheses":   "42 )sh( S",
		"another process's":    strings.Replace(good, "42", "43", 1),
		"no pid":               strings.Replace(good, "42", "x", 1),
		"cut off":              good[:40],
		"a session that is x":  strings.Replace(good, " 7 7 ", " 7 x ", 1),
		"a start below zero":   strings.Replace(good, "123456", "-1", 1),
		"a start beyond":       strings.Replace(good, "123456", "18446744073709551616", 1),
		"a state of two":       strings.Replace(good, ") S", ") SS", 1),
		"no number of threads": strings.Replace(good, " 20 0 3 0 ", " 20 0 - 0 ", 1),
	} {
		if s, err := parseStat([]byte(text), 42); !errors.Is(err, errStat) {
			t.Errorf("%s: %+v, %v; want errStat", name, s, err)
		}
	}
}

// Whatever a program calls itself, its start is found.
func FuzzParseStat(f *testing.F) {
	for _, comm := range []string{"sh", "a) R 1 (b", "x\ny)", ""} {
		f.Add(42, comm, byte('S'), 7, 3, uint64(99), []byte(statText(42, comm, 'S', 7, 3, 99)))
	}
	f.Fuzz(func(t *testing.T, pid int, comm string, state byte, session, threads int, start uint64, raw []byte) {
		if s, err := parseStat(raw, pid); err != nil && s != (stat{}) {
			t.Errorf("an error with a result: %+v, %v", s, err)
		}
		if state <= ' ' || state >= 0x7f || state == ')' {
			return
		}
		s, err := parseStat([]byte(statText(pid, comm, state, session, threads, start)), pid)
		if want := (stat{comm, state, session, threads, start}); err != nil || s != want {
			t.Errorf("%+v, %v; want %+v", s, err, want)
		}
	})
}
