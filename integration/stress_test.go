package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/internal/played"
)

var stressFor = flag.Duration("stress.for", 0, "how long the stress runs (20 s; 60 s if CI is set)")

const (
	jobsPerHost   = 3
	workersPerJob = 3
)

// stressJob is a session with some workers in it.
type stressJob struct {
	*played.Job
	host    *host
	workers []int
}

// stress is the state of TestStress.
type stress struct {
	*world
	notes string
	rnd   *rand.Rand
	jobs  []*stressJob
	n     int            // jobs begun
	did   map[string]int // what was done to them
}

// Two hosts, several jobs each, many processes: all write in few directories,
// and workers, jobs, daemons and hosts are killed at random. At no time two
// jobs are in one directory, what was written is there, nothing else is, and
// everybody gets on.
func TestStress(t *testing.T) {
	d := *stressFor
	if d == 0 {
		if d = 20 * time.Second; os.Getenv("CI") != "" {
			d = 60 * time.Second
		}
	}
	if testing.Short() {
		d = 5 * time.Second
	}
	s := &stress{world: newWorld(t), notes: t.TempDir(), did: make(map[string]int)}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, for %v", seed, d)
	s.rnd = rand.New(rand.NewPCG(seed, 0))
	for _, dir := range stressDirs {
		if err := os.MkdirAll(filepath.Join(s.tree, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(s.notes, "in."+dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range []*host{s.alpha, s.beta} {
		for range jobsPerHost {
			s.begin(h)
		}
	}
	// The pace of the kills, not a wait for anything.
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Duration(100+s.rnd.IntN(500)) * time.Millisecond) {
		s.strike()
		s.noFailures()
	}
	s.finish()
	s.check()
	t.Log(s.did)
}

// begin starts a job on the host and waits for its workers' ids.
func (s *stress) begin(h *host) {
	s.t.Helper()
	s.n++
	script := ""
	for range workersPerJob {
		script += fmt.Sprintf("%s=1 %s worker %s %s job%d & ", clientEnv, client, s.mnt, s.notes, s.n)
	}
	j := &stressJob{Job: h.start("sh", "-c", script+"wait"), host: h}
	ctx, cancel := context.WithTimeout(s.ctx, bound)
	defer cancel()
	for range workersPerJob {
		line, err := j.Line(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		pid, err := strconv.Atoi(line)
		if err != nil {
			s.t.Fatal(err)
		}
		j.workers = append(j.workers, pid)
	}
	s.jobs = append(s.jobs, j)
}

// strike does some harm, and makes good what it took away but the data.
func (s *stress) strike() {
	s.t.Helper()
	i := s.rnd.IntN(len(s.jobs))
	j := s.jobs[i]
	switch n := s.rnd.IntN(10); {
	case n < 4:
		s.did["workers killed"]++
		// The shell has not reaped more than it was told of, so the number is
		// the worker's or nobody's for as long as the job lives.
		if pid := j.workers[s.rnd.IntN(len(j.workers))]; s.isWorker(pid) {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				s.t.Fatal(err)
			}
		}
	case n < 7:
		s.did["jobs killed"]++
		j.Close()
		s.jobs = append(s.jobs[:i:i], s.jobs[i+1:]...)
		s.begin(j.host)
	case n < 9 || !initialPIDNamespace():
		s.did["daemons killed"]++
		if err := j.host.daemon.Kill(); err != nil {
			s.t.Fatal(err)
		}
		s.replace(j.host, func() {})
	default:
		s.did["reboots"]++
		s.replace(j.host, func() {
			if err := j.host.Reboot(); err != nil {
				s.t.Fatal(err)
			}
		})
	}
}

// replace ends a host's jobs, whose mount is dead or about to be, and gives it
// a new mount and as many new jobs.
func (s *stress) replace(h *host, before func()) {
	s.t.Helper()
	before()
	var others []*stressJob
	for _, j := range s.jobs {
		if j.host == h {
			j.Close()
		} else {
			others = append(others, j)
		}
	}
	s.jobs = others
	h.mount()
	for range jobsPerHost {
		s.begin(h)
	}
}

// isWorker reports whether the number is still a worker's.
func (s *stress) isWorker(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.Contains(string(b), "worker\x00"+s.mnt+"\x00")
}

// noFailures stops at what a worker has written down.
func (s *stress) noFailures() {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.notes, "failures"))
	if err == nil {
		s.t.Fatalf("failures:\n%s", b)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
}

// finish lets everybody end, and each host take back what it left.
func (s *stress) finish() {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.notes, "stop"), nil, 0o644); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.ctx, 2*bound)
	defer cancel()
	for _, j := range s.jobs {
		if err := j.Wait(ctx); err != nil {
			s.t.Errorf("a job on %s is stuck: %v; in D: %+v", j.host.Name, err, j.host.status())
		}
	}
	s.noFailures()
	for _, h := range []*host{s.alpha, s.beta} {
		for _, dir := range stressDirs {
			s.done(h.sh("echo end >../" + dir + "/end"))
		}
	}
	// What the dead have left where nobody writes any more goes as soon as
	// their host sees it.
	for _, h := range []*host{s.alpha, s.beta} {
		s.done(h.sh("ls -R .. >/dev/null"))
	}
	s.nothingLeft()
}

// check compares the tree with what the workers have written down.
func (s *stress) check() {
	s.t.Helper()
	logs, err := filepath.Glob(filepath.Join(s.notes, "log.*"))
	if err != nil {
		s.t.Fatal(err)
	}
	type count struct{ tried, acked int }
	lines, counts := make(map[string]*count), make(map[string]*count)
	for _, dir := range stressDirs {
		counts[dir] = new(count)
	}
	for _, log := range logs {
		b, err := os.ReadFile(log)
		if err != nil {
			s.t.Fatal(err)
		}
		for l := range strings.Lines(string(b)) {
			f := strings.Split(strings.TrimSuffix(l, "\n"), "\t")
			if len(f) != 4 {
				s.t.Fatalf("%s: %q", log, l)
			}
			c := counts[f[1]]
			if f[2] == "line" {
				key := f[1] + ": " + f[3]
				if c = lines[key]; c == nil {
					c = new(count)
					lines[key] = c
				}
			}
			if f[0] == "try" {
				c.tried++
			} else {
				c.acked++
			}
		}
	}
	acked := 0
	for _, dir := range stressDirs {
		b, err := os.ReadFile(filepath.Join(s.tree, dir, "log"))
		if err != nil {
			s.t.Fatal(err)
		}
		seen := make(map[string]int)
		for l := range strings.Lines(string(b)) {
			key := dir + ": " + strings.TrimSuffix(l, "\n")
			if seen[key]++; lines[key] == nil || seen[key] > 1 {
				s.t.Errorf("a line in the log that nobody wrote there, or not so often: %q", key)
			}
		}
		for key, c := range lines {
			if !strings.HasPrefix(key, dir+": ") || c.acked == 0 {
				continue
			}
			if acked++; seen[key] != 1 {
				s.t.Errorf("lost: %q", key)
			}
		}
		c := counts[dir]
		if b, err = os.ReadFile(filepath.Join(s.tree, dir, "counter")); err != nil {
			s.t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil || n < c.acked || n > c.tried {
			s.t.Errorf("%s: the counter is %d (%v) after %d increments that succeeded of %d", dir, n, err, c.acked, c.tried)
		}
	}
	if acked == 0 {
		s.t.Error("nobody has written anything")
	}
	s.did["lines"] = acked
}

func initialPIDNamespace() bool {
	link, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && link == "pid:[4026531836]"
}
