package played

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// mountBound is how long a daemon may take to mount.
const mountBound = 30 * time.Second

// Daemon is a lockfs that serves a mount on a played host.
type Daemon struct {
	PID int

	cmd   *exec.Cmd
	log   string // the file it logs to
	ended chan struct{}
	err   error // how it ended; to be read when ended is closed
}

// Mount starts the program lockfs on the host, so that it mounts source at
// target, and returns when the mount serves. The further arguments go before
// the source ("-o", "wait=1s").
func (h *Host) Mount(lockfs, source, target string, args ...string) (*Daemon, error) {
	log, err := os.CreateTemp(h.dir, "daemon-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close() // the daemon has its own
	args = append(append([]string{"mount", "--foreground", "--log-format", "json"}, args...), "--", source, target)
	d := &Daemon{cmd: h.Command(lockfs, args...), log: log.Name(), ended: make(chan struct{})}
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	d.PID = d.cmd.Process.Pid
	go func() { d.err = d.cmd.Wait(); close(d.ended) }()
	for deadline := time.Now().Add(mountBound); ; {
		events, err := d.Events()
		if err != nil {
			return nil, errors.Join(err, d.Kill())
		}
		for _, e := range events {
			if e["msg"] == "mounted" {
				return d, nil
			}
		}
		select {
		case <-d.ended:
			return nil, fmt.Errorf("the daemon ended: %w: %s", d.err, d.Log())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("the daemon does not mount: %s", d.Log()), d.Kill())
		}
	}
}

// Log returns the last lines of what the daemon has written, for people.
func (d *Daemon) Log() string {
	b, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// Events returns what the daemon has logged, each event by its fields.
func (d *Daemon) Events() ([]map[string]any, error) {
	b, err := os.ReadFile(d.log)
	if err != nil {
		return nil, err
	}
	var events []map[string]any
	for line := range strings.Lines(string(b)) {
		var e map[string]any
		// What is no JSON, or half written, is no event (a panic's trace).
		if json.Unmarshal([]byte(line), &e) == nil {
			events = append(events, e)
		}
	}
	return events, nil
}

// Ended is closed when the daemon has ended.
func (d *Daemon) Ended() <-chan struct{} { return d.ended }

// Err returns how the daemon ended, once Ended is closed.
func (d *Daemon) Err() error { return d.err }

// Kill kills the daemon and returns when it is dead.
func (d *Daemon) Kill() error { return d.end(syscall.SIGKILL) }

// Stop asks the daemon to end and returns when it has; an error if it did not
// end well.
func (d *Daemon) Stop() error {
	if err := d.end(syscall.SIGTERM); err != nil {
		return err
	}
	if d.err != nil {
		return fmt.Errorf("the daemon ended badly: %w: %s", d.err, d.Log())
	}
	return nil
}

func (d *Daemon) end(sig syscall.Signal) error {
	if err := d.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-d.ended:
		return nil
	case <-time.After(2 * killBound):
		return fmt.Errorf("the daemon %d does not end after %v: %s", d.PID, sig, filepath.Base(d.log))
	}
}
