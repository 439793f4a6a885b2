package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Names of file systems, in the order of the tables.
const (
	native = "native"
	lockFS = "lockfs"
	bindFS = "bindfs"
	hpFS   = "passthrough_hp"
)

// system is a file system to measure; native has no command.
type system struct {
	name string
	args []string // the daemon, in the foreground; source and mountpoint follow
	env  []string
	// readOnly: only what reads is done on it.
	readOnly bool
}

// findSystems returns the file systems that are there and asked for, native
// first; note is told of those that are not there.
func findSystems(c *config, note func(string, ...any)) ([]system, error) {
	out := []system{{name: native}}
	add := func(s system, find func() (string, error)) error {
		if !c.systems.match(s.name) {
			return nil
		}
		program, err := find()
		if err != nil {
			return err
		}
		s.args = append([]string{program}, s.args...)
		out = append(out, s)
		return nil
	}
	optional := func(s system, find func() (string, error)) {
		if err := add(s, find); err != nil {
			note("%s is left out: %v", s.name, err)
		}
	}
	optional(system{name: bindFS, args: []string{"-f"}}, func() (string, error) {
		path, err := exec.LookPath("bindfs")
		if err != nil {
			err = fmt.Errorf("%w (apt-get install bindfs)", err)
		}
		return path, err
	})
	optional(system{name: hpFS, args: []string{"--foreground"}}, func() (string, error) {
		if c.hp != "" {
			return c.hp, nil
		}
		return buildHP(c.tmp)
	})
	lockfs := func() (path string, err error) {
		if c.lockfs == "" {
			c.lockfs, err = buildLockfs(c.tmp)
		}
		return c.lockfs, err
	}
	return out, errors.Join(
		add(system{name: "loopback", env: []string{roleEnv + "=" + roleLoopback}}, os.Executable),
		add(system{name: "nolock", args: []string{"mount", "-f", "-o", "nolock"}, env: []string{"LOCKFS_NOLOCK=measuring-only"}}, lockfs),
		add(system{name: lockFS, args: []string{"mount", "-f"}}, lockfs),
		add(system{name: lockFS + "-ro", args: []string{"mount", "-f", "-o", "ro"}, readOnly: true}, lockfs),
	)
}

// buildLockfs builds the command of this source tree.
func buildLockfs(tmp string) (string, error) {
	dir, err := moduleDir()
	if err != nil {
		return "", err
	}
	program := filepath.Join(tmp, "lockfs")
	build := exec.Command("go", "build", "-o", program, "./cmd/lockfs")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/lockfs: %w: %s", err, out)
	}
	return program, nil
}

// served is a file system that shows a backing; cmd is nil for native.
type served struct {
	name string
	dir  string // where the backing is seen
	cmd  *exec.Cmd
	// readOnly is the system's.
	readOnly bool
	log      *bytes.Buffer // to be read when ended is closed
	ended    chan struct{}
}

// mountBound is how long a daemon may take to mount, and to end.
const mountBound = 30 * time.Second

// serve mounts the backing's directory by s, at a directory below tmp.
func (s system) serve(b *backing, tmp string) (*served, error) {
	v := &served{name: s.name, dir: b.dir, readOnly: s.readOnly}
	if s.args == nil {
		return v, nil
	}
	v.dir = filepath.Join(tmp, "mnt", b.name, s.name)
	if err := os.MkdirAll(v.dir, 0o755); err != nil {
		return nil, err
	}
	v.cmd = exec.Command(s.args[0], append(s.args[1:], b.dir, v.dir)...)
	v.cmd.Env = append(without(os.Environ(), roleEnv), s.env...)
	v.log, v.ended = new(bytes.Buffer), make(chan struct{})
	v.cmd.Stdout, v.cmd.Stderr = v.log, v.log
	if err := v.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		v.cmd.Wait() // how it ends is not measured
		close(v.ended)
	}()
	deadline := time.After(mountBound)
	for {
		mounted, err := isMounted(v.dir)
		if mounted {
			return v, nil
		}
		if err == nil {
			select {
			case <-time.After(20 * time.Millisecond):
				continue
			case <-v.ended:
				err = fmt.Errorf("it ended: %s", v.log)
			case <-deadline:
				err = errors.New("it does not mount")
			}
		}
		return nil, errors.Join(fmt.Errorf("%s: %w", s.name, err), v.end())
	}
}

// end unmounts the file system and ends its daemon.
func (v *served) end() error {
	if v.cmd == nil {
		return nil
	}
	if mounted, err := isMounted(v.dir); err != nil || mounted {
		if err := errors.Join(err, unix.Unmount(v.dir, unix.MNT_DETACH)); err != nil {
			return err
		}
	} else if err := v.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-v.ended:
		return nil
	case <-time.After(mountBound):
		return errors.Join(fmt.Errorf("%s: its daemon did not end", v.name), v.cmd.Process.Kill())
	}
}

// pid is the daemon's, or 0.
func (v *served) pid() int {
	if v.cmd == nil {
		return 0
	}
	return v.cmd.Process.Pid
}

// peak is the most memory that the daemon has had, in bytes.
func (v *served) peak() (int64, error) {
	if v.cmd == nil {
		return 0, nil
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.pid()))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0, errors.New("no VmHWM in /proc: the daemon has ended")
	}
	kb, err := strconv.ParseInt(fields[0], 10, 64)
	return kb << 10, err
}

// isMounted reports whether something is mounted at dir, without touching it.
func isMounted(dir string) (bool, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	return strings.Contains(string(data), " "+dir+" "), err
}

// without returns env without the variable name.
func without(env []string, name string) []string {
	var out []string
	for _, e := range env {
		if !strings.HasPrefix(e, name+"=") {
			out = append(out, e)
		}
	}
	return out
}

// cpuClock is the time that all threads of the process pid have run, 0 for
// the process 0. (clock_getcpuclockid(3) makes the id so.)
func cpuClock(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	const sched = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &t); err != nil {
		return 0, fmt.Errorf("the daemon's clock: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
