// Package metrics tells a monitoring system, in the OpenMetrics format, what a
// mount does. It imports lock, Prometheus's client library, golang.org/x/sys and
// the standard library; it asks the file server nothing.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/lock"
)

// Source is what is asked at each scrape. Nothing of it waits for a file
// server.
type Source struct {
	// Locks are what the mount holds and waits for.
	Locks func() []lock.LocalStatus
	// Kinds and Errors count its operations, by kind and by error.
	Kinds  func() map[string]uint64
	Errors func() map[syscall.Errno]uint64
}

// Metrics are those of one mount.
type Metrics struct {
	registry *prometheus.Registry
	wait     prometheus.Histogram
	events   map[lock.EventKind]prometheus.Counter
}

// waitBuckets are from a take without a wait to a job that waits for a day.
var waitBuckets = []float64{.005, .02, .1, .5, 2, 10, 60, 300, 1800, 7200, 86400}

// New returns the metrics of the mount at target.
func New(target string) *Metrics {
	labels := prometheus.Labels{"mount": target}
	m := &Metrics{registry: prometheus.NewRegistry(), events: map[lock.EventKind]prometheus.Counter{}}
	m.wait = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "lockfs_wait_seconds", Help: "How long takes of a lock from the file server waited.", Buckets: waitBuckets, ConstLabels: labels,
	})
	m.registry.MustRegister(m.wait, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for kind, about := range map[lock.EventKind][2]string{
		lock.EventTook:       {"lockfs_takes_total", "Locks taken from the file server."},
		lock.EventReleased:   {"lockfs_releases_total", "Locks released at the file server."},
		lock.EventGaveUp:     {"lockfs_waits_ended_total", "Waits of 50 ms and more that ended without the lock."},
		lock.EventRecovered:  {"lockfs_recoveries_total", "Locks of dead processes of this host that were recovered."},
		lock.EventBroken:     {"lockfs_breaks_total", "Locks that an operator has broken through this mount."},
		lock.EventLost:       {"lockfs_lost_total", "Locks that were taken away while this mount held them."},
		lock.EventOdd:        {"lockfs_odd_total", "Waits for a lock directory in a state that lockfs never makes."},
		lock.EventCloned:     {"lockfs_cloned_total", "Waits for a lock of another host with this host's machine identity."},
		lock.EventUnreleased: {"lockfs_unreleased_total", "Releases that the file server refused at first."},
		lock.EventUnverified: {"lockfs_unverified_total", "Checks of a held lock that the file server did not answer."},
		lock.EventUnsynced:   {"lockfs_unsynced_total", "Recoveries after which a dead process's data could not be written."},
	} {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: about[0], Help: about[1], ConstLabels: labels})
		m.registry.MustRegister(c)
		m.events[kind] = c
	}
	return m
}

// Event counts an event of the mount's lock manager.
func (m *Metrics) Event(e lock.Event) {
	if c := m.events[e.Kind]; c != nil {
		c.Inc()
	}
	if e.Kind == lock.EventTook {
		m.wait.Observe(e.Elapsed.Seconds())
	}
}

// Watch has what s knows told at each scrape. It is called once.
func (m *Metrics) Watch(target string, s Source) {
	m.registry.MustRegister(&collector{s, target})
}

// handler answers a scrape.
func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Serve answers scrapes on l until ctx ends, and returns why it ended if that
// is not why.
func (m *Metrics) Serve(ctx context.Context, l net.Listener) error {
	const patience = 10 * time.Second
	mux := http.NewServeMux()
	mux.Handle("/metrics", m.handler())
	s := &http.Server{Handler: mux, ReadHeaderTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { s.Close() }) // it closes l
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// The metrics that are asked for at a scrape.
const (
	holdsName      = "lockfs_holds"
	waitersName    = "lockfs_waiters"
	oldestHoldName = "lockfs_oldest_hold_seconds"
	oldestWaitName = "lockfs_oldest_wait_seconds"
	operationsName = "lockfs_operations_total"
	errorsName     = "lockfs_errors_total"
)

// collector asks a source.
type collector struct {
	source Source
	target string
}

// Describe leaves it to Collect to say what there is.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect tells what is so now.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	send := func(name, help string, kind prometheus.ValueType, v float64, labels prometheus.Labels) {
		all := prometheus.Labels{"mount": c.target}
		for k, l := range labels {
			all[k] = l
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, all), kind, v)
	}
	holds, waiters, oldestHold, oldestWait := sum(c.source.Locks(), time.Now())
	send(holdsName, "Locks that this mount holds.", prometheus.GaugeValue, float64(holds), nil)
	send(waitersName, "Operations that wait for a lock.", prometheus.GaugeValue, float64(waiters), nil)
	send(oldestHoldName, "How long the lock has been held that is held the longest.", prometheus.GaugeValue, oldestHold.Seconds(), nil)
	send(oldestWaitName, "How long the operation has been waiting that waits the longest.", prometheus.GaugeValue, oldestWait.Seconds(), nil)
	for kind, n := range c.source.Kinds() {
		send(operationsName, "Requests of the kernel that were answered.", prometheus.CounterValue, float64(n), prometheus.Labels{"operation": kind})
	}
	for no, n := range c.source.Errors() {
		name := unix.ErrnoName(no)
		if name == "" {
			name = fmt.Sprint(int(no))
		}
		send(errorsName, "Requests that were answered with an error. ESTALE sends a waiter around, ENOENT is an absence.", prometheus.CounterValue, float64(n), prometheus.Labels{"errno": name})
	}
}

// sum counts what locks has, and finds what is oldest.
func sum(locks []lock.LocalStatus, now time.Time) (holds, waiters int, oldestHold, oldestWait time.Duration) {
	for _, l := range locks {
		if l.Holder != nil {
			holds++
			oldestHold = max(oldestHold, now.Sub(l.Holder.Since))
		}
		waiters += len(l.Waiters)
		for _, w := range l.Waiters {
			oldestWait = max(oldestWait, now.Sub(w.Since))
		}
	}
	return holds, waiters, oldestHold, oldestWait
}

// ParseAddress returns the network and the address that "unix:/PATH" or
// "HOST:PORT" names. HOST must be said: what is told is not for everybody.
func ParseAddress(s string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		if !strings.HasPrefix(path, "/") {
			return "", "", fmt.Errorf("%q is no absolute path", path)
		}
		return "unix", path, nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || port == "" {
		return "", "", fmt.Errorf("%q is neither unix:/PATH nor HOST:PORT", s)
	}
	return "tcp", s, nil
}

// Listen listens where ParseAddress says. The socket that a killed process has
// left at a path is replaced, and no other file. A socket is for its owner and
// group.
func Listen(s string) (net.Listener, error) {
	network, address, err := ParseAddress(s)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen(network, address)
	if network != "unix" {
		return l, err
	}
	if errors.Is(err, syscall.EADDRINUSE) && abandoned(address) {
		if err := os.Remove(address); err != nil {
			return nil, err
		}
		l, err = net.Listen(network, address)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(address, 0o660); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// abandoned reports whether a socket stands at path that nobody listens at.
func abandoned(path string) bool {
	st, err := os.Lstat(path)
	if err != nil || st.Mode()&os.ModeSocket == 0 {
		return false
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
