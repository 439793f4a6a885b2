package lock

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/lockfs/lockfs/procid"
)

func testID(pid int) procid.ID {
	return procid.ID{Host: "alpha", Machine: strings.Repeat("a", 32), Boot: strings.Repeat("b", 32),
		Fingerprint: strings.Repeat("c", 16), PID: pid, Start: 77, PIDNS: 4026531836, TimeNS: 4026531834}
}

func TestRecordRoundTrip(t *testing.T) {
	long := testID(math.MaxInt32)
	long.Host, long.Start, long.PIDNS, long.TimeNS = strings.Repeat("h", 300), math.MaxUint64, math.MaxUint64, math.MaxUint64
	strange := testID(1)
	strange.Host = "a b/ü,\n"
	for _, id := range []procid.ID{testID(1), long, strange} {
		r := record{holder: id, nonce: 1}
		got, err := parseRecord(r.name())
		if err != nil {
			t.Fatalf("parseRecord(%q): %v", r.name(), err)
		}
		if got.name() != r.name() {
			t.Errorf("read %q, wrote %q", got.name(), r.name())
		}
		if n := len(besidePrefix + r.name()); n > 255 {
			t.Errorf("%d bytes are more than NAME_MAX: %q", n, r.name())
		}
	}
}

func TestParseRecordRefuses(t *testing.T) {
	good := record{holder: testID(12), nonce: 5}.name()
	for _, c := range []struct {
		name string
		want error
	}{
		{"", errMalformed},
		{".nfs0000000000001", errMalformed},
		{"v2" + good[2:], errNewerFormat},
		{"v10,anything", errNewerFormat},
		{good + ",", errMalformed},
		{good + "\n", errMalformed},
		{strings.ToUpper(good), errMalformed},
		{strings.Replace(good, ",12,", ",012,", 1), errMalformed},
		{strings.Replace(good, ",12,", ",0,", 1), errMalformed},
		{strings.Replace(good, ",12,", ",-12,", 1), errMalformed},
		{strings.Replace(good, ",12,", ",99999999999,", 1), errMalformed},
		{strings.Replace(good, "alpha", "", 1), errMalformed},
		{strings.Replace(good, "alpha", "al pha", 1), errMalformed},
		{good[:len(good)-1], errMalformed},
	} {
		if _, err := parseRecord(c.name); !errors.Is(err, c.want) {
			t.Errorf("parseRecord(%q) = %v, want %v", c.name, err, c.want)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add(record{holder: testID(12), nonce: 5}.name())
	f.Add("v1,,,,,,,,,")
	f.Fuzz(func(t *testing.T, name string) {
		if r, err := parseRecord(name); err == nil && r.name() != name {
			t.Errorf("%q was read as %q", name, r.name())
		}
	})
}

func TestClassify(t *testing.T) {
	one := record{holder: testID(1), nonce: 1}.name()
	two := record{holder: testID(2), nonce: 2}.name()
	for _, c := range []struct {
		names []string
		want  State
	}{
		{nil, Free},
		{[]string{one}, Held},
		{[]string{one, ".nfs0001", "@eaDir"}, Held},
		{[]string{one, two}, Odd},
		{[]string{"@eaDir"}, Odd},
		{[]string{".nfs0001"}, Odd},
		{[]string{"v2,x"}, Odd},
		{[]string{"v1,x"}, Odd},
	} {
		if got := classify(c.names).state; got != c.want {
			t.Errorf("classify(%q) = %s, want %s", c.names, got, c.want)
		}
	}
}

func TestNFSMount(t *testing.T) {
	line := func(dev, kind, options string) string {
		return "40 20 " + dev + ` / /m\040-\040t rw,relatime shared:3 master:2 - ` + kind + " srv:/x rw," + options + ",hard\n"
	}
	of := func(version string) string { return line("0:50", "nfs4", "vers="+version) }
	for _, c := range []struct {
		text          string
		nfs, sessions bool
	}{
		{of("4.2"), true, true},
		{of("4.1"), true, true},
		{of("4.0"), true, false},
		{of("4"), true, false},
		{line("0:50", "nfs", "vers=3"), true, false},
		{line("0:50", "nfs", "rsize=4096"), true, false},
		{of("4.2") + of("4.0"), true, false},
		{of("4.0") + of("4.2"), true, false},
		{line("0:51", "nfs4", "vers=4.0") + of("4.2"), true, true},
		{line("0:51", "nfs4", "vers=4.2"), false, false},
		{line("0:50", "ceph", "vers=4.2"), false, false},
		{"40 20 0:50 / /m rw\n", false, false},
		{"", false, false},
	} {
		if nfs, sessions := nfsMount(c.text, "0:50"); nfs != c.nfs || sessions != c.sessions {
			t.Errorf("nfsMount(%q) = %v, %v, want %v, %v", c.text, nfs, sessions, c.nfs, c.sessions)
		}
	}
}

func TestNoteIsShort(t *testing.T) {
	n := note{Cause: Cause{Program: strings.Repeat("\x01", 5000), Job: strings.Repeat("j", 5000)}}
	if got := n.String(); len(got) > 1000 {
		t.Errorf("a note of %d bytes does not fit into a symbolic link of XFS", len(got))
	}
	want := Cause{Program: "cp", PID: 7, User: "ann", Job: "session 3", Mount: "/locked"}
	if got := parseNote(note{Cause: want}.String()); got.Cause != want {
		t.Errorf("read %+v, wrote %+v", got.Cause, want)
	}
}
