package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockfs/lockfs/lock"
)

// style is how an answer is written.
type style struct {
	now time.Time // what ages are counted to
	// color: with colors, for a terminal.
	color bool
}

// showJSON writes each part of an answer as an object in a line.
func showJSON(w io.Writer, v *view, _ style) error {
	enc := json.NewEncoder(w)
	for _, m := range v.mounts {
		if err := enc.Encode(struct {
			Kind string `json:"kind"`
			mountView
		}{"mount", m}); err != nil {
			return err
		}
	}
	for _, list := range [][]lock.Status{v.single, v.listed} {
		for _, st := range list {
			if err := enc.Encode(struct {
				Kind string `json:"kind"`
				lock.Status
			}{"lock", st}); err != nil {
				return err
			}
		}
	}
	return nil
}

// showText writes an answer for people.
func showText(w io.Writer, v *view, s style) error {
	var b strings.Builder
	for _, m := range v.mounts {
		fmt.Fprintln(&b, mountText(m, s))
	}
	if v.mounts == nil && v.single == nil && v.walked == 0 && v.failed == nil {
		fmt.Fprintln(&b, "no mount of lockfs is here")
	}
	for _, st := range v.single {
		b.WriteString(statusText(st, s.now))
	}
	if len(v.listed) > 0 {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		table(&b, lockRows(v.listed, s.now), s)
		advice(&b, v.listed)
	}
	if v.walked > 0 {
		fmt.Fprintln(&b, treeText(v))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// mountText says in a line what a mount is and does.
func mountText(m mountView, s style) string {
	switch m.State {
	case mountDead:
		return fmt.Sprintf("%s: its daemon has ended; to clear it: lockfs umount %[1]s", printable(m.Mount))
	case mountSilent:
		return fmt.Sprintf("%s: %s", printable(m.Mount), m.Reason)
	}
	return fmt.Sprintf("%s: %s, served by process %d for %s; holds %d, %d waiting",
		printable(m.Mount), printable(m.Source), m.PID, age(m.Since, s.now), m.Holds, m.Waiters)
}

// treeText sums up what was found in trees.
func treeText(v *view) string {
	count := map[lock.State]int{}
	waiters := 0
	for _, st := range v.listed {
		count[st.State]++
		waiters += len(st.Waiters)
	}
	return fmt.Sprintf("%d directories: %d held, %d stale, %d odd; %d waiting on this host",
		v.walked, count[lock.Held], count[lock.Stale], count[lock.Odd], waiters)
}

// row is a line of the table. alarm and mild say that it needs somebody, or
// will pass by itself.
type row struct {
	cells       []string
	alarm, mild bool
}

// columns are the table's.
var columns = []string{"STATE", "HOLDER IS", "HOST", "PID", "USER", "PROGRAM", "JOB", "FOR", "DIRECTORY"}

// lockRows has for each lock a row for the holder and one for each waiter.
func lockRows(locks []lock.Status, now time.Time) []row {
	var rows []row
	for _, st := range locks {
		if st.State != lock.Free || len(st.Waiters) == 0 {
			c, since, state := st.Cause, st.Since, string(st.State)
			pid := ""
			if st.PID != 0 {
				pid = strconv.Itoa(st.PID)
			}
			if h := st.Holder; h != nil && h.Lost {
				state = "LOST"
			}
			rows = append(rows, row{
				cells: []string{state, st.Verdict, st.Host, pid, c.User, program(c), c.Job, age(since, now), st.Path},
				alarm: st.State == lock.Odd || state == "LOST" || st.SharedMachine, mild: st.State == lock.Stale,
			})
		}
		for _, w := range st.Waiters {
			rows = append(rows, row{
				cells: []string{"waiting", "", "", "", w.Cause.User, program(w.Cause), w.Job, age(w.Since, now), st.Path},
				mild:  true,
			})
		}
	}
	return rows
}

// program names the program that made a lock be taken.
func program(c lock.Cause) string {
	if c.PID == 0 {
		return c.Program
	}
	return fmt.Sprintf("%s(%d)", c.Program, c.PID)
}

// The sequences that change and reset a terminal's colors (ECMA-48, SGR).
const (
	bold, red, yellow, plain = "\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[0m"
)

// table writes rows below their heads, in columns.
func table(b *strings.Builder, rows []row, s style) {
	width := make([]int, len(columns))
	all := append([]row{{cells: columns}}, rows...)
	for _, r := range all {
		for i, c := range r.cells {
			r.cells[i] = printable(c)
			width[i] = max(width[i], utf8.RuneCountInString(r.cells[i]))
		}
	}
	for i, r := range all {
		var line strings.Builder
		for j, c := range r.cells {
			if j < len(r.cells)-1 {
				c += strings.Repeat(" ", width[j]-utf8.RuneCountInString(c)+2)
			}
			line.WriteString(c)
		}
		begin, end := "", plain
		switch {
		case !s.color:
			end = ""
		case i == 0:
			begin = bold
		case r.alarm:
			begin = red
		case r.mild:
			begin = yellow
		default:
			end = ""
		}
		fmt.Fprintf(b, "%s%s%s\n", begin, strings.TrimRight(line.String(), " "), end)
	}
}

// advice says of each lock that does not go by itself why, and what to do.
func advice(b *strings.Builder, locks []lock.Status) {
	for _, st := range locks {
		ours := st.State == lock.Held && st.Verdict == "alive" && !st.Copied
		if st.Hint == "" || ours {
			continue
		}
		fmt.Fprintf(b, "\n%s: %s\n  %s\n", printable(st.Path), printable(st.Reason), printable(st.Hint))
	}
	for _, st := range locks {
		if len(st.Candidates) > 0 && st.State == lock.Free {
			fmt.Fprintf(b, "\n%s: %d takes were not finished; those of dead processes of this host: lockfs recover %s\n",
				printable(st.Path), len(st.Candidates), lock.Quote(st.Path))
		}
	}
}

// statusText says a status in words; now is what ages are counted to.
func statusText(st lock.Status, now time.Time) string {
	var b strings.Builder
	line := func(format string, a ...any) {
		b.WriteString(printable(fmt.Sprintf(format, a...)))
		b.WriteByte('\n')
	}
	switch st.State {
	case lock.Held, lock.Stale:
		line("%s: %s, by process %d of host %s%s", st.Path, st.State, st.PID, st.Host, since(st.Since, now))
		if who := causeText(st.Cause); who != "" {
			line("  taken for: %s", who)
		}
		line("  the holder is %s: %s", st.Verdict, st.Reason)
		line("  its record: %s", st.Record)
	case lock.Odd:
		line("%s: odd: %s", st.Path, st.Reason)
		for _, e := range st.Entries {
			line("  in the lock directory: %q", e)
		}
	default:
		line("%s: %s", st.Path, st.State)
	}
	if h := st.Holder; h != nil {
		lost := ""
		if h.Lost {
			lost = ", LOST: it was taken away"
		}
		line("  held here by %s%s, in use %d times%s", jobText(h.Job, h.Cause), since(h.Since, now), h.Uses, lost)
	}
	for _, w := range st.Waiters {
		line("  waiting here: %s%s", jobText(w.Job, w.Cause), since(w.Since, now))
	}
	for _, c := range st.Candidates {
		line("  not published: %s", c)
	}
	if st.Hint != "" {
		line("  %s", st.Hint)
	}
	return b.String()
}

// since says when something began, and how long ago by this host's clock.
func since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf(", since %s (%v)", t.Local().Format(time.DateTime), max(0, now.Sub(t)).Round(time.Second))
}

// age says in a few characters how long ago something began.
func age(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := max(0, now.Sub(t))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// causeText says who made a lock be taken.
func causeText(c lock.Cause) string {
	var words []string
	if c.Program != "" || c.PID != 0 {
		words = append(words, fmt.Sprintf("%s (pid %d)", c.Program, c.PID))
	}
	if c.User != "" {
		words = append(words, "user "+c.User)
	}
	if c.Job != "" {
		words = append(words, c.Job)
	}
	if c.Mount != "" {
		words = append(words, "through "+c.Mount)
	}
	return strings.Join(words, ", ")
}

// jobText says which job it is, and what of it.
func jobText(job string, c lock.Cause) string {
	c.Job = job
	return causeText(c)
}

// printable is text that changes nothing in a terminal: names of files and of
// programs are anybody's to choose.
func printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 && utf8.ValidString(s) {
		return s
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
