package nfslab_test

import (
	"cmp"
	"context"
	"embed"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockfs/lockfs/integration/nfslab"
)

var pipelineRounds = flag.Int("nfslab.rounds", 0, "run the pipeline, and have it validate its dataset so `often`: 2 take about a minute")

// matrixRounds is how often it does that as a part of the matrix.
const matrixRounds = 8

//go:embed testdata
var programs embed.FS

// outcome is what a run of the pipeline came to.
type outcome struct {
	produced, validated, reads int
	// visits is how often a program was in the directory to write there, and
	// overlaps how often another came while it was.
	visits, overlaps int
	// wrong is how often a dataset was not what its producer had made, as the
	// validator saw it and as it was at the end.
	wrong int
	// lost counts the serial numbers, the lines of the log, the rows of the
	// database and the commits that should be there.
	lost int
	// failed counts the commands that failed.
	failed int
	// torn counts the files that a reader saw half replaced, and stale those
	// that vanished under it.
	torn, stale int
}

const outcomeHead = "| export | through | datasets | validations | readings | visits | overlaps | wrong | lost | failed | torn | stale |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n"

func (o outcome) row(kind, through string) string {
	return fmt.Sprintf("| %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", kind, through,
		o.produced, o.validated, o.reads, o.visits, o.overlaps, o.wrong, o.lost, o.failed, o.torn, o.stale)
}

// hear counts what a program printed.
func (o *outcome) hear(text string) {
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "WRONG":
			o.wrong++
		case "FAILED":
			o.failed++
		case "TORN":
			o.torn++
		case "STALE":
			o.stale++
		case "rounds":
			o.produced, _ = strconv.Atoi(rest)
		case "validated":
			o.validated, _ = strconv.Atoi(rest)
		case "reads":
			o.reads, _ = strconv.Atoi(rest)
		}
	}
}

// pipeline runs producer, validator and reader, each on its host, in the
// directory name of the tree at root, and returns what came of it.
func (w *world) pipeline(root, name string, rounds int) (o outcome) {
	w.t.Helper()
	server := "/export/" + name
	notes := w.unused("notes")
	sh(w.t, w.lab.Server, `mkdir -m 777 `+server+` /export/`+notes+` && cd `+server+` && mkdir raw repo && : >log && echo 0 >serial && echo round 0 >stamp &&
		printf 'total:\n\tcat part-*.csv | wc -l >total\n' >Makefile && sqlite3 runs.db 'create table runs (who text, round int)' && git init -q repo`)
	dir, n := root+"/"+name, itoa(rounds)
	said := w.programs(bound+time.Duration(rounds)*time.Minute, [][]string{
		{"produce.sh", dir, "/notes/" + notes, n},
		{"validate.sh", dir, "/notes/" + notes, n},
		{"read.sh", dir, "/notes/" + notes},
	})
	for _, text := range said {
		o.hear(text)
	}
	if o.produced == 0 || o.validated != rounds || o.reads == 0 {
		w.t.Errorf("a program did not come to its end: %q", said)
	}
	if _, err := w.lab.Server.Sh(w.ctx, "cd "+server+" && sha256sum --quiet -c MANIFEST && cmp MANIFEST repo/MANIFEST && git -C repo fsck --strict"); err != nil {
		w.t.Logf("at the end: %v", err)
		o.wrong++
	}
	o.visits, o.overlaps = overlaps(w.t, sh(w.t, w.lab.Server, "stat -c '%n %.9Y' /export/"+notes+"/*.[io]*"))
	want := o.produced + o.validated
	o.lost += o.visits - count(w.t, w.lab.Server, "cat "+server+"/serial")
	o.lost += want - count(w.t, w.lab.Server, "sort -u "+server+"/log | grep -c '^[a-z]* [0-9]*$'")
	o.lost += want - count(w.t, w.lab.Server, "sqlite3 "+server+"/runs.db 'pragma integrity_check; select count(distinct who || round) from runs'")
	o.lost += o.produced - count(w.t, w.lab.Server, "git -C "+server+"/repo rev-list --count HEAD")
	return o
}

// visit is a time that a program was in the directory.
type visit struct {
	who     string
	in, out float64
}

