package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	lockfs "github.com/lockfs/lockfs/fs"
	"github.com/lockfs/lockfs/lock"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// sample is an answer with everything in it that an answer can have.
func sample() *view {
	cause := lock.Cause{Program: "cc", PID: 7, User: "ann", Job: "session 5"}
	waiter := lock.Waiter{Job: "session 9", Cause: lock.Cause{Program: "make", PID: 9, User: "bob"}, Since: noon.Add(-12 * time.Second)}
	held := lock.Status{State: lock.Held, Record: "v1,beta,x", Host: "beta", PID: 12, Verdict: "foreign", Reason: "it is of another machine",
		Since: noon.Add(-90 * time.Second), Cause: cause, Waiters: []lock.Waiter{waiter}}
	held.Advise("/m/a b")
	stale := lock.Status{State: lock.Stale, Record: "v1,alpha,y", Host: "alpha", PID: 1234567, Verdict: "dead", Reason: "no process 1234567 is left"}
	stale.Advise("/m/c")
	odd := lock.Status{State: lock.Odd, Reason: ".lockfs holds no record but x\x1b[31m", Entries: []string{"x\x1b[31m"}}
	odd.Advise("/m/d\n")
	left := lock.Status{State: lock.Free, Candidates: []string{".lockfs.v1,alpha"}}
	left.Advise("/m/e")
	return &view{
		mounts: []mountView{
			{Mount: "/m", Source: "/nfs", State: mountServed, Host: "alpha", PID: 41, Since: noon.Add(-3 * time.Hour), Holds: 1, Waiters: 1},
			{Mount: "/n", State: mountDead},
			{Mount: "/o", State: mountSilent, Reason: "its daemon does not answer within 5s"},
		},
		listed: []lock.Status{held, stale, odd, left},
		walked: 17,
	}
}

func TestShowText(t *testing.T) {
	var b bytes.Buffer
	if err := showText(&b, sample(), style{now: noon}); err != nil {
		t.Fatal(err)
	}
	const want = `/m: /nfs, served by process 41 for 3h00m; holds 1, 1 waiting
/n: its daemon has ended; to clear it: lockfs umount /n
/o: its daemon does not answer within 5s

STATE    HOLDER IS  HOST   PID      USER  PROGRAM  JOB        FOR    DIRECTORY
held     foreign    beta   12       ann   cc(7)    session 5  1m30s  /m/a b
waiting                             bob   make(9)  session 9  12s    /m/a b
stale    dead       alpha  1234567                                   /m/c
odd                                                                  /m/d\n
free                                                                 /m/e

/m/a b: it is of another machine
  wait for it; if host beta never comes back: lockfs break '/m/a b' v1,beta,x

/m/c: no process 1234567 is left
  the next write on this host recovers it, or now: lockfs recover /m/c

/m/d\n: .lockfs holds no record but x\x1b[31m
  nobody can judge this; to remove a name that you know to be nobody's: lockfs break '/m/d\n' 'x\x1b[31m'

/m/e: 1 takes were not finished; those of dead processes of this host: lockfs recover /m/e
17 directories: 1 held, 1 stale, 1 odd; 1 waiting on this host
`
	if got := b.String(); got != want {
		t.Errorf("it is shown as\n%s\nwant\n%s", got, want)
	}
	// With colors it is the same to who does not see them.
	b.Reset()
	if err := showText(&b, sample(), style{now: noon, color: true}); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for _, code := range []string{bold, red, yellow, plain} {
		if !strings.Contains(got, code) {
			t.Errorf("no line begins with %q", code)
		}
		got = strings.ReplaceAll(got, code, "")
	}
	if got != want {
		t.Errorf("with colors it is shown as\n%s", got)
	}
	b.Reset()
	if err := showText(&b, &view{}, style{now: noon}); err != nil || b.String() != "no mount of lockfs is here\n" {
		t.Errorf("nothing is shown as %q, %v", b.String(), err)
	}
}

func TestShowJSON(t *testing.T) {
	var b bytes.Buffer
	if err := showJSON(&b, sample(), style{}); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for line := range strings.Lines(b.String()) {
		var o struct{ Kind, Mount, State, Path string }
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, o.Kind+" "+o.State+" "+o.Mount+o.Path)
	}
	if want := []string{"mount served /m", "mount dead /n", "mount silent /o", "lock held /m/a b", "lock stale /m/c", "lock odd /m/d\n", "lock free /m/e"}; !slices.Equal(kinds, want) {
		t.Errorf("%q, want %q", kinds, want)
	}
}

