package procid

import (
	"errors"
	"io/fs"
	"testing"
)

func TestParseJobPolicy(t *testing.T) {
	for p, name := range policies {
		got, err := ParseJobPolicy(name)
		if err != nil || got != JobPolicy(p) || got.String() != name {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, s := range []string{"", "Session", "sessions"} {
		if p, err := ParseJobPolicy(s); err == nil {
			t.Errorf("%q: %v", s, p)
		}
	}
	if s := JobPolicy(9).String(); s != "JobPolicy(9)" {
		t.Error(s)
	}
}

// Which of the policies says that two callers are of one job.
func TestJob(t *testing.T) {
	v2 := "0::/user.slice/a b.scope\n"
	v1 := "9:name=systemd:/x\n1:cpu:/\n0::/\n"
	p := fakeProc(t,
		// 200 leads a session; 201 is of it, and 202 a thread of 201.
		"200/stat", statText(200, "sh", 'S', 200, 1, 7000), "200/status", statusText("sh", 200, ""), "200/autogroup", "/autogroup-5 nice 0\n", "200/cgroup", v2,
		"201/stat", statText(201, "a) R 1 (b", 'S', 200, 2, 7100), "201/status", statusText("x", 201, ""), "201/autogroup", "/autogroup-5 nice 10\n", "201/cgroup", v2,
		"202/stat", statText(202, "t", 'S', 200, 2, 7200), "202/status", statusText("t", 201, ""), "202/autogroup", "/autogroup-5 nice 0\n", "202/cgroup", v1,
		// 300 is of a later session that got the number 200 again.
		"300/stat", statText(300, "sh", 'S', 200, 1, 9000), "300/status", statusText("sh", 300, ""), "300/autogroup", "/autogroup-6 nice 0\n", "300/cgroup", v1,
		// 400 and 401 are of sessions of an outer pid namespace, and 402 a thread of 401.
		"400/stat", statText(400, "sh", 'S', 0, 1, 9000), "400/status", statusText("sh", 400, ""),
		"401/stat", statText(401, "sh", 'S', 0, 1, 9000), "401/status", statusText("sh", 401, ""),
		"402/stat", statText(402, "sh", 'S', 0, 1, 9010), "402/status", statusText("sh", 401, ""),
		// 500 and 501: no autogroups.
		"500/stat", statText(500, "sh", 'S', 500, 1, 9000), "500/status", statusText("sh", 500, ""),
		"501/stat", statText(501, "sh", 'S', 500, 1, 9001), "501/status", statusText("sh", 501, ""), "501/autogroup", "",
	)
	for _, tt := range []struct {
		policy JobPolicy
		a, b   int
		want   bool
	}{
		{BySession, 200, 201, true}, {BySession, 201, 202, true}, {BySession, 200, 300, false}, {BySession, 200, 500, false},
		{BySession, 400, 401, false}, {BySession, 401, 402, true}, {BySession, 500, 501, true},
		{ByProcess, 200, 201, false}, {ByProcess, 201, 202, true},
		{ByCgroup, 200, 201, true}, {ByCgroup, 201, 202, false}, {ByCgroup, 202, 300, true},
	} {
		a, aerr := p.look(tt.a).job(tt.policy)
		b, berr := p.look(tt.b).job(tt.policy)
		if aerr != nil || berr != nil || (a == b) != tt.want {
			t.Errorf("%v of %d and %d: %v, %v and %v, %v; want the same: %v", tt.policy, tt.a, tt.b, a, aerr, b, berr, tt.want)
		}
	}
	// A later process of the same number is another job.
	later := fakeProc(t, "200/stat", statText(200, "sh", 'S', 200, 1, 9000), "200/status", statusText("sh", 200, ""))
	a, aerr := p.look(200).job(ByProcess)
	b, berr := later.look(200).job(ByProcess)
	if aerr != nil || berr != nil || a == b || a.String() != b.String() {
		t.Errorf("by process: %v, %v and %v, %v", a, aerr, b, berr)
	}
	// Never the same by two policies.
	seen := map[Job]JobPolicy{{}: 99}
	for _, policy := range []JobPolicy{BySession, ByProcess, ByCgroup} {
		j, err := p.look(200).job(policy)
		if other, ok := seen[j]; err != nil || ok {
			t.Errorf("%v: %v, %v, as by %v", policy, j, err, other)
		}
		seen[j] = policy
	}
	if j, _ := p.look(202).job(ByProcess); j.String() != "process 201" {
		t.Error(j)
	}
}

func TestJobErrors(t *testing.T) {
	p := fakeProc(t,
		"200/status", statusText("sh", 200, ""),
		"201/status", "Name:\tsh\n", "201/stat", statText(201, "sh", 'S', 0, 1, 1), "201/cgroup", "",
		"202/status", statusText("sh", 202, ""), "202/stat", statText(202, "sh", 'S', 202, 1, 1), "202/autogroup", "/autogroup-x nice 0\n",
		"203/status", statusText("sh", 203, ""), "203/stat", statText(203, "sh", 'S', 203, 1, 1), "203/autogroup/not", "a file",
	)
	for _, tt := range []struct {
		policy JobPolicy
		tid    int
		cause  error
	}{
		{BySession, 0, errNoTID}, {BySession, 4711, fs.ErrNotExist}, {BySession, 200, fs.ErrNotExist}, {BySession, 201, errStatus}, {BySession, 202, nil}, {BySession, 203, nil},
		{ByProcess, 200, fs.ErrNotExist}, {ByProcess, 201, errStatus},
		{ByCgroup, 200, fs.ErrNotExist}, {ByCgroup, 201, nil},
		{JobPolicy(9), 202, nil},
	} {
		if j, err := p.look(tt.tid).job(tt.policy); j != (Job{}) || !errors.Is(err, ErrUnseen) || tt.cause != nil && !errors.Is(err, tt.cause) {
			t.Errorf("%v of %d: %v, %v; want ErrUnseen, %v", tt.policy, tt.tid, j, err, tt.cause)
		}
	}
}

func TestParseCgroup(t *testing.T) {
	for text, want := range map[string]string{
		"0::/\n":                     "/",
		"0::/a.slice/b:c\n":          "/a.slice/b:c",
		"0::/../x\n":                 "/../x",
		"1:cpu:/\n0::/a\n":           "1:cpu:/ 0::/a",
		"9:name=systemd:/x\n":        "9:name=systemd:/x",
		"":                           "",
		"\n":                         "",
		"0::/a\n\n":                  "",
		"nonsense\n":                 "",
		"9:name=systemd:/x\nshort\n": "",
	} {
		got, err := parseCgroup(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

func FuzzJobTexts(f *testing.F) {
	f.Add("0::/a\n", "/autogroup-5 nice 0\n")
	f.Add("9:name=systemd:/x\n0::/\n", "")
	f.Fuzz(func(t *testing.T, cgroup, autogroup string) {
		if g, err := parseCgroup(cgroup); (err == nil) != (g != "") {
			t.Errorf("%q, %v", g, err)
		}
		if n, err := parseAutogroup(autogroup); err != nil && n != 0 {
			t.Errorf("%d, %v", n, err)
		}
	})
}
