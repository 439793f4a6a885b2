package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Sizes of the picture, in CSS pixels.
const (
	width      = 1160.0 // without a script; with one it is the window's
	titleSpace = 24.0   // above a band's bars
	holdHeight = 20.0
	waitHeight = 8.0
	gap        = 3.0
	bandSpace  = 12.0 // below a band's bars
	leastBar   = 1.5
)

// maxBars is how many bars a page may have until short ones are drawn as one.
const maxBars = 5000

// picture is where everything is drawn: bands, one below the other.
type picture struct {
	Height float64
	Bands  []band
	Ticks  []tick
	// Undrawn are directories that are left out.
	Undrawn int
}

// band is what is drawn of a directory, or of the daemons.
type band struct {
	Y, Height float64
	Title     string
	Note      string
	Bars      []bar
	Marks     []point
}

// bar is a time that is drawn as a box.
type bar struct {
	Y, H float64
	at
	// Kind is the class of its look: up, hold, dead, seen, wait, skew.
	Kind string
	// Host is the number of the host whose colour it has.
	Host  int
	Label string
	Tip   string
}

// Baseline is where the label stands.
func (b bar) Baseline() float64 { return b.Y + b.H/2 + 4 }

// point is a moment that is drawn as a sign.
type point struct {
	Y float64
	at
	Kind string
	Host int
	Tip  string
}

// at is a place on the axis of time: in milliseconds since the beginning, and
// in pixels of a page without a script.
type at struct{ From, To, X, W float64 }

type tick struct {
	X     float64
	Label string
}

// layout places the most waited-for directories, or all for 0.
func (h *History) layout(most int) picture {
	l := layouter{h: h, y: gap, hosts: map[string]int{}}
	for i, host := range h.Hosts {
		l.hosts[host.Name] = i
	}
	l.daemons()
	dirs := h.Dirs
	if most > 0 && len(dirs) > most {
		l.pic.Undrawn = len(dirs) - most
		dirs = dirs[:most]
	}
	bars := 0
	for _, d := range dirs {
		bars += len(d.Holds) + len(d.Waits)
	}
	if bars > maxBars {
		l.brief = h.length() / maxBars
	}
	for _, d := range dirs {
		l.dir(d)
	}
	l.pic.Height = l.y
	l.pic.Ticks = h.ticks()
	return l.pic
}

// layouter places bands from the top down.
type layouter struct {
	h     *History
	hosts map[string]int
	// brief is what is too short to be drawn by itself.
	brief time.Duration
	y     float64
	pic   picture
}

func (h *History) length() time.Duration { return max(h.To.Sub(h.From), time.Millisecond) }

func (l *layouter) at(s Span) at {
	ms := func(t time.Time) float64 { return float64(t.Sub(l.h.From).Microseconds()) / 1000 }
	from, to := ms(s.From), ms(s.To)
	scale := width / (float64(l.h.length().Microseconds()) / 1000)
	return at{From: from, To: to, X: from * scale, W: max((to-from)*scale, leastBar)}
}

// host is the number of the host's colour; one that has no log gets the next.
func (l *layouter) host(name string) int {
	n, ok := l.hosts[name]
	if !ok {
		n = len(l.hosts)
		l.hosts[name] = n
	}
	return n
}

// daemons places the times in which each host's daemons ran.
func (l *layouter) daemons() {
	b := band{Y: l.y, Title: "lockfs", Note: "from the first to the last line of each daemon's log"}
	y := l.y + titleSpace
	for i, host := range l.h.Hosts {
		for _, up := range host.Up {
			b.Bars = append(b.Bars, bar{Y: y, H: waitHeight + 4, at: l.at(*up), Kind: "up", Host: i, Label: host.Name,
				Tip: fmt.Sprintf("lockfs on %s\n%s", host.Name, l.when(*up))})
		}
		y += waitHeight + 4 + gap
	}
	l.add(b, y)
}

func (l *layouter) add(b band, bottom float64) {
	b.Height = bottom + bandSpace - b.Y
	l.y = b.Y + b.Height
	l.pic.Bands = append(l.pic.Bands, b)
}

// dir places a directory: its holds in one lane, or in more where they are said
// to have been at once, and the waits below.
func (l *layouter) dir(d *Dir) {
	b := band{Y: l.y, Title: d.Path, Note: d.summary()}
	if d.Tree != "" && !l.h.oneTree() {
		b.Title = strings.TrimSuffix(d.Tree, "/") + "/" + d.Path
	}
	y := l.y + titleSpace
	var used lanes
	for _, h := range l.joined(d.Holds) {
		top := y + float64(used.place(h.Span))*(holdHeight+gap)
		b.Bars = append(b.Bars, l.hold(h, top)...)
	}
	for _, s := range d.Overlaps() {
		b.Bars = append(b.Bars, bar{Y: y - gap, H: float64(len(used))*(holdHeight+gap) + gap, at: l.at(s), Kind: "skew",
			Tip: "two hosts held the lock, as logged: their clocks differ\n" + l.when(s)})
	}
	for _, m := range d.Marks {
		b.Marks = append(b.Marks, point{Y: y - 1, at: l.at(Span{m.Time, m.Time}), Kind: string(m.Kind), Host: l.host(m.Host),
			Tip: fmt.Sprintf("%s, %s on %s\n%s", m.Kind, m.Time.Format(clock), m.Host, m.Text)})
	}
	y += float64(max(len(used), 1)) * (holdHeight + gap)
	var waiting lanes
	for _, w := range d.Waits {
		if w.Length() < l.brief {
			continue
		}
		top := y + float64(waiting.place(w.Span))*(waitHeight+gap)
		b.Bars = append(b.Bars, bar{Y: top, H: waitHeight, at: l.at(w.Span), Kind: waitKind(w), Host: l.host(w.Host), Label: "", Tip: l.waitTip(w)})
	}
	l.add(b, y+float64(len(waiting))*(waitHeight+gap))
}