// One record in two directories is a copy in one of them.
func TestMarkCopies(t *testing.T) {
	v := &view{listed: []lock.Status{
		{Path: "/a", State: lock.Held, Record: "v1,r"}, {Path: "/b", State: lock.Held, Record: "v1,s"},
		{Path: "/c", State: lock.Held, Record: "v1,r"}, {Path: "/d", State: lock.Odd}, {Path: "/e", State: lock.Odd},
	}}
	v.markCopies()
	for i, want := range []bool{true, false, true, false, false} {
		if st := v.listed[i]; st.Copied != want || strings.Contains(st.Hint, "copy") != want {
			t.Errorf("%+v", st)
		}
	}
}

func TestServed(t *testing.T) {
	ours := func(dev, root, point string) mountEntry {
		return mountEntry{dev: dev, root: root, point: point, fsType: "fuse.lockfs"}
	}
	got := served([]mountEntry{
		{dev: "8:1", root: "/", point: "/", fsType: "ext4"},
		ours("0:5", "/", "/m"),
		ours("0:6", "/", "/n"),
		ours("0:5", "/", "/bound"),
		ours("0:7", "/sub", "/part"),
		{dev: "8:2", root: "/", point: "/n", fsType: "ext4"},
		ours("0:6", "/", "/elsewhere"),
	})
	if want := []mountEntry{ours("0:5", "/", "/m"), ours("0:6", "/", "/elsewhere")}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestLocalLock(t *testing.T) {
	m := lockfs.MountStatus{Source: "/nfs/s", Host: "alpha", PID: 41}
	seen := &lock.Status{State: lock.Held, Host: "beta", PID: 3, Record: "v1,beta", Verdict: "foreign"}
	for name, test := range map[string]struct {
		l     lock.LocalStatus
		state lock.State
		host  string
		hint  string
	}{
		"held":           {lock.LocalStatus{Path: "/nfs/s/a", Holder: &lock.LocalHolder{Job: "j"}}, lock.Held, "alpha", "wait for it"},
		"waited for":     {lock.LocalStatus{Path: "/nfs/s/a", Waiters: []lock.Waiter{{}}, Seen: seen}, lock.Held, "beta", "lockfs break /m/a v1,beta"},
		"not yet looked": {lock.LocalStatus{Path: "/nfs/s/a", Waiters: []lock.Waiter{{}}}, lock.Free, "", ""},
	} {
		st := localLock(test.l, m, "/m")
		if st.Path != "/m/a" || st.State != test.state || st.Host != test.host || !strings.Contains(st.Hint, test.hint) ||
			st.Holder != test.l.Holder || len(st.Waiters) != len(test.l.Waiters) {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59900 * time.Millisecond: "59s", time.Minute: "1m00s", time.Hour: "1h00m", 47 * time.Hour: "47h00m", 49 * time.Hour: "2d01h",
	} {
		if got := age(noon.Add(-d), noon); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	if got := age(time.Time{}, noon); got != "" {
		t.Errorf("of no time: %q", got)
	}
}

func TestFrame(t *testing.T) {
	line := func(s string) string { return s + eraseLine }
	for _, test := range []struct {
		text       string
		rows, cols int
		want       []string
	}{
		{"a\nb\n", 3, 9, []string{"a", "b"}},
		{"a\nb\nc\nd", 3, 99, []string{"a", "b", "... and 2 more lines"}},
		{"abcdef", 1, 3, []string{"abc"}},
		{red + "äbc" + plain, 1, 2, []string{red + "äb" + plain}},
		{"\x1b[", 1, 9, []string{"\x1b["}},
	} {
		for i := range test.want {
			test.want[i] = line(test.want[i])
		}
		want := toTop + strings.Join(test.want, "\r\n") + eraseBelow
		if got := frame(test.text, test.rows, test.cols); got != want {
			t.Errorf("%q in %d x %d: %q, want %q", test.text, test.rows, test.cols, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a b": "a b", "ä": "ä", "a\nb": `a\nb`, "\x1b[2J": `\x1b[2J`, "\xff": `\xff`, "\"\x07": `"\a`,
	} {
		if got := printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
