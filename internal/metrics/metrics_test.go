package metrics

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockfs/lockfs/lock"
)

// source is one of which something of everything is known.
func source() Source {
	now := time.Now()
	return Source{
		Locks: func() []lock.LocalStatus {
			return []lock.LocalStatus{
				{Holder: &lock.LocalHolder{Since: now.Add(-time.Hour)}},
				{Holder: &lock.LocalHolder{Since: now}, Waiters: []lock.Waiter{{Since: now}, {Since: now.Add(-time.Minute)}}},
			}
		},
		Kinds:  func() map[string]uint64 { return map[string]uint64{"read": 7} },
		Errors: func() map[syscall.Errno]uint64 { return map[syscall.Errno]uint64{syscall.EIO: 3, 250: 1} },
	}
}

// scrape serves m at a new socket and returns what it tells.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Serve(ctx, l) }()
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
		DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://lockfs/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/openmetrics-text") {
		t.Errorf("%v, %v", resp.Header, err)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket was left: %v", err)
	}
	return string(text)
}

func full() *Metrics {
	m := New("/m")
	m.Watch("/m", source())
	for kind := range m.events {
		m.Event(lock.Event{Kind: kind, Elapsed: time.Second})
	}
	m.Event(lock.Event{Kind: lock.EventWaiting}) // is not counted
	return m
}

func TestScrape(t *testing.T) {
	text := scrape(t, full())
	for _, want := range []string{
		`lockfs_takes_total{mount="/m"} 1`, `lockfs_lost_total{mount="/m"} 1`, `lockfs_breaks_total{mount="/m"} 1`,
		`lockfs_holds{mount="/m"} 2`, `lockfs_waiters{mount="/m"} 2`,
		`lockfs_operations_total{mount="/m",operation="read"} 7`, `lockfs_errors_total{errno="EIO",mount="/m"} 3`, `errno="250"`,
		`lockfs_wait_seconds_bucket{mount="/m",le="0.5"} 0`, `lockfs_wait_seconds_bucket{mount="/m",le="2.0"} 1`,
		"process_open_fds", "# EOF",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not tell %s:\n%s", want, text)
		}
	}
	holds, waiters, hold, wait := sum(source().Locks(), time.Now())
	if holds != 2 || waiters != 2 || hold < time.Hour || wait < time.Minute || wait > time.Hour {
		t.Errorf("%d held, %d waiting; %v, %v", holds, waiters, hold, wait)
	}
}

// What dashboards and alerts name is told, and each metric of ours is shown or
// alerted on somewhere.
func TestFilesNameWhatIsTold(t *testing.T) {
	told := map[string]bool{}
	for _, name := range regexp.MustCompile(`(?m)^[a-z_]+`).FindAllString(scrape(t, full()), -1) {
		told[name] = true
	}
	used := map[string]bool{}
	for _, file := range []string{"grafana/lockfs.json", "prometheus/lockfs.rules.yml"} {
		text, err := os.ReadFile(filepath.Join("../../packaging", file))
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\b(lockfs|process)_[a-z_]+`).FindAllString(string(text), -1)
		if len(names) == 0 {
			t.Errorf("%s names nothing", file)
		}
		for _, name := range names {
			used[name] = true
			if !told[name] {
				t.Errorf("%s names %s, which is not told", file, name)
			}
		}
	}
	for name := range told {
		base := strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count")
		if strings.HasPrefix(name, "lockfs_") && !used[name] && !used[base+"_bucket"] && !strings.HasSuffix(name, "_created") {
			t.Errorf("%s is told and shown nowhere", name)
		}
	}
}

func TestParseAddress(t *testing.T) {
	for in, want := range map[string]string{
		"unix:/run/x": "unix /run/x", "127.0.0.1:9100": "tcp 127.0.0.1:9100", "[::1]:9100": "tcp [::1]:9100",
		"unix:x": "", ":9100": "", "localhost": "", "": "", "h:": "",
	} {
		network, address, err := ParseAddress(in)
		if (err != nil) != (want == "") || err == nil && network+" "+address != want {
			t.Errorf("%q: %s %s, %v", in, network, address, err)
		}
	}
}

// The socket of a killed process is replaced; that of a live one, and any other
// file, is not.
func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if _, err := Listen("unix:" + path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("of a live process: %v", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	l, err = Listen("unix:" + path)
	if err != nil {
		t.Fatalf("of an ended process: %v", err)
	}
	l.Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("unix:" + path); err == nil {
		t.Error("a file was replaced")
	}
}
