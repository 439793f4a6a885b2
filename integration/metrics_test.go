package integration

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lockfs/lockfs/internal/played"
)

// A mount tells what it does, and its socket goes with it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	socket, read := w.alpha.measured()
	told := func(wants ...string) func() bool {
		return func() bool {
			text := read()
			for _, want := range wants {
				if !strings.Contains(text, want) {
					return false
				}
			}
			return true
		}
	}
	m := `{mount="` + w.mnt + `"}`
	w.until("nothing held", told("lockfs_holds"+m+" 0", "lockfs_takes_total"+m+" 0"))
	holder := w.alpha.hold()
	var waiters []*played.Job
	for range 2 {
		waiters = append(waiters, w.alpha.sh("echo x >g"))
	}
	w.until("a hold and two waiters", told("lockfs_holds"+m+" 1", "lockfs_waiters"+m+" 2", "lockfs_takes_total"+m+" 1"))
	w.alpha.runs(0, []string{"break", "--force", w.in(), w.record()})
	holder.Close()
	for _, j := range waiters {
		w.done(j)
	}
	w.until("what has become of it", told("lockfs_breaks_total"+m+" 1", "lockfs_lost_total"+m+" 1", "lockfs_waiters"+m+" 0",
		`operation="create"`, `lockfs_errors_total{errno="ENOENT"`))
	w.alpha.runs(64, []string{"mount", "-o", "metrics=here", w.tree, w.mnt}, "neither unix:/PATH nor HOST:PORT")
	w.alpha.runs(75, []string{"mount", "-o", "metrics=unix:" + socket, w.tree, w.mnt}, "is a mount of lockfs already")
}

// measured mounts the tree on the host anew, so that the mount tells of itself
// at the socket, and returns what reads all that it tells.
func (h *host) measured() (socket string, read func() string) {
	t := h.w.t
	t.Helper()
	if err := h.daemon.Stop(); err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(filepath.Dir(h.w.tree), "metrics")
	var err error
	if h.daemon, err = h.Mount(lockfs, h.w.tree, h.w.mnt, append(h.w.options, "-o", "metrics=unix:"+socket)...); err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: bound, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	t.Cleanup(client.CloseIdleConnections)
	return socket, func() string {
		t.Helper()
		resp, err := client.Get("http://lockfs/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// total returns the sum of the metric over all its labels.
func total(t *testing.T, metrics, name string) int {
	t.Helper()
	sum := 0.0
	for line := range strings.Lines(metrics) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if base, _, _ := strings.Cut(key, "{"); base == name {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			sum += v
		}
	}
	return int(sum)
}

// operations is how many requests of a kind the metrics tell of.
func operations(t *testing.T, metrics, kind string) int {
	t.Helper()
	for line := range strings.Lines(metrics) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(key, "lockfs_operations_total{") && strings.Contains(key, `operation="`+kind+`"`) {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return n
		}
	}
	t.Fatalf("nothing is told of %s: %s", kind, metrics)
	return 0
}
