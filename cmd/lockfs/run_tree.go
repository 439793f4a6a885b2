package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/internal/cred"
	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// supervise holds the locks of the places in this process, and of those in a
// mount through descriptors, and runs the command as a child.
func (r *runRequest) supervise(path string, places []runPlace, signals chan os.Signal) (err error) {
	self, err := procid.Self()
	if err != nil {
		return err
	}
	lost := make(chan string, 1)
	m := lock.NewManager(lock.Config{Self: self, Events: func(e lock.Event) { r.event(e, lost) }})
	defer func() {
		// The command's own status says more than this, unless all was well.
		if cerr := closeManager(m); err == nil {
			err = cerr
		} else if cerr != nil {
			r.say("%v", cerr)
		}
	}()
	held, cause, err := r.holdAll(m, places, signals)
	if err != nil {
		return cmp.Or(cause, r.coded(err))
	}
	defer func() {
		for _, h := range held {
			h.Release()
		}
	}()
	return r.child(path, signals, lost)
}

// closeManager gives back to the server whatever m still has of it.
func closeManager(m *lock.Manager) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	if err := m.Close(ctx); err != nil {
		return withCode(exitIO, fmt.Errorf("the file server does not answer, so a lock may be left; lockfs on this host recovers it: %w", err))
	}
	return nil
}

// holdAll takes the lock of each place. After an error, cause is the signal
// that ended the wait, if one did.
func (r *runRequest) holdAll(m *lock.Manager, places []runPlace, signals <-chan os.Signal) (held []*lock.Hold, cause, err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	taken := make(chan struct{})
	defer close(taken)
	direct := make(chan os.Signal, 1) // for a wait for a descriptor
	go func() {
		select {
		case s := <-signals:
			direct <- s
			cancel(interrupted(s))
		case <-taken:
		}
	}()
	began := time.Now()
	for _, p := range places {
		left := r.wait
		if r.wait > 0 {
			left = max(0, r.wait-time.Since(began))
		}
		var h *lock.Hold
		if p.mounted {
			rest := *r
			rest.wait = left
			err = rest.open([]runPlace{p}, direct)
		} else if h, err = m.Acquire(ctx, p.request(r.command[0], left)); err == nil {
			held = append(held, h)
		}
		if err != nil {
			for _, h := range held {
				h.Release()
			}
			return nil, context.Cause(ctx), err
		}
	}
	return held, nil, nil
}

// request asks for the lock of a place in the tree itself.
func (p runPlace) request(program string, wait time.Duration) lock.Request {
	job, _ := procid.JobOf(procid.BySession, os.Getpid(), uint32(os.Geteuid())) // unseen is a job too
	return lock.Request{
		Place: lock.Place{
			Key:  lock.Key{Dev: p.dev, Ino: p.ino},
			Path: p.path,
			Open: func() (lock.Dir, error) { return lock.OpenDir(p.fd, cred.Own()) },
		},
		Job:   job,
		Cause: lock.Cause{Program: filepath.Base(program), PID: os.Getpid(), User: strconv.Itoa(os.Geteuid()), Job: job.String(), Mount: "lockfs run"},
		Wait:  wait,
	}
}

// event says what the lock manager tells, and passes a loss on.
func (r *runRequest) event(e lock.Event, lost chan<- string) {
	switch e.Kind {
	case lock.EventWaiting:
		by := ""
		if e.Holder != "" {
			by = ", held by " + e.Holder
		}
		r.say("waiting for the lock of %s%s", e.Path, by)
	case lock.EventGot:
		r.say("got the lock of %s after %v", e.Path, e.Elapsed.Round(time.Second))
	case lock.EventGaveUp:
	case lock.EventLost:
		select {
		case lost <- e.Path:
		default:
		}
	default:
		words := []string{string(e.Kind), e.Holder, e.Reason}
		if e.Err != nil {
			words = append(words, e.Err.Error())
		}
		r.say("the lock of %s: %s", e.Path, strings.Join(words, " "))
	}
}

// child runs the command, which is killed when this process ends, hands it the
// signals that this process gets, and returns when it has ended. If a lock is
// taken away meanwhile the command is killed: it must not write without.
func (r *runRequest) child(path string, signals chan os.Signal, lost <-chan string) error {
	// The kernel kills it when the thread that started it ends (prctl(2)).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, s := range []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	cmd := &exec.Cmd{Path: path, Args: r.command, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}}
	err := cmd.Start()
	if errors.Is(err, syscall.ENOEXEC) {
		cmd = &exec.Cmd{Path: "/bin/sh", Args: append([]string{"sh", path}, r.command[1:]...), Stdin: os.Stdin, Stdout: os.Stdout,
			Stderr: os.Stderr, SysProcAttr: cmd.SysProcAttr}
		err = cmd.Start()
	}
	if err != nil {
		return cannotRun(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			return childStatus(err)
		case s := <-signals:
			if !fromTerminal(s) {
				cmd.Process.Signal(s) // it may have ended
			}
		case dir := <-lost:
			cmd.Process.Kill()
			<-ended
			return withCode(exitLost, fmt.Errorf("the lock of %s was taken away, so the command was killed: %w", dir, lock.ErrLost))
		}
	}
}

// childStatus is the end of this command after that of its child.
func childStatus(err error) error {
	var failed *exec.ExitError
	if !errors.As(err, &failed) {
		return err
	}
	if ws, ok := failed.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return errStatus(128 + int(ws.Signal()))
	}
	return errStatus(failed.ExitCode())
}

// fromTerminal reports whether the signal came from the terminal, which has
// sent it to the child as well: those of its keys go to the group of processes
// that is in its foreground.
func fromTerminal(s os.Signal) bool {
	if s != syscall.SIGINT && s != syscall.SIGQUIT {
		return false
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
