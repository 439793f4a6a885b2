package timeline

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// recorded is the history of three played hosts' real logs: alpha's as text,
// beta's as JSON with its clock set back by 0.4 s, gamma's as the journal shows
// it. gamma's daemon was killed while it held run8/qc, and another one mounted.
func recorded(t *testing.T) *History {
	t.Helper()
	var all []Entry
	for _, host := range []string{"alpha", "beta", "gamma"} {
		f, err := os.Open(filepath.Join("testdata", host+".log"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		entries, err := Read(f, "?")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Host != host {
				t.Fatalf("an entry of %s is said to be of %s: %v", host, e.Host, e.Fields)
			}
		}
		all = append(all, entries...)
	}
	return Tell(all)
}

// text is a history in lines; times are in seconds after its beginning.
func (h *History) text() string {
	var b strings.Builder
	span := func(s Span) string {
		return fmt.Sprintf("%.1f-%.1f", s.From.Sub(h.From).Seconds(), s.To.Sub(h.From).Seconds())
	}
	for _, host := range h.Hosts {
		for _, up := range host.Up {
			fmt.Fprintf(&b, "%s up %s\n", host.Name, span(*up))
		}
	}
	for _, d := range h.Dirs {
		fmt.Fprintf(&b, "%s %s\n", d.Tree, d.Path)
		for _, o := range d.Holds {
			fmt.Fprintf(&b, "  held %s %s %s %s", span(o.Span), o.Host, o.Program, o.End)
			if !o.Alive.IsZero() {
				fmt.Fprintf(&b, ", alive until %.1f", o.Alive.Sub(h.From).Seconds())
			}
			if o.Seen {
				b.WriteString(", as others saw")
			}
			b.WriteString("\n")
		}
		for _, w := range d.Waits {
			fmt.Fprintf(&b, "  waited %s %s %s %s\n", span(w.Span), w.Host, w.Program, w.End)
		}
		for _, m := range d.Marks {
			fmt.Fprintf(&b, "  %.1f %s %s\n", m.Time.Sub(h.From).Seconds(), m.Host, m.Kind)
		}
	}
	for _, s := range h.Skews {
		fmt.Fprintf(&b, "%s ahead of %s by %v, %d times, unsure %t, most in %s\n", s.Ahead, s.Behind, s.Least, s.Times, s.Unsure, s.Dir.Path)
	}
	return b.String()
}

func TestRecorded(t *testing.T) {
	h := recorded(t)
	golden(t, "history.txt", []byte(h.text()))
	var page, svg bytes.Buffer
	if err := h.Page(&page, 0); err != nil {
		t.Fatal(err)
	}
	golden(t, "page.html", page.Bytes())
	if err := h.SVG(&svg, 0); err != nil {
		t.Fatal(err)
	}
	golden(t, "../../../docs/timeline.svg", svg.Bytes())
	for _, far := range []string{"src=", "href=", "@import", "url(http"} {
		if bytes.Contains(page.Bytes(), []byte(far)) || bytes.Contains(svg.Bytes(), []byte(far)) {
			t.Errorf("the page wants %q from elsewhere", far)
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		line := 1 + bytes.Count(want[:at], []byte("\n"))
		t.Errorf("%s differs in line %d: %.200q (write it anew with -update and look at the difference)", name, line, got[at:])
	}
}

// log makes entries of lines "SECONDS HOST PID KEY=VALUE...".
func log(t *testing.T, text string) []Entry {
	t.Helper()
	var all []Entry
	for line := range strings.Lines(text) {
		var s float64
		var e Entry
		if _, err := fmt.Sscan(line, &s, &e.Host, &e.PID); err != nil {
			t.Fatal(line, err)
		}
		f, ok := parseText(strings.SplitN(line, " ", 4)[3])
		if !ok {
			t.Fatal(line)
		}
		e.Time, e.Fields = time.Unix(0, 0).UTC().Add(time.Duration(s*1000)*time.Millisecond), f
		all = append(all, e)
	}
	return all
}

func TestTell(t *testing.T) {
	for _, tt := range []struct{ name, log, want string }{
		{"a hold and a wait at the info level", `10 a 1 dir=/s/d event=released record=a,1,01 elapsed=8s server=1ms program=cp
5 b 2 dir=/s/d event=waiting elapsed=3s holder_record=a,1,01 program=mv
10.1 b 2 dir=/s/d event=got elapsed=8.1s holder_record=a,1,01 program=mv
20 b 2 dir=/s/d event=released record=b,2,02 elapsed=9.9s program=mv
`, `a up 8.0-8.0
b up 3.0-18.0
 /s/d
  held 0.0-8.0 a cp released
  held 8.1-18.0 b mv released
  waited 0.0-8.1 b mv got the lock
`},
		{"still held and still waited for", `1 a 1 dir=/s/d event=took record=a,1,01 program=cp
4 b 2 dir=/s/d event=waiting elapsed=2s holder_record=a,1,01 program=mv
9 b 2 msg=x
11 a 1 dir=/s/d event=held record=a,1,01 elapsed=10s program=cp
`, `a up 0.0-10.0
b up 3.0-8.0
 /s/d
  held 0.0-10.0 a cp still so at the end of the log
  waited 1.0-8.0 b mv still so at the end of the log
`},
		{"a holder without a log, whose lock is broken", `4 b 2 dir=/s/d event=waiting elapsed=3s holder_record=c,3,03 program=mv
9 b 2 dir=/s/d event=broken holder=v1,c,m,b,3,4,5,6,f,03
`, `b up 3.0-8.0
 /s/d
  held 0.0-8.0 c  broken by an operator, as others saw
  waited 0.0-8.0 b mv still so at the end of the log
  8.0 b broken
`},
		{"other sources of one tree", `0 a 1 msg=mounted mount=/m source=/nfs/x
0 b 2 msg=mounted mount=/m source=/nfs/y
1 a 1 dir=/nfs/x/d event=took record=a,1,01 mount=/m
2 b 2 dir=/nfs/y/d event=got elapsed=1s holder_record=a,1,01 mount=/m
2 b 2 dir=/nfs/y event=odd reason=why mount=/m
2 b 2 dir=/nfs/yy event=odd reason=why mount=/m
`, `a up 0.0-1.0
b up 0.0-2.0
/nfs/x d
  held 1.0-1.0 a  still so at the end of the log
  waited 1.0-2.0 b  got the lock
 /nfs/yy
  2.0 b odd
/nfs/x .
  2.0 b odd
`},
		{"a lost lock", `1 a 1 dir=/d event=took record=a,1,01
9 a 1 dir=/d event=lost record=a,1,01 elapsed=8s holder=nobody
`, `a up 0.0-8.0
 /d
  held 0.0-8.0 a  taken away
  8.0 a lost
`},
		{"a clock behind", `10 a 1 dir=/d event=released record=a,1,01 elapsed=8s server=100ms
9 b 2 dir=/d event=got elapsed=4s holder_record=a,1,01
12 b 2 dir=/d event=released record=b,2,02 elapsed=3s
`, `a up 8.0-8.0
b up 7.0-10.0
 /d
  held 0.0-8.0 a  released
  held 7.0-10.0 b  released
  waited 3.0-7.0 b  got the lock
a ahead of b by 900ms, 2 times, unsure false, most in /d
`},
		{"clocks that differ, nobody knows which is ahead", `10 a 1 dir=/d event=released record=a,1,01 elapsed=8s
12 b 2 dir=/d event=released record=b,2,02 elapsed=5s
`, `a up 8.0-8.0
b up 10.0-10.0
 /d
  held 0.0-8.0 a  released
  held 5.0-10.0 b  released
a ahead of b by 3s, 1 times, unsure true, most in /d
`},
		{"a release that took long is no skew", `10 a 1 dir=/d event=released record=a,1,01 elapsed=8s server=1s
12 b 2 dir=/d event=released record=b,2,02 elapsed=2.9s
`, `a up 8.0-8.0
b up 10.0-10.0
 /d
  held 0.0-8.0 a  released
  held 7.1-10.0 b  released
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Tell(log(t, tt.log)).text(); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
	empty := Tell(nil)
	var b bytes.Buffer
	if err := empty.Page(&b, 0); err != nil || len(empty.Dirs) != 0 {
		t.Error(err)
	}
}

// Names out of a log are text, whatever is in them.
func TestPageQuotes(t *testing.T) {
	h := Tell(log(t, `1 a 1 dir="/<script>alert(1)</script>" event=took record=a,1,01 program="\"><img onerror=x>"
9 a 1 dir="/<script>alert(1)</script>" event=odd reason="</title><b>"
`))
	var b bytes.Buffer
	if err := h.Page(&b, 0); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script>alert", "<img", "<b>\""} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

// Many short holds are few bars, and say how many they are.
func TestManyShortHolds(t *testing.T) {
	var text strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&text, "%g a 1 dir=/d event=took record=a,1,%x\n%g a 1 dir=/d event=released record=a,1,%x elapsed=1ms\n",
			float64(i)/100, i, float64(i)/100+.001, i)
	}
	p := Tell(log(t, text.String())).layout(0)
	bars := p.Bands[1].Bars
	if len(bars) > maxBars || !slices.ContainsFunc(bars, func(b bar) bool { return strings.HasSuffix(b.Label, " holds") }) {
		t.Errorf("%d bars, the first %+v", len(bars), bars[0])
	}
	if h := Tell(log(t, "1 a 1 dir=/d event=took\n2 a 1 dir=/e event=took\n")); h.layout(1).Undrawn != 1 {
		t.Error("a directory more than was asked for is drawn")
	}
}
