package integration

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockfs/lockfs/internal/played"
)

// A mount tells what it does, and its socket goes with it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.alpha.daemon.Stop(); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(filepath.Dir(w.tree), "metrics")
	w.options = []string{"-o", "metrics=unix:" + socket}
	w.alpha.mount()
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	defer client.CloseIdleConnections()
	told := func(wants ...string) func() bool {
		return func() bool {
			resp, err := client.Get("http://lockfs/metrics")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range wants {
				if !strings.Contains(string(text), want) {
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