// overlaps counts the visits, and those that began before an earlier one of
// another program had ended. The text has lines of PATH/WHO.NUMBER.in and .out,
// and when they were made, all by one clock.
func overlaps(t *testing.T, text string) (visits, overlaps int) {
	t.Helper()
	all := map[string]*visit{}
	for line := range strings.Lines(text) {
		path, when, _ := strings.Cut(strings.TrimSpace(line), " ")
		stem, end := strings.TrimSuffix(path, filepath.Ext(path)), filepath.Ext(path)
		at, err := strconv.ParseFloat(when, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		v := all[stem]
		if v == nil {
			v = &visit{who: strings.TrimSuffix(filepath.Base(stem), filepath.Ext(stem)), out: math.Inf(1)}
			all[stem] = v
		}
		if end == ".in" {
			v.in = at
		} else {
			v.out = at
		}
	}
	order := slices.SortedFunc(maps.Values(all), func(a, b *visit) int { return cmp.Compare(a.in, b.in) })
	last := map[string]float64{} // until when each program has been in
	for _, v := range order {
		for who, out := range last {
			if who != v.who && v.in < out {
				overlaps++
				break
			}
		}
		last[v.who] = max(last[v.who], v.out)
	}
	return len(all), overlaps
}

// TestOverlaps has the checker of the pipeline find what overlaps, and nothing
// else.
func TestOverlaps(t *testing.T) {
	for text, want := range map[string]int{
		"/n/a.1.in 1.0\n/n/a.1.out 2.0\n/n/b.1.in 2.0\n/n/b.1.out 3.5\n/n/a.2.in 3.6\n/n/a.2.out 4.0": 0,
		"/n/a.1.in 1.0\n/n/a.1.out 2.5\n/n/b.1.in 2.0\n/n/b.1.out 3.5\n/n/a.2.in 3.0\n/n/a.2.out 4.0": 2,
		"/n/a.1.in 1.0\n/n/a.1.out 9.0\n/n/b.1.in 2.0\n/n/b.1.out 3.0\n/n/b.2.in 4.0\n/n/b.2.out 5.0": 2,
		"/n/a.1.in 1.0\n/n/b.1.in 2.0\n/n/b.1.out 3.0":                                                1, // a never left
	} {
		if _, got := overlaps(t, text); got != want {
			t.Errorf("%q: %d overlaps, want %d", text, got, want)
		}
	}
}

// count is the last number that a script prints; 0 if it fails.
func count(t *testing.T, h *nfslab.Host, script string) int {
	t.Helper()
	out, err := h.Sh(context.Background(), script)
	if err != nil {
		t.Log(err)
	}
	numbers := regexp.MustCompile(`\d+`).FindAllString(out, -1)
	if len(numbers) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(numbers[len(numbers)-1])
	return n
}

// programs runs the programs, each on its client, and returns what they print
// when all have ended, for which they have limit.
func (w *world) programs(limit time.Duration, argvs [][]string) []string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, limit)
	defer cancel()
	said := make([]string, len(argvs))
	var all sync.WaitGroup
	for i, argv := range argvs {
		c := w.c[i]
		all.Go(func() {
			r, err := c.Run(ctx, append([]string{"sh", "/bin/" + argv[0]}, argv[1:]...)...)
			said[i] = r.Stdout
			if err != nil || r.Code != 0 || strings.Contains(r.Stdout, "FAILED") {
				w.t.Logf("%s: %s: status %d, %v: %s%s", c.Name, argv[0], r.Code, err, r.Stdout, r.Stderr)
			}
		})
	}
	all.Wait()
	return said
}

// scripts puts the pipeline's programs into the clients.
func (w *world) scripts() {
	w.t.Helper()
	entries, err := programs.ReadDir("testdata")
	if err != nil {
		w.t.Fatal(err)
	}
	dir := w.t.TempDir()
	for _, e := range entries {
		text, err := programs.ReadFile("testdata/" + e.Name())
		if err != nil {
			w.t.Fatal(err)
		}
		path := filepath.Join(dir, e.Name())
		if err := os.WriteFile(path, text, 0o644); err != nil {
			w.t.Fatal(err)
		}
		for _, c := range w.c {
			c.install(path)
		}
	}
}

// TestPipeline has one host make a dataset, a second validate it and write beside
// it, and a third read all the while, with programs that know of no lock; each
// script holds the directory's lock over what it does there. On the export itself
// that must do harm, since the test would else prove nothing; through lockfs none.
func TestPipeline(t *testing.T) {
	if raced {
		t.Skip("what runs in the hosts is not instrumented: with -race this shows nothing more")
	}
	rounds := *pipelineRounds
	if rounds == 0 {
		needMatrix(t)
		rounds = matrixRounds
	}
	w := newWorld(t, nfslab.Config{Clients: 3, Tools: true})
	w.scripts()
	var overlays []*overlay
	for _, c := range w.c {
		w.power(func(ctx context.Context) error { return c.Mount(ctx, w.lab.Server, "4.2", "hard,noac", "/notes") })
		overlays = append(overlays, c.overlay("/mnt", "/work"))
	}
	o := w.pipeline("/mnt", "alone", rounds)
	if o.overlaps == 0 || o.wrong+o.lost == 0 {
		t.Errorf("the pipeline did no harm without lockfs, and so proves nothing: %+v", o)
	}
	table := outcomeHead + o.row("NFSv4.2", "NFS alone")
	sh(t, w.lab.Server, "rm -r /export/alone") // with the file there that is no lock
	o = w.pipeline("/work", "locked", rounds)
	table += o.row("NFSv4.2", "lockfs")
	if o.overlaps+o.wrong+o.lost+o.failed+o.torn != 0 {
		t.Errorf("through lockfs: %+v", o)
	}
	for _, v := range overlays {
		v.unmount()
	}
	w.clean()
	report(t, "A pipeline", table)
}
