package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockfs/lockfs/lock"
)

func newRun() *cobra.Command {
	r := runRequest{wait: lock.Forever, busy: exitHeld, stderr: os.Stderr}
	var noWait bool
	var wait, shell string
	cmd := &cobra.Command{
		Use:   "run DIR... -- COMMAND [ARGUMENT...]",
		Short: "Run a command that holds the locks of directories",
		Long: `Take the lock of each DIR, run the command, and let go of them when it has ended: like flock(1),
for every host that shares the tree. While it waits it says who holds. The exit status is the
command's own, 128+n if signal n ended it; 75 (or -E) if a lock was not to be had in time, 126 or
127 if the command cannot be run. The command never runs without all of the locks; several are
taken in one order, so that two that want the same ones never wait for each other.

In a mount of lockfs the command itself holds the lock, through an open descriptor of DIR/.lockfs:
no other process is needed, and what it starts holds the lock too until it ends or closes it.

On a tree without a mount this process holds the lock, and the command is killed with it. What the
command has started is not, if this process is killed by SIGKILL, and neither is a set-uid
program: where that matters, use a mount. The command must write in the tree itself then, since
through a mount it would wait for its own lock.`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case shell != "" && dash < 0 && len(args) > 0:
				r.dirs, r.command = args, []string{"/bin/sh", "-c", shell}
			case shell == "" && dash > 0 && dash < len(args):
				r.dirs, r.command = args[:dash], args[dash:]
			default:
				return usage("%s wants directories, and a command after --: lockfs run DIR... -- COMMAND", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			switch {
			case noWait && wait != "":
				return usage("--nonblock and --wait exclude each other")
			case noWait:
				r.wait = 0
			case wait != "":
				if r.wait, err = parseSeconds(wait); err != nil {
					return err
				}
			}
			if r.busy < 0 || r.busy > 255 {
				return usage("-E %d is no exit code", r.busy)
			}
			return r.run()
		},
	}
	cmd.Flags().BoolVarP(&noWait, "nonblock", "n", false, "don't wait for a lock that is held")
	cmd.Flags().StringVarP(&wait, "wait", "w", "", "wait so many seconds at most (like 1.5)")
	cmd.Flags().IntVarP(&r.busy, "conflict-exit-code", "E", exitHeld, "exit code where a lock is not to be had in time")
	cmd.Flags().StringVarP(&shell, "command", "c", "", "run this by /bin/sh, in place of a command after --")
	return cmd
}

// parseSeconds reads a number of seconds, which may have a fraction.
func parseSeconds(s string) (time.Duration, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= math.MaxInt64/1e9) {
		return 0, usage("-w %q is no number of seconds", s)
	}
	return time.Duration(f * float64(time.Second)), nil
}

// runRequest is a command that is to run under locks.
type runRequest struct {
	dirs    []string
	command []string
	wait    time.Duration // lock.Forever, 0, or more
	busy    int           // the exit code where a lock is not to be had in time
	stderr  *os.File
}

// errStatus ends the command with the status of another.
func errStatus(code int) error {
	if code == 0 {
		return nil
	}
	return withCode(code, errTold)
}

// run runs the command under the locks. It returns only if the command does
// not run in this process's place.
func (r *runRequest) run() error {
	path, err := lookCommand(r.command[0])
	if err != nil {
		return err
	}
	places, err := findPlaces(r.dirs)
	defer func() {
		for _, p := range places {
			p.close()
		}
	}()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) { // as nohup(1) has it, for the command too
			signal.Notify(signals, s)
		}
	}
	if slices.ContainsFunc(places, func(p runPlace) bool { return !p.mounted }) {
		return r.supervise(path, places, signals)
	}
	if err := r.open(places, signals); err != nil {
		return r.coded(err)
	}
	return execute(path, r.command)
}

// coded gives an error that says that a lock was not to be had the code that
// was asked for.
func (r *runRequest) coded(err error) error {
	var held *lock.HeldError
	var c *coded
	if !errors.As(err, &c) && (errors.As(err, &held) || errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EAGAIN) || errors.Is(err, lock.ErrNoAnswer)) {
		return withCode(r.busy, err)
	}
	return err
}

// The exit codes of a command that cannot be run, as shells have them.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// lookCommand finds the command's program, before anybody waits for nothing.
func lookCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil // who has "." in his PATH wants that
	}
	return path, cannotRun(err)
}

// cannotRun gives an error of running a program its code.
func cannotRun(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return withCode(exitNotFound, err)
	}
	return withCode(exitNotExecutable, err)
}

// execute runs the program in place of this one. It returns only with an error.
func execute(path string, args []string) error {
	err := syscall.Exec(path, args, os.Environ())
	if errors.Is(err, syscall.ENOEXEC) {
		// A script that names no interpreter, as execvp(3) has it.
		err = syscall.Exec("/bin/sh", append([]string{"sh", path}, args[1:]...), os.Environ())
	}
	return cannotRun(&os.PathError{Op: "exec", Path: path, Err: err})
}

// interrupted is the end by a signal before the command ran.
func interrupted(s os.Signal) error {
	n, _ := s.(syscall.Signal)
	return withCode(128+int(n), fmt.Errorf("ended by signal %v while it waited", s))
}

// heldBy says in words who keeps the lock, as a status has it.
func heldBy(st lock.Status) string {
	switch {
	case st.Holder != nil:
		return "held on this host by " + jobText(st.Holder.Job, st.Holder.Cause)
	case st.State == lock.Held || st.State == lock.Stale:
		text := fmt.Sprintf("held by process %d of host %s", st.PID, st.Host)
		if who := causeText(st.Cause); who != "" {
			text += ", for " + who
		}
		return text + since(st.Since, time.Now())
	case st.State == lock.Odd:
		return st.Reason
	}
	return "which is changing hands"
}

// say tells who runs the command what is going on.
func (r *runRequest) say(format string, a ...any) {
	fmt.Fprintf(r.stderr, "lockfs: "+strings.TrimSuffix(format, "\n")+"\n", a...)
}
