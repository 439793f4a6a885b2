package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lockfs/lockfs/internal/docs"
)

// report is what is told of a run.
type report struct {
	config  config
	began   time.Time
	load    string // when the run began
	notes   []string
	results []*result
}

func newReport(c config) *report { return &report{config: c, began: time.Now(), load: docs.Load()} }

// note remembers a line for people, and tells it at once.
func (r *report) note(format string, args ...any) {
	n := fmt.Sprintf(format, args...)
	r.notes = append(r.notes, n)
	fmt.Fprintln(os.Stderr, n)
}

// end notes on what machine it was, and how busy that was.
func (r *report) end() {
	after := docs.Load()
	r.notes = append(r.notes, fmt.Sprintf("%s, %s, scale %g, rounds: %d, %v; the load was %s before and %s after",
		r.began.UTC().Format(time.DateOnly), docs.Machine(), r.config.scale, r.config.rounds,
		time.Since(r.began).Round(time.Second), r.load, after))
	for _, load := range []string{r.load, after} {
		if l, err := strconv.ParseFloat(load, 64); err == nil && l > 2*float64(runtime.NumCPU()) {
			r.notes = append(r.notes, "the machine was busy with other things: the speeds are rough, some by more than a factor of two, and the CPU times say more")
			break
		}
	}
}

// failures counts the cells that failed.
func (r *report) failures() int {
	n := 0
	for _, res := range r.results {
		for _, w := range res.works {
			for _, s := range res.systems {
				if res.cell(w.name, s).err != nil {
					n++
				}
			}
		}
	}
	return n
}

// speeds is the table of ratios: the first row is its head.
func (res *result) speeds() [][]string {
	head := []string{"", native}
	rows := [][]string{append(head, res.systems[1:]...)}
	for _, w := range res.works {
		row := []string{w.name, "-"}
		if s, ok := res.cell(w.name, native).median(); ok {
			row[1] = speed(s, w.unit)
		}
		for _, s := range res.systems[1:] {
			row = append(row, res.ratioText(w.name, s))
		}
		rows = append(rows, row)
	}
	return rows
}

func (res *result) ratioText(work, system string) string {
	if res.cell(work, system).err != nil {
		return "failed"
	}
	v, ok := res.ratio(work, system)
	switch {
	case !ok:
		return "-"
	case v < 0.1:
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// speed is a sample's speed for people.
func speed(s sample, unit string) string {
	v := s.rate()
	switch {
	case unit == "B":
		return fmt.Sprintf("%.0f MiB/s", v/(1<<20))
	case v >= 100:
		return fmt.Sprintf("%.0f %s/s", v, unit)
	}
	return fmt.Sprintf("%.2f %s/s", v, unit)
}

// costs is the table of the daemons' and the kernel's CPU time a gigabyte or a
// thousand operations, and of the daemons' memory.
func (res *result) costs() [][]string {
	rows := [][]string{append([]string{""}, res.systems...)}
	for _, w := range res.works {
		if w.needs != "" {
			continue // a tree is no measure that others know
		}
		per, name := 1000.0, "1000 "+w.unit
		if w.unit == "B" {
			per, name = 1<<30, "GiB"
		}
		row := []string{w.name + ", ms a " + strings.TrimSuffix(name, "s")}
		if per == 1000 {
			row[0] = w.name + ", ms for " + name
		}
		for _, s := range res.systems {
			v, ok := res.cell(w.name, s).median()
			if !ok {
				row = append(row, "-")
				continue
			}
			cpu := (v.Daemon + v.Kernel).Seconds() * 1000 * per / float64(v.Amount)
			row = append(row, fmt.Sprintf("%.0f", cpu))
		}
		rows = append(rows, row)
	}
	row := []string{"peak memory, MiB"}
	for _, s := range res.systems {
		if p := res.peak[s]; p > 0 {
			row = append(row, fmt.Sprintf("%.0f", float64(p)/(1<<20)))
		} else {
			row = append(row, "-")
		}
	}
	return append(rows, row)
}

// behind names the rows in which lockfs is slower than others of its kind.
func (res *result) behind() []string {
	var out []string
	for _, w := range res.works {
		mine, ok := res.ratio(w.name, lockFS)
		if !ok {
			continue
		}
		var than []string
		for _, s := range []string{bindFS, hpFS} {
			if v, ok := res.ratio(w.name, s); ok && v > mine {
				than = append(than, fmt.Sprintf("%s (%s)", s, res.ratioText(w.name, s)))
			}
		}
		if than != nil {
			out = append(out, fmt.Sprintf("%s: %s, behind %s", w.name, res.ratioText(w.name, lockFS), strings.Join(than, " and ")))
		}
	}
	return out
}

// text is a result for a terminal.
func (r *report) text(res *result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s, in %v: native's speed, and the others' in proportion to it\n\n", res.backing, res.took.Round(time.Second))
	align(&b, res.speeds())
	fmt.Fprintf(&b, "\nCPU time of the daemon and the kernel\n\n")
	align(&b, res.costs())
	b.WriteByte('\n')
	for _, line := range res.behind() {
		fmt.Fprintf(&b, "lockfs is behind in %s\n", line)
	}
	return b.String()
}

func align(b *strings.Builder, rows [][]string) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush() // never fails on a Builder
}

// writes is the command whose figures stand in performance.md.
const writes = "go run ./integration/bench -write docs"

// write puts the tables into performance.md in dir, between the marks, and the
// plots beside it.
func (r *report) write(dir string) error {
	var b strings.Builder
	for _, n := range r.notes {
		fmt.Fprintf(&b, "\n- %s", n)
	}
	b.WriteByte('\n')
	for _, res := range r.results {
		plot := "performance-" + strings.Trim(strings.ReplaceAll(res.backing, "/", "-"), "-") + ".svg"
		if err := os.WriteFile(filepath.Join(dir, plot), []byte(res.plot()), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&b, "\n### %s\n\n![speed on %s in proportion to native](%s)\n\n", res.backing, res.backing, plot)
		markdown(&b, res.speeds())
		fmt.Fprintf(&b, "\nCPU time of the daemon and the kernel:\n\n")
		markdown(&b, res.costs())
		if behind := res.behind(); behind != nil {
			fmt.Fprintf(&b, "\nWhere lockfs is behind:\n\n- %s\n", strings.Join(behind, "\n- "))
		}
	}
	return docs.WriteFigures(filepath.Join(dir, "performance.md"), writes, b.String())
}

func markdown(b *strings.Builder, rows [][]string) {
	for i, row := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(b, "|---|%s\n", strings.Repeat("--:|", len(row)-1))
		}
	}
}
