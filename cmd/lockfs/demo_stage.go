package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockfs/lockfs/internal/played"
	"github.com/lockfs/lockfs/lock"
)

// sceneBound is how long the demo waits for anything to happen. It is long,
// since only a broken promise reaches it.
const sceneBound = time.Minute

// stage is what the demo plays on: a tree, and two hosts that have it mounted.
type stage struct {
	ctx         context.Context
	out         io.Writer
	exe         string // this program
	dir         string // everything is below
	tree, mnt   string // the shared tree, and where each host has it mounted
	alpha, beta *demoHost
	jobs        []*played.Job
	holder      *played.Job // writes on alpha
	waiter      *played.Job // waits on beta
}

// demoHost is a played host and its daemon.
type demoHost struct {
	*played.Host
	daemon *played.Daemon
}

func newStage(ctx context.Context, out io.Writer) (s *stage, err error) {
	s = &stage{ctx: ctx, out: out}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.exe, err = os.Executable(); err != nil {
		return s, err
	}
	if s.dir, err = os.MkdirTemp("", "lockfs-demo-"); err != nil {
		return s, err
	}
	s.tree, s.mnt = filepath.Join(s.dir, "tree"), filepath.Join(s.dir, "mnt")
	for _, d := range []string{filepath.Join(s.tree, "results"), s.mnt} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return s, err
		}
	}
	for name, h := range map[string]**demoHost{"alpha": &s.alpha, "beta": &s.beta} {
		p, err := played.New(name)
		if err != nil {
			return s, err
		}
		*h = &demoHost{Host: p}
		if err := s.mount(*h); err != nil {
			return s, err
		}
	}
	s.say("Two hosts, alpha and beta, share the tree %s.", s.tree)
	s.say("Each has it mounted through lockfs, at %s, and writes there.", s.mnt)
	return s, nil
}

// mount starts the host's daemon.
func (s *stage) mount(h *demoHost) (err error) {
	if h.daemon, err = h.Mount(s.exe, s.tree, s.mnt); err != nil {
		return fmt.Errorf("mount on %s: %w", h.Name, err)
	}
	return nil
}

// close ends the jobs, the daemons and the hosts, and removes the tree.
func (s *stage) close() error {
	var errs []error
	for _, h := range []*demoHost{s.alpha, s.beta} {
		if h != nil {
			errs = append(errs, h.Close()) // kills what runs there
		}
	}
	for _, j := range s.jobs {
		j.Close()
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// logs returns what the daemons have logged last.
func (s *stage) logs() string {
	var b strings.Builder
	for _, h := range []*demoHost{s.alpha, s.beta} {
		if h.daemon != nil {
			fmt.Fprintf(&b, "%s: %s\n", h.Name, h.daemon.Log())
		}
	}
	return b.String()
}

func (s *stage) say(format string, a ...any) { fmt.Fprintf(s.out, format+"\n", a...) }

// act begins a part of the story.
func (s *stage) act(format string, a ...any) {
	s.say("")
	s.say("* "+format, a...)
}

// sees waits until holds reports that the promise holds, and says so. An error
// of holds ends the wait at once.
func (s *stage) sees(promise string, holds func() (bool, error)) error {
	deadline := time.Now().Add(sceneBound)
	for {
		ok, err := holds()
		if err != nil {
			return fmt.Errorf("%s: %w", promise, err)
		}
		if ok {
			s.say("  seen: %s", promise)
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not seen within %v: %s", sceneBound, promise)
		}
		select {
		case <-s.ctx.Done():
			return fmt.Errorf("interrupted: %w", s.ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// record returns the name of the record in the lock directory of results, as
// it is in the tree; "" if the directory is free.
func (s *stage) record() (string, error) {
	names, err := os.ReadDir(filepath.Join(s.tree, "results", lock.Reserved))
	if errors.Is(err, os.ErrNotExist) || err == nil && len(names) == 0 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if len(names) > 1 {
		return "", fmt.Errorf("%d records in one lock", len(names))
	}
	return names[0].Name(), nil
}

// list shows the lock directory as it is in the tree.
func (s *stage) list() error {
	r, err := s.record()
	if err != nil {
		return err
	}
	s.say("  tree/results/.lockfs  %s", shorten(r))
	return nil
}

// shorten cuts the long ids in a record's name.
func shorten(record string) string {
	if record == "" {
		return "(not there: free)"
	}
	f := strings.Split(record, ",")
	for i := range f {
		if len(f[i]) > 12 {
			f[i] = f[i][:6] + ".."
		}
	}
	return strings.Join(f, ",")
}

// names reports whether the record is of the host.
func names(record, host string) bool { return strings.Contains(record, ","+host+",") }

// status asks lockfs on the host who holds and who waits.
func (s *stage) status(h *demoHost) (lock.Status, error) {
	out, err := h.Command(s.exe, "status", "--json", filepath.Join(s.mnt, "results")).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return lock.Status{}, fmt.Errorf("lockfs status on %s: %w", h.Name, err)
	}
	var st lock.Status
	return st, json.Unmarshal(out, &st)
}

// waits reports, to sees, whether a job on the host waits for the lock.
func (s *stage) waits(h *demoHost, j *played.Job) func() (bool, error) {
	return func() (bool, error) {
		if j.Over() {
			return false, fmt.Errorf("the job did not wait, it ended (%v)", j.Wait(s.ctx))
		}
		st, err := s.status(h)
		return len(st.Waiters) > 0, err
	}
}

// content returns what a file in results has, in the tree itself.
func (s *stage) content(file string) (string, error) {
	b, err := os.ReadFile(filepath.Join(s.tree, "results", file))
	return string(b), err
}

// start starts a shell's script on the host, in the mounted directory results.
func (s *stage) start(h *demoHost, script string) (*played.Job, error) {
	j, err := h.Start("sh", "-c", "cd "+filepath.Join(s.mnt, "results")+" || exit; "+script)
	if err == nil {
		s.jobs = append(s.jobs, j)
	}
	return j, err
}

// says waits for the job's next line of output, which must be want.
func (s *stage) says(j *played.Job, want string) error {
	ctx, cancel := context.WithTimeout(s.ctx, sceneBound)
	defer cancel()
	return j.Expect(ctx, want)
}

// ends reports, to sees, whether the job has ended; an error if not well.
func (s *stage) ends(j *played.Job) func() (bool, error) {
	return func() (bool, error) {
		if !j.Over() {
			return false, nil
		}
		return true, j.Wait(s.ctx)
	}
}