func waitKind(w *Wait) string {
	if w.End == GaveUp {
		return "wait gaveup"
	}
	return "wait"
}

// oneTree reports whether all directories are of one tree.
func (h *History) oneTree() bool {
	return !slices.ContainsFunc(h.Dirs, func(d *Dir) bool { return d.Tree != h.Dirs[0].Tree })
}

// hold is the bar of a hold, and one more of the time in which its holder was
// dead.
func (l *layouter) hold(h joint, y float64) []bar {
	b := bar{Y: y, H: holdHeight, at: l.at(h.Span), Kind: "hold", Host: l.host(h.Host), Label: h.label(), Tip: l.holdTip(h)}
	if h.Seen {
		b.Kind = "seen"
	}
	if h.Alive.IsZero() || !h.Alive.Before(h.To) {
		return []bar{b}
	}
	dead := b
	b.at, dead.at = l.at(Span{h.From, h.Alive}), l.at(Span{h.Alive, h.To})
	dead.Kind, dead.Label = "dead", ""
	return []bar{b, dead}
}

// joint is a hold, or many short ones of one host that are drawn as one.
type joint struct {
	*Hold
	Many int
}

// joined makes one of short holds of one host with short times between them.
func (l *layouter) joined(holds []*Hold) []joint {
	var all []joint
	for _, h := range holds {
		if n := len(all); n > 0 && l.brief > 0 {
			last := &all[n-1]
			if last.Host == h.Host && h.Length() < l.brief && h.From.Sub(last.To) < l.brief && (last.Many > 0 || last.Length() < l.brief) {
				if last.Many == 0 {
					last.Many, last.Hold = 1, &Hold{Who: Who{Host: h.Host}, Span: last.Span, End: Released}
				}
				last.Many++
				last.To = h.To
				continue
			}
		}
		all = append(all, joint{Hold: h})
	}
	return all
}

func (h joint) label() string {
	if h.Many > 0 {
		return fmt.Sprintf("%d holds", h.Many)
	}
	return h.Program
}

// lanes are when each of several lanes is free again.
type lanes []time.Time

// place returns the first lane that is free for the span, and fills it.
func (l *lanes) place(s Span) int {
	for i, free := range *l {
		if !s.From.Before(free) {
			(*l)[i] = s.To
			return i
		}
	}
	*l = append(*l, s.To)
	return len(*l) - 1
}

// clock is how the page writes the time of day.
const clock = "15:04:05.000"

// when says from when to when a span is, and its length.
func (l *layouter) when(s Span) string {
	return fmt.Sprintf("%s to %s, %s", s.From.Format(clock), s.To.Format(clock), short(s.Length()))
}

// short is a duration with three digits at most of its fraction.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func (l *layouter) holdTip(h joint) string {
	if h.Many > 0 {
		return fmt.Sprintf("held %d times by %s\n%s", h.Many, h.Host, l.when(h.Span))
	}
	lines := []string{"held by " + h.text(), l.when(h.Span), "end: " + string(h.End)}
	if h.Seen {
		lines = append(lines, "no log of this daemon has it: it is drawn as waiters saw it")
	}
	if !h.Alive.IsZero() {
		lines = append(lines, "the daemon's last line is of "+h.Alive.Format(clock))
	}
	return strings.Join(append(lines, h.Record), "\n")
}

func (l *layouter) waitTip(w *Wait) string {
	lines := []string{"waited: " + w.text(), l.when(w.Span), "end: " + string(w.End)}
	if w.Why != "" {
		lines = append(lines, w.Why)
	}
	for _, by := range w.For {
		lines = append(lines, "behind "+by)
	}
	return strings.Join(lines, "\n")
}

// text says who it was.
func (w Who) text() string {
	words := []string{cmp.Or(w.Program, "lockfs")}
	if w.PID != "" {
		words[0] += " (" + w.PID + ")"
	}
	words = append(words, "on "+w.Host)
	if w.User != "" {
		words = append(words, "for "+w.User)
	}
	if w.Job != "" {
		words = append(words, "in "+w.Job)
	}
	return strings.Join(words, " ")
}

// summary says in a line what there was in the directory.
func (d *Dir) summary() string {
	text := "held " + times(len(d.Holds))
	if len(d.Waits) == 0 {
		return text
	}
	longest := slices.MaxFunc(d.Waits, func(a, b *Wait) int { return cmp.Compare(a.Length(), b.Length()) })
	return fmt.Sprintf("%s, waited for %s: %s in all, at most %s", text, times(len(d.Waits)), short(d.Waited()), short(longest.Length()))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// steps are the distances of ticks; the page's script has the same.
var steps = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// ticks are on round times of day, not nearer than 90 pixels to each other.
func (h *History) ticks() []tick {
	length := h.length()
	step := steps[len(steps)-1]
	for _, s := range steps {
		if float64(s)/float64(length)*width >= 90 {
			step = s
			break
		}
	}
	layout := "15:04:05"
	switch {
	case step < time.Second:
		layout = clock
	case step >= time.Minute && length > 20*time.Hour:
		layout = "Jan 2 15:04"
	}
	_, zone := h.From.Zone()
	local := h.From.Add(time.Duration(zone) * time.Second)
	first := h.From.Add(local.Truncate(step).Sub(local))
	var all []tick
	for at := first.Add(step); !at.After(h.To); at = at.Add(step) {
		all = append(all, tick{float64(at.Sub(h.From)) / float64(length) * width, at.Format(layout)})
		if len(all) > 100 {
			break // of weeks: the page's script does better
		}
	}
	return all
}
