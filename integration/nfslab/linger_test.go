package nfslab_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockfs/lockfs/integration/nfslab"
)

// TestLinger measures what it costs to keep a lock for longer after its last use,
// and what it saves: the curve from which the default was chosen. It asserts
// nothing but that all goes well.
func TestLinger(t *testing.T) {
	needMatrix(t)
	w := newWorld(t, nfslab.Config{Tools: true})
	m := &mounted{world: w, a: w.c[0].overlay("/mnt", "/work"), b: w.c[1].overlay("/mnt", "/work"), d: w.unused("linger")}
	w.dir(m.d)
	const (
		files  = 30
		rounds = 5
	)
	script := fmt.Sprintf("cd /work/%s || exit; i=0; while [ $((i = i + 1)) -le %d ]; do sh -c 'echo x >f'$i || exit; done; rm f*", m.d, files)
	var text strings.Builder
	fmt.Fprintf(&text, "One job makes %d small files, by a program of its own each, and removes them; and a waiter on another host that has waited for 300 ms has the lock so long after the holder's close, median of %d:\n\n"+
		"| linger | requests a file | in proportion to auto | handed over after, ms |\n|---|---|---|---|\n", files, rounds)
	type figures struct{ requests, handOver float64 }
	seen := map[string]figures{}
	lingers := []string{"0", "10ms", "30ms", "100ms", "300ms", "1s", "auto"}
	for _, linger := range lingers {
		m.a.unmount()
		m.a.options = "linger=" + linger
		m.a.mount()
		sh(t, m.a.Host, script) // what is asked once only, and what auto measures
		before := m.a.requests("/mnt")
		sh(t, m.a.Host, script)
		f := figures{requests: float64(m.a.requests("/mnt").since(before).total()) / files}
		var took []time.Duration
		for range rounds {
			took = append(took, m.handOver(300*time.Millisecond))
		}
		slices.Sort(took)
		f.handOver = float64(took[rounds/2].Microseconds()) / 1000
		seen[linger] = f
	}
	for _, linger := range lingers {
		f := seen[linger]
		fmt.Fprintf(&text, "| %s | %.1f | %s | %.0f |\n", linger, f.requests, ratio(f.requests, seen["auto"].requests), f.handOver)
	}
	for _, o := range []*overlay{m.a, m.b} {
		o.unmount()
	}
	w.clean()
	report(t, "Lingering", text.String())
}
