package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	xfstestsDir = flag.String("xfstests", "", "the folder ltp of xfstests (git.kernel.org), in which fsx and fsstress are built")
	xfstestsFor = flag.Duration("xfstests.for", time.Minute, "how long each of its programs runs")
)

// xfstests are the runs of the programs: with mappings, with O_DIRECT, with the
// file closed and opened often, so that the lock changes hands, and many
// processes at once. What fsx writes beside its file, which it keeps open, goes
// to $OUT, so as not to hold the lock.
var xfstests = map[string]string{
	"fsx":          "timeout $FOR $LTP/fsx -q -P $OUT -c 20 -N 100000000 f",
	"fsx O_DIRECT": "timeout $FOR $LTP/fsx -q -Z -r 4096 -w 4096 -t 4096 -P $OUT -c 20 -N 100000000 g",
	"fsx stdio":    "timeout $FOR $LTP/fsx -q -R -W -P $OUT -c 20 -N 100000000 h",
	"fsstress":     "mkdir s; timeout $FOR $LTP/fsstress -d s -n 100000000 -p 4; chmod -R u+rwx s; rm -rf s && [ ! -e s ]",
}

// fsx compares each read of a file with what it has written; fsstress does all
// kinds of operations at random. Meanwhile another host takes the lock of the
// same directory all the time.
func TestXfstests(t *testing.T) {
	if *xfstestsDir == "" {
		t.Skip("takes minutes, and programs that Debian lacks: build ltp/fsx and ltp/fsstress of xfstests, and set -xfstests")
	}
	w := newWorld(t)
	_, read := w.alpha.measured()
	for name, script := range xfstests {
		t.Run(name, func(t *testing.T) {
			before := total(t, read(), "lockfs_operations_total")
			others := w.beta.sh("while [ ! -e stop ]; do echo x >>log || exit; sleep 0.01; done")
			ctx, cancel := context.WithTimeout(w.ctx, *xfstestsFor+bound)
			defer cancel()
			cmd := w.alpha.Command("sh", "-c", "cd "+w.in()+" || exit; "+script)
			cmd.Env = append(cmd.Env, "LTP="+*xfstestsDir, "OUT="+t.TempDir(), fmt.Sprintf("FOR=%.0f", xfstestsFor.Seconds()))
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
			defer stop()
			err := cmd.Wait()
			// timeout(1) exits with 124 when it has ended the program.
			if err != nil && !(strings.HasPrefix(name, "fsx") && cmd.ProcessState.ExitCode() == 124) {
				t.Errorf("%v\n%s", err, &out)
			}
			if err := os.WriteFile(filepath.Join(w.tree, "D", "stop"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			w.done(others)
			log := strings.Count(w.read("log"), "x\n")
			t.Logf("%d requests; the other host has had the lock %d times\n%s", total(t, read(), "lockfs_operations_total")-before, log, &out)
			if log == 0 {
				t.Error("the other host never had the lock")
			}
			for _, name := range []string{"stop", "log"} {
				if err := os.Remove(w.back(name)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	w.nothingLeft()
}
