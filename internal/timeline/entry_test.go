package timeline

import (
	"strings"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	at := time.Date(2026, 12, 2, 10, 20, 30, 456e6, time.UTC)
	for name, tt := range map[string]struct {
		line, host string
		pid        int
		at         time.Time
	}{
		"text":           {`time="2026-12-02T10:20:30.456Z" level=info msg="got it" dir="/d \"x\"" event=got pid=7 record="alpha,41,00c0ffee00c0ffee"`, "alpha", 41, at},
		"text, no host":  {`time="2026-12-02T11:20:30.456+01:00" level=info msg="got it" dir="/d \"x\"" event=got pid=7`, "file", 0, at},
		"JSON":           {`{"dir":"/d \"x\"","event":"got","msg":"got it","pid":7,"time":"2026-12-02T10:20:30.456Z","record":"alpha,41,00c0ffee00c0ffee"}`, "alpha", 41, at},
		"a journal":      {`2026-12-02T10:20:30.456000+0000 beta lockfs[42]: level=info msg="got it" dir="/d \"x\"" event=got pid=7`, "beta", 42, at},
		"a brief one":    {`2026-12-02T10:20:30+00:00 beta lockfs[42]: level=info msg="got it" dir="/d \"x\"" event=got pid=7`, "beta", 42, at.Truncate(time.Second)},
		"JSON in one":    {`2026-12-02T10:20:30.456000+0000 beta lockfs[42]: {"dir":"/d \"x\"","event":"got","msg":"got it","pid":7}`, "beta", 42, at},
		"a JSON journal": {`{"__REALTIME_TIMESTAMP":"1796206830456000","_HOSTNAME":"beta","_PID":"42","MESSAGE":"level=info msg=\"got it\" dir=\"/d \\\"x\\\"\" event=got pid=7"}`, "beta", 42, at},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(strings.NewReader("noise\n"+tt.line+"\nmore noise [x]: y=z\n"), "file")
			if err != nil || len(got) != 1 {
				t.Fatalf("Read = %v, %v", got, err)
			}
			e := got[0]
			if e.Host != tt.host || e.PID != tt.pid || !e.Time.Equal(tt.at) {
				t.Errorf("%s, process %d, %v; want %s, process %d, %v", e.Host, e.PID, e.Time, tt.host, tt.pid, tt.at)
			}
			if e.Fields["msg"] != "got it" || e.Fields["dir"] != `/d "x"` || e.Fields["event"] != "got" || e.Fields["pid"] != "7" {
				t.Errorf("fields %q", e.Fields)
			}
		})
	}
	for _, line := range []string{"", "{", "{}", "time=", "time=yesterday msg=a", `time="2026-12-02T10:20:30Z`, "a=b c",
		"Dec 02 10:20:30 beta lockfs[42]: level=info msg=a", `{"MESSAGE":"msg=a"}`, `time="2026-12-02T10:20:30Z" level=info`} {
		if got, err := Read(strings.NewReader(line), "file"); err != nil || len(got) != 0 {
			t.Errorf("Read(%q) = %v, %v", line, got, err)
		}
	}
	if _, err := Read(strings.NewReader(strings.Repeat("x", 2*maxLine)), "file"); err == nil {
		t.Error("a line without an end was read")
	}
}

// The daemon's first line says who has written those that do not say it.
func TestReadKeepsTheDaemon(t *testing.T) {
	got, err := Read(strings.NewReader(`time="2026-12-02T10:00:00Z" level=info msg=mounted host=alpha mount=/m pid=41 source=/s
time="2026-12-02T10:00:01Z" level=info msg=waiting
time="2026-12-02T10:00:02Z" level=info msg=mounted host=alpha mount=/m pid=43 source=/s
time="2026-12-02T10:00:03Z" level=info msg=waiting
`), "file")
	if err != nil || len(got) != 4 {
		t.Fatal(got, err)
	}
	if got[1].daemon() != (daemon{"alpha", 41}) || got[3].daemon() != (daemon{"alpha", 43}) {
		t.Errorf("%v and %v", got[1].daemon(), got[3].daemon())
	}
}
