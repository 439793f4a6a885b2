package nfslab_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockfs/lockfs/integration/nfslab"
)

// TestMountFigures counts what writing through lockfs costs the server, and
// measures it against the same work on the NFS mount itself, in turns in the same
// run. It asserts nothing but that all goes well.
func TestMountFigures(t *testing.T) {
	needMatrix(t)
	w := newWorld(t, nfslab.Config{Tools: true})
	m := &mounted{world: w, a: w.c[0].overlay("/mnt", "/work"), b: w.c[1].overlay("/mnt", "/work"), d: w.unused("figures")}
	m.b.install(clientProgram(t))
	w.dir(m.d)
	var text strings.Builder
	m.counts(&text)
	m.added(&text)
	m.delays(&text)
	m.crowds(&text)
	for _, o := range []*overlay{m.a, m.b} {
		o.unmount()
	}
	w.clean()
	report(t, "Figures of the mount", text.String())
}

// counts counts the requests of jobs that come one after the other, so that each
// takes the lock and releases it.
func (m *mounted) counts(text *strings.Builder) {
	m.t.Helper()
	const n = 10
	text.WriteString("Requests of the client, by its mountstats, for a job that does this and ends:\n\n| what | through | requests | of which |\n|---|---|---|---|\n")
	for _, job := range []struct{ what, script string }{
		{"a new small file", `echo x >new.%d`},
		{"an append to a file", `echo x >>old`},
		{"mkdir", `exec mkdir dir.%d`},
		{"100 new small files", `i=0; while [ $((i = i + 1)) -le 100 ]; do echo x >many.%d.$i || exit; done`},
	} {
		for _, root := range []string{"/mnt", "/work"} {
			do := func(i int) {
				script := strings.ReplaceAll(job.script, "%d", strings.TrimPrefix(root, "/")+itoa(i))
				sh(m.t, m.a.Host, "cd "+root+"/"+m.d+" || exit\n"+script)
				m.clean() // the release too is counted
			}
			do(0) // what is asked once only
			before := m.a.requests("/mnt")
			for i := range n {
				do(i + 1)
			}
			sent := m.a.requests("/mnt").since(before)
			fmt.Fprintf(text, "| %s | %s | %.1f | %s |\n", job.what, through(root), float64(sent.total())/n, sent.per(n))
		}
	}
	text.WriteString("\n")
}

func through(root string) string {
	if root == "/mnt" {
		return "NFS alone"
	}
	return "lockfs"
}

// added measures the time of the same work on both mounts, in turns.
func (m *mounted) added(text *strings.Builder) {
	m.t.Helper()
	const rounds = 3
	sh(m.t, m.a.Host, "dd if=/dev/urandom of=/tmp/large bs=1M count=32 2>/dev/null")
	text.WriteString("The same work on one client, " + itoa(rounds) + " times each in turns; medians:\n\n| what | NFS alone, s | lockfs, s | ratio |\n|---|---|---|---|\n")
	for _, work := range []struct{ what, script string }{
		{"1000 new small files", `i=0; while [ $((i = i + 1)) -le 1000 ]; do echo x >f$i || exit; done`},
		{"1000 small files removed", `rm f*`},
		{"a file of 32 MiB written, and on the server", `cp /tmp/large large && sync large`},
		{"the same read, from the server", `echo 3 >/proc/sys/vm/drop_caches; cat large >/dev/null`},
		{"the same removed", `rm large`},
	} {
		times := map[string][]float64{}
		for i := range rounds {
			for _, root := range []string{"/mnt", "/work"} {
				// What one kind of work leaves the next one needs.
				d := m.d + "/" + strings.TrimPrefix(root, "/") + itoa(i)
				// The guest's own clock: the way to it is not measured.
				out := sh(m.t, m.a.Host, "mkdir -p /mnt/"+d+" && cd "+root+"/"+d+" || exit; from=$(cut -d' ' -f1 /proc/uptime)\n"+work.script+
					"\ncode=$?; echo $from $(cut -d' ' -f1 /proc/uptime); exit $code")
				var from, to float64
				if _, err := fmt.Sscan(out, &from, &to); err != nil {
					m.t.Fatalf("%q: %v", out, err)
				}
				times[root] = append(times[root], to-from)
			}
		}
		plain, locked := median(times["/mnt"]), median(times["/work"])
		fmt.Fprintf(text, "| %s | %.2f | %.2f | %s |\n", work.what, plain, locked, ratio(locked, plain))
	}
	text.WriteString("\n")
}

func median(of []float64) float64 {
	s := slices.Sorted(slices.Values(of))
	return s[len(s)/2]
}

// ratio is a/b, where the clock's hundredths of a second show b.
func ratio(a, b float64) string {
	if b < 0.05 {
		return ""
	}
	return strconv.FormatFloat(a/b, 'f', 2, 64)
}

// delays measures how long after the close of a file on one host a writer on the
// other, which has waited so long, has its file open.
func (m *mounted) delays(text *strings.Builder) {
	m.t.Helper()
	text.WriteString("From the close of the holder's file on one host to the end of the open on another, which had waited so long:\n\n| waited | n | median ms | p99 ms | most ms |\n|---|---|---|---|---|\n")
	for _, of := range []struct {
		waited time.Duration
		n      int
	}{{100 * time.Millisecond, 40}, {time.Second, 10}, {8 * time.Second, 3}} {
		var took []time.Duration
		for range of.n {
			took = append(took, m.handOver(of.waited))
		}
		slices.Sort(took)
		fmt.Fprintf(text, "| %v | %d | %s | %s | %s |\n", of.waited, of.n, ms(took[of.n/2]), ms(took[min(of.n-1, of.n*99/100)]), ms(took[of.n-1]))
	}
	text.WriteString("\n")
}

// handOver measures that once.
func (m *mounted) handOver(waited time.Duration) time.Duration {
	m.t.Helper()
	holder := m.a.holding(m.d, "file")
	waiter := m.b.waiting(m.d, "other")
	time.Sleep(waited) // what is measured depends on it, not what is right
	began := time.Now()
	if err := holder.p.CloseInput(); err != nil {
		m.t.Fatal(err)
	}
	waiter.opened()
	took := time.Since(began)
	holder.close()
	waiter.close()
	return took
}

// crowds counts the requests of many that wait in one directory on one host.
func (m *mounted) crowds(text *strings.Builder) {
	m.t.Helper()
	const waited = 30 * time.Second
	fmt.Fprintf(text, "Requests a second of waiters on one host, over %v:\n\n| waiters | requests a second | of which |\n|---|---|---|\n", waited)
	m.a.must(m.d, "echo x >>old")
	for _, n := range []int{1, 10, 100} {
		holder := m.a.holding(m.d, "file")
		done := m.b.background(m.d, asClient+"many old "+itoa(n))
		m.waits(n)
		before := m.b.requests("/mnt")
		time.Sleep(waited) // what they ask meanwhile is counted
		sent := m.b.requests("/mnt").since(before)
		fmt.Fprintf(text, "| %d | %.1f | %s |\n", n, float64(sent.total())/waited.Seconds(), sent.per(int(waited.Seconds())))
		holder.close()
		if r := done(); r.Code != 0 {
			m.t.Errorf("%d waiters: status %d: %s", n, r.Code, r.Stderr)
		}
	}
}
