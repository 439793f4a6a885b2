package nfslab_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/lockfs/lockfs/integration/nfslab"
)

// rounds is how often each of the programs does its work.
const rounds = 25

// Three shell scripts that know of no lock, in one directory. Each
// step opens a file for writing first and does all the rest before it closes
// that file, as redirections do. produce takes back the sum of what was there and
// writes data anew, half of which is on the server while it makes the other half;
// validate writes the sum beside; consume sees that a sum that is there is right.
// All keep one log.
const (
	produce = `
i=0
while [ $((i = i + 1)) -le $1 ]; do
	{ rm -f data.sum; echo "first half of $i"; sync; echo "second half of $i"; } >data || exit
	echo "produce $i" >>log || exit
done`
	validate = `
i=0
while [ $((i = i + 1)) -le $1 ]; do
	if [ -e data ]; then md5sum data; fi >data.sum || exit
	echo "validate $i" >>log || exit
done`
	consume = `
i=0
while [ $((i = i + 1)) -le $1 ]; do
	{ [ ! -s data.sum ] || md5sum -c data.sum; } >check 2>&1 || { cat check data.sum; }
	echo "consume $i" >>log || exit
done`
)

// harm is what a run of them has done.
type harm struct {
	wrong  int // sums that the consumer found
	lost   int // lines of the log
	failed int // programs that ended early
}

func (h harm) row(kind, through string) string {
	return fmt.Sprintf("| %s | %s | %d | %d | %d |\n", kind, through, h.wrong, h.lost, h.failed)
}

// redirections runs the three, each on its host, in the directory d, and returns
// what harm was done.
func (w *world) redirections(d, served string) (h harm) {
	w.t.Helper()
	sh(w.t, w.lab.Server, "cd "+served+" && rm -f * && >log && chmod 666 log")
	var wait sync.WaitGroup
	var ended [3]nfslab.Result
	for i, script := range []string{produce, validate, consume} {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(w.ctx, bound)
			defer cancel()
			r, err := w.c[i].Run(ctx, "sh", "-c", "cd "+d+" || exit"+script, "sh", itoa(rounds))
			if err != nil {
				w.t.Errorf("%s: %v", w.c[i].Name, err)
			}
			ended[i] = r
		})
	}
	wait.Wait()
	for i, r := range ended {
		if r.Code != 0 {
			h.failed++
			w.t.Logf("in %s the program of %s ended with status %d: %.300s%.300s", d, w.c[i].Name, r.Code, r.Stdout, r.Stderr)
		}
	}
	h.wrong = strings.Count(ended[2].Stdout, "FAILED")
	lines := map[string]bool{}
	for _, line := range strings.Split(sh(w.t, w.lab.Server, "cat "+served+"/log"), "\n") {
		lines[line] = true
	}
	for _, who := range []string{"produce", "validate", "consume"} {
		for i := range rounds {
			if !lines[fmt.Sprintf("%s %d", who, i+1)] {
				h.lost++
			}
		}
	}
	return h
}

// TestRedirections runs programs that know of no lock, and of which each opens
// one file for writing and works under that, on three hosts: without lockfs they
// corrupt what they work on, with lockfs never.
func TestRedirections(t *testing.T) {
	needMatrix(t)
	var table strings.Builder
	table.WriteString("| export | through | wrong sums | lost lines of the log, of " + itoa(3*rounds) + " | programs that failed |\n|---|---|---|---|---|\n")
	for _, config := range []nfslab.Config{{Clients: 3}, {Clients: 2, Reexport: true}} {
		kind := "NFSv4.2"
		if config.Reexport {
			kind += ", re-exported"
		}
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t, config)
			if config.Reexport {
				w.c = append(w.c, w.c[0]) // two programs on one host
			}
			w.dir("pipe")
			h := w.redirections("/mnt/pipe", "/export/pipe")
			table.WriteString(h.row(kind, "NFS alone"))
			if h.wrong+h.lost == 0 {
				t.Error("the pipeline without lockfs corrupted nothing, and so proves nothing")
			}
			var overlays []*overlay
			for _, c := range w.c[:len(w.lab.Clients)] {
				overlays = append(overlays, c.overlay("/mnt", "/work"))
			}
			h = w.redirections("/work/pipe", "/export/pipe")
			table.WriteString(h.row(kind, "lockfs"))
			if h != (harm{}) {
				t.Errorf("through lockfs %d sums were wrong, %d lines of the log were lost, %d programs failed", h.wrong, h.lost, h.failed)
			}
			for _, o := range overlays {
				o.unmount()
			}
			w.clean()
		})
	}
	report(t, "Programs that know of no lock", table.String())
}
