package nfslab_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockfs/lockfs/integration/nfslab"
	"github.com/lockfs/lockfs/integration/nfslab/locker"
	"github.com/lockfs/lockfs/lock"
)

// requests is how many requests of each kind a client has sent for a mount.
type requests map[string]int

// background are the kinds that no call asks for.
var background = []string{"NULL", "SEQUENCE", "RENEW", "FREE_STATEID", "TEST_STATEID", "DELEGRETURN", "STATFS", "FSINFO"}

// requests reads the client's counters: "NAME: operations transmissions ..." in
// the part of /proc/self/mountstats that is the mount's.
func (c *client) requests(mount string) requests {
	c.w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	text, err := c.Get(ctx, "/proc/self/mountstats")
	if err != nil {
		c.w.t.Fatal(err)
	}
	n := requests{}
	mine, ops := false, false
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "device "):
			mine, ops = len(fields) > 4 && fields[4] == mount, false
		case strings.Contains(line, "per-op statistics"):
			ops = true
		case mine && ops && len(fields) > 2:
			name := strings.TrimSuffix(fields[0], ":")
			if v, err := strconv.Atoi(fields[2]); err == nil && !slices.Contains(background, name) {
				n[name] = v
			}
		}
	}
	if len(n) == 0 {
		c.w.t.Fatalf("no counters of %s in %s", mount, text)
	}
	return n
}

func (n requests) since(before requests) requests {
	d := requests{}
	for name, v := range n {
		if v > before[name] {
			d[name] = v - before[name]
		}
	}
	return d
}

func (n requests) total() int {
	sum := 0
	for _, v := range n {
		sum += v
	}
	return sum
}

// per says how many requests of each kind there were for each of n.
func (n requests) per(of int) string {
	kinds := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return n[b] - n[a] })
	var words []string
	for _, k := range kinds {
		words = append(words, fmt.Sprintf("%s %.1f", k, float64(n[k])/float64(of)))
	}
	return strings.Join(words, ", ")
}

// TestFigures counts what a lock costs the server and measures how long a waiter
// takes to see a release. It asserts nothing but that all goes well.
func TestFigures(t *testing.T) {
	needMatrix(t)
	w := newWorld(t, nfslab.Config{})
	var text strings.Builder
	for _, version := range []string{"4.2", "3"} {
		root := "/m/" + w.unused("m")
		name := w.unused("figures")
		w.dir(name)
		for _, c := range w.c {
			w.power(func(ctx context.Context) error { return c.Mount(ctx, w.lab.Server, version, "hard", root) })
		}
		fmt.Fprintf(&text, "\n### NFSv%s\n\n| what | requests | of which |\n|---|---|---|\n", version)
		w.costs(&text, root, name)
		w.crowds(&text, root, name)
		text.WriteString("\n")
		if version == "4.2" {
			w.delays(&text, root, name)
		}
	}
	report(t, "Figures", text.String())
}

// costs counts the requests of single takes, releases and tries.
func (w *world) costs(text *strings.Builder, root, name string) {
	w.t.Helper()
	a, b, d := w.c[0], w.c[1], root+"/"+name
	a.release(d, a.take(d, 1)) // what is asked once only
	const n = 30
	var took, released time.Duration
	takes, releases := requests{}, requests{}
	add := func(to, more requests) {
		for k, v := range more {
			to[k] += v
		}
	}
	for range n {
		before := a.requests(root)
		r := a.must("Take", locker.Request{Path: d, Job: 1, Wait: lock.Forever})
		between := a.requests(root)
		q := a.must("Release", locker.Request{Path: d, Hold: r.Hold})
		add(takes, between.since(before))
		add(releases, a.requests(root).since(between))
		took, released = took+r.Elapsed, released+q.Elapsed
	}
	fmt.Fprintf(text, "| a take (%s ms here) | %.1f | %s |\n", ms(took/n), float64(takes.total())/n, takes.per(n))
	fmt.Fprintf(text, "| a release (%s ms here) | %.1f | %s |\n", ms(released/n), float64(releases.total())/n, releases.per(n))

	h := a.take(d, 1)
	before := b.requests(root)
	b.ask("Take", locker.Request{Path: d, Job: 1})
	once := b.requests(root).since(before)
	fmt.Fprintf(text, "| a try that is refused, and its clearing up | %d | %s |\n", once.total(), once.per(1))
	before = b.requests(root)
	waited := 30 * time.Second
	b.ask("Take", locker.Request{Path: d, Job: 1, Wait: waited})
	long := b.requests(root).since(before)
	more := requests{}
	for k, v := range long {
		if v > once[k] {
			more[k] = v - once[k]
		}
	}
	retries := more["RENAME"]
	if retries == 0 {
		w.t.Fatalf("no retries in %v: %v", waited, long)
	}
	fmt.Fprintf(text, "| each further try of a wait of %v (%d of them) | %.1f | %s |\n", waited, retries, float64(more.total())/float64(retries), more.per(retries))
	a.release(d, h)
}

// crowds counts the requests of many waiters of one directory in one process.
func (w *world) crowds(text *strings.Builder, root, name string) {
	w.t.Helper()
	a, b, d := w.c[0], w.c[1], root+"/"+name
	h := a.take(d, 1)
	for _, n := range []int{1, 10, 100} {
		const waited = 30 * time.Second
		before := b.requests(root)
		b.must("Crowd", locker.Request{Path: d, N: n, Wait: waited})
		sent := b.requests(root).since(before).total()
		fmt.Fprintf(text, "| a second, of %d waiters in one process, over their first %v | %.1f | |\n", n, waited, float64(sent)/waited.Seconds())
	}
	a.release(d, h)
}

// delays measures how long after the call of a release on one host a waiter on
// the other has the lock, as seen from outside.
func (w *world) delays(text *strings.Builder, root, name string) {
	w.t.Helper()
	a, b, d := w.c[0], w.c[1], root+"/"+name
	text.WriteString("From the call of a release on one host to the answer of a take on another, which had waited so long:\n\n| waited | n | median ms | p99 ms | most ms |\n|---|---|---|---|---|\n")
	for _, m := range []struct {
		waited time.Duration
		n      int
	}{{100 * time.Millisecond, 100}, {time.Second, 40}, {8 * time.Second, 10}} {
		var took []time.Duration
		for range m.n {
			h := a.take(d, 1)
			waiter := b.begin("Take", locker.Request{Path: d, Job: 1, Wait: lock.Forever})
			time.Sleep(m.waited) // what is measured depends on it, not what is right
			began := time.Now()
			a.release(d, h)
			r := waiter.answer()
			took = append(took, time.Since(began))
			b.release(d, r.Hold)
		}
		slices.Sort(took)
		fmt.Fprintf(text, "| %v | %d | %s | %s | %s |\n", m.waited, m.n, ms(took[m.n/2]), ms(took[min(m.n-1, m.n*99/100)]), ms(took[m.n-1]))
	}
}
