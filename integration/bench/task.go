package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// task is one piece of work on one file system, as its process is told it.
type task struct {
	Work   string
	Scale  float64
	Daemon int // its process id, or 0
	// Dir is the backing as the file system shows it, Back the backing itself,
	// where work is prepared and cleaned up.
	Dir, Back string
	// Name is that of the directory to work in, below both; it is new.
	Name string
	// Mount is the mountpoint whose cached names are forgotten, or "".
	Mount string
}

// sample is what a piece of work took.
type sample struct {
	// Amount is how much was done, in the work's unit.
	Amount int64
	Time   time.Duration
	// Daemon is the daemon's CPU time, Kernel the kernel's for the work's own
	// system calls. What kernel threads do is not counted.
	Daemon, Kernel time.Duration
}

// rate is the speed, in units a second.
func (s sample) rate() float64 { return float64(s.Amount) / s.Time.Seconds() }

// runTask does the task in a process of its own. At the end of ctx that is
// killed with all that it has started, and the daemon with it.
func runTask(ctx context.Context, t task) (s sample, err error) {
	self, err := os.Executable()
	if err != nil {
		return s, err
	}
	in, err := json.Marshal(t)
	if err != nil {
		return s, err
	}
	cmd := exec.CommandContext(ctx, self)
	var out, msg bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &msg
	cmd.Env = append(os.Environ(), roleEnv+"="+roleWork)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a job of its own
	cmd.Cancel = func() error {
		// The kernel keeps a killed process until the daemon has answered it,
		// or is dead.
		if t.Daemon != 0 {
			unix.Kill(t.Daemon, unix.SIGKILL)
		}
		return unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	}
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("it took too long: %w", err)
		}
		return s, fmt.Errorf("%w %s", err, bytes.TrimSpace(msg.Bytes()))
	}
	return s, json.Unmarshal(out.Bytes(), &s)
}

// workMain does the task that its standard input tells.
func workMain() error {
	var t task
	if err := json.NewDecoder(os.Stdin).Decode(&t); err != nil {
		return err
	}
	unix.Umask(0o022)
	for _, w := range works() {
		if w.name == t.Work {
			s, err := t.do(w)
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(s)
		}
	}
	return fmt.Errorf("there is no work %q", t.Work)
}

// do prepares the work, measures it, and cleans up.
func (t task) do(w work) (s sample, err error) {
	p := place{
		scale: t.Scale,
		dir:   t.Dir + "/" + t.Name, back: t.Back + "/" + t.Name,
		fixture: t.Dir + "/" + fixtureName, backFixture: t.Back + "/" + fixtureName,
	}
	if err := os.Mkdir(p.back, 0o755); err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.back), t.forget()) }()
	if w.prepare != nil {
		if err := w.prepare(p); err != nil {
			return s, fmt.Errorf("prepare: %w", err)
		}
	}
	if err := t.forget(); err != nil {
		return s, err
	}
	if w.warm {
		if _, err := w.run(p); err != nil {
			return s, err
		}
	}
	daemon, kernel, err := t.clocks()
	if err != nil {
		return s, err
	}
	began := time.Now()
	s.Amount, err = w.run(p)
	s.Time = time.Since(began)
	if err != nil {
		return s, err
	}
	s.Daemon, s.Kernel, err = t.clocks()
	s.Daemon, s.Kernel = s.Daemon-daemon, s.Kernel-kernel
	return s, err
}

// clocks reads the CPU time of the daemon, and the kernel's for this process
// and its children.
func (t task) clocks() (daemon, kernel time.Duration, err error) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			return 0, 0, err
		}
		kernel += time.Duration(u.Stime.Nano())
	}
	daemon, err = cpuClock(t.Daemon)
	return daemon, kernel, err
}

// forget makes the kernel forget the names that it has cached of the mount,
// as a remount does, and its pages of the big file.
func (t task) forget() error {
	if t.Mount == "" {
		return nil
	}
	if err := unix.Mount("", t.Mount, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("remount %s: %w", t.Mount, err)
	}
	return nil
}
