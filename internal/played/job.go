package played

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
)

// Job is a program that runs on a played host, in a session of its own, and
// that is told by lines when to go on.
type Job struct {
	// PID is the program's.
	PID int

	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string // closed at the end of its output
	errors strings.Builder
	ended  chan struct{}
	err    error
}

// maxLines is how many lines of output may be unread before a job has to wait
// to write more.
const maxLines = 1 << 12

// Start starts a program on the host. The host's end, if nothing else, ends
// it; Close must be called all the same.
func (h *Host) Start(name string, args ...string) (*Job, error) {
	j := &Job{cmd: h.Command(name, args...), lines: make(chan string, maxLines), ended: make(chan struct{})}
	j.cmd.Stderr = &j.errors
	var err error
	if j.in, err = j.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := j.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := j.cmd.Start(); err != nil {
		return nil, err
	}
	j.PID = j.cmd.Process.Pid
	go func() {
		defer close(j.ended)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			j.lines <- sc.Text()
		}
		close(j.lines)
		if err := j.cmd.Wait(); err != nil {
			j.err = fmt.Errorf("%w: %s", err, strings.TrimSpace(j.errors.String()))
		}
	}()
	return j, nil
}

// Tell lets a job that reads a line go on.
func (j *Job) Tell() error { return j.Write("go on\n") }

// Write gives the job a text to read.
func (j *Job) Write(text string) error {
	_, err := io.WriteString(j.in, text)
	return err
}

// Line returns the next line of the job's output; an error if there is none.
func (j *Job) Line(ctx context.Context) (string, error) {
	select {
	case line, ok := <-j.lines:
		if ok {
			return line, nil
		}
		<-j.ended
		return "", fmt.Errorf("the job has ended (%v) and said no more", j.err)
	case <-ctx.Done():
		return "", fmt.Errorf("the job says nothing: %w", ctx.Err())
	}
}

// Expect waits for the job's next line, which must be want.
func (j *Job) Expect(ctx context.Context, want string) error {
	got, err := j.Line(ctx)
	if err != nil {
		return fmt.Errorf("waiting for %q: %w", want, err)
	}
	if got != want {
		return fmt.Errorf("the job said %q, not %q", got, want)
	}
	return nil
}

// Over reports whether the job has ended.
func (j *Job) Over() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// Wait returns how the job ended, or ctx's error if it does not.
func (j *Job) Wait(ctx context.Context) error {
	select {
	case <-j.ended:
		return j.err
	case <-ctx.Done():
		return fmt.Errorf("the job does not end: %w", ctx.Err())
	}
}

// Signal sends the program, not what it started, a signal.
func (j *Job) Signal(sig syscall.Signal) error { return j.cmd.Process.Signal(sig) }

// Close kills the job, with what it started in its session's first process
// group, and returns when it is gone.
func (j *Job) Close() {
	// Until it is waited for, which ended tells, its number is its own. What it
	// left running in the background may hold its output open: hence the group.
	if !j.Over() {
		syscall.Kill(-j.PID, syscall.SIGKILL)
	}
	j.in.Close()
	for range j.lines { // so that it is not stuck in writing
	}
	<-j.ended
}
