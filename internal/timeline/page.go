package timeline

import (
	_ "embed" // the page's parts
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"px": func(v float64) string {
		s := fmt.Sprintf("%.2f", v)
		return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	},
	"fits": func(b bar) bool { return b.W > float64(len(b.Label))*letter+8 },
	"add":  func(a, b float64) float64 { return a + b },
}).Parse(pageText))

// letter is about how wide a letter of a bar's label is, in pixels; the page's
// script has the same.
const letter = 6.3

// colours are those of the hosts, in which white letters can be read, and which
// those who see few colours tell apart.
var colours = []string{"#1f6fb2", "#b8541a", "#12806a", "#9a4a8f", "#5a5fc0", "#7d6608", "#b0364a", "#3b7f94"}

// colour is that of a host by its number.
func colour(n int) string {
	if n < len(colours) {
		return colours[n]
	}
	return fmt.Sprintf("hsl(%d 45%% 42%%)", n*137%360) // far from its neighbours'
}

// incident is a line below the picture.
type incident struct {
	at
	Time, Host, Dir, Kind, Text string
}

// maxIncidents is how many lines are below the picture at most.
const maxIncidents = 500

// Page writes the history as one HTML page, with at most so many directories,
// those that were waited for longest; all for 0.
func (h *History) Page(w io.Writer, most int) error {
	return page.Execute(w, h.drawn(most))
}

// SVG writes the picture of a page alone.
func (h *History) SVG(w io.Writer, most int) error {
	return page.ExecuteTemplate(w, "svg", h.drawn(most))
}

// drawn is what the templates show.
func (h *History) drawn(most int) map[string]any {
	l := h.layout(most)
	incidents := h.incidents()
	hidden := max(0, len(incidents)-maxIncidents)
	tree := ""
	if len(h.Dirs) > 0 && h.oneTree() {
		tree = h.Dirs[0].Tree
	}
	return map[string]any{
		"Picture": l, "Width": width, "Tree": tree, "Names": h.names(), "Facts": h.facts(),
		"From": h.From.Format("2006-01-02 15:04:05"), "To": h.To.Format("2006-01-02 15:04:05"), "Zone": h.From.Format("-07:00"),
		"Start": h.From.UnixMilli(), "Offset": offset(h.From), "Length": float64(h.length().Microseconds()) / 1000,
		"Incidents": incidents[:len(incidents)-hidden], "Hidden": hidden, "Least": leastBar, "Letter": letter,
		"Style": template.CSS(pageStyle), "Script": template.JS(pageScript),
	}
}

// offset is the zone's distance from UTC, in milliseconds.
func offset(t time.Time) int {
	_, s := t.Zone()
	return s * 1000
}

// name is a host's, and the colour it is drawn in.
type name struct {
	N      int
	Name   string
	Colour template.CSS
	NoLog  bool
}

// names are the hosts in the order of their colours: those with a log, and
// those that others saw.
func (h *History) names() []name {
	var all []name
	add := func(host string, noLog bool) {
		if !slices.ContainsFunc(all, func(n name) bool { return n.Name == host }) {
			all = append(all, name{len(all), host, template.CSS(colour(len(all))), noLog})
		}
	}
	for _, host := range h.Hosts {
		add(host.Name, false)
	}
	for _, d := range h.Dirs {
		for _, hold := range d.Holds {
			add(hold.Host, true)
		}
	}
	return all
}

// facts are what the page says in numbers.
func (h *History) facts() string {
	var holds, waits, gaveUp int
	var waited, longest time.Duration
	for _, d := range h.Dirs {
		holds += len(d.Holds)
		waits += len(d.Waits)
		waited += d.Waited()
		for _, w := range d.Waits {
			longest = max(longest, w.Length())
			if w.End == GaveUp {
				gaveUp++
			}
		}
	}
	text := count(len(h.Hosts), "host", "hosts") + ", " + count(len(h.Dirs), "directory", "directories") + ", " +
		count(holds, "hold", "holds") + ", " + count(waits, "wait", "waits")
	if waits > 0 {
		text += fmt.Sprintf(" (%s in all, the longest %s", short(waited), short(longest))
		if gaveUp > 0 {
			text += fmt.Sprintf(", %d given up", gaveUp)
		}
		text += ")"
	}
	return text
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// incidents are what people should look at, in the order of time.
func (h *History) incidents() []incident {
	l := layouter{h: h}
	var all []incident
	add := func(s Span, host string, d *Dir, kind, text string) {
		all = append(all, incident{at: l.at(s), Time: s.From.Format(clock), Host: host, Dir: d.Path, Kind: kind, Text: text})
	}
	for _, s := range h.Skews {
		text := fmt.Sprintf("the clock of %s is ahead of that of %s by at least %s", s.Ahead, s.Behind, short(s.Least))
		if s.Unsure {
			text = fmt.Sprintf("the clocks of %s and %s differ by at least %s", s.Ahead, s.Behind, short(s.Least))
		}
		add(s.At, s.Ahead+", "+s.Behind, s.Dir, "skew",
			fmt.Sprintf("%s: as logged, a lock was taken before it was let go (%s)", text, times(s.Times)))
	}
	for _, d := range h.Dirs {
		for _, m := range d.Marks {
			add(Span{m.Time, m.Time}, m.Host, d, string(m.Kind), m.Text)
		}
		for _, w := range d.Waits {
			if w.End == GaveUp {
				add(w.Span, w.Host, d, "gave up", fmt.Sprintf("%s gave up after %s: %s", w.Who.text(), short(w.Length()), w.Why))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b incident) int {
		if (a.Kind == "skew") != (b.Kind == "skew") {
			if a.Kind == "skew" {
				return -1
			}
			return 1
		}
		return int(a.From - b.From)
	})
	return all
}
