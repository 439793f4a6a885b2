package main

import (
	"errors"
	"fmt"
	"log/syslog"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// A daemon in the background is this program, started anew: a fork would lose
// the threads of Go's runtime. It says through a pipe that its mount serves;
// until then its standard error is that of who mounts, so that whatever goes
// wrong is told there.

// readyFlag gives the daemon the number of the pipe's descriptor.
const readyFlag = "ready-fd"

// endBound is how long a daemon that is told to end before its mount serves
// may take. One that waits for a file server may take for ever.
const endBound = 5 * time.Second

// errTold ends the command without a message: the reason has been told.
var errTold = errors.New("")

// background starts the daemon of a mount and returns when the mount serves,
// or with the code that the daemon ended with. A signal that ends this process
// ends the daemon.
func background(r *mountRequest) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	readEnd, writeEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	defer readEnd.Close()
	cmd := exec.Command("/proc/self/exe", append([]string{"mount", "--foreground", "--" + readyFlag, "3",
		"--log-level", r.log.level, "--log-format", r.log.format, "-o", r.o.String(), "--"}, r.source, r.target)...)
	cmd.Args[0] = "lockfs"
	// What this process was given by a service manager is about itself.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "NOTIFY_SOCKET=") || strings.HasPrefix(v, "JOURNAL_STREAM=")
	})
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{writeEnd}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	writeEnd.Close()
	if err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	ready := make(chan bool, 1)
	go func() {
		n, _ := readEnd.Read(make([]byte, 1)) // no byte before the end: it failed
		ready <- n == 1
	}()
	select {
	case ok := <-ready:
		if ok {
			return nil
		}
		return daemonEnd(cmd.Wait())
	case s := <-signals:
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ready:
		case <-signals:
		case <-time.After(endBound):
		}
		cmd.Process.Kill()
		return withCode(exitInterrupted, fmt.Errorf("ended by signal %v before the mount was made", s))
	}
}

// daemonEnd is the error of a daemon that ended before its mount served.
func daemonEnd(err error) error {
	var failed *exec.ExitError
	switch {
	case err == nil:
		return withCode(exitIO, errors.New("the daemon ended by itself before its mount served"))
	case errors.As(err, &failed) && failed.Exited():
		return withCode(failed.ExitCode(), errTold)
	}
	return withCode(exitIO, fmt.Errorf("the daemon ended before its mount served: %w", err))
}

// backgroundLog has the log written to where a daemon's log is looked for: to
// the file that the options name, to the journal, or to syslog; and what is a
// warning or worse to the terminal as well, until detach. The file that it
// returns is to be the standard error from then on, for what Go's runtime says
// of a crash.
func backgroundLog(log *logrus.Logger, file string) (stderr *os.File, err error) {
	defer func() {
		if err == nil {
			log.AddHook(terminal{log.Formatter})
		}
	}()
	if file != "" {
		return logFile(log, file)
	}
	if j, err := openJournal(); err == nil {
		log.SetOutput(j)
		forJournal(log)
		return j, nil
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	w, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_INFO, "lockfs")
	if err != nil {
		fmt.Fprintln(os.Stderr, "lockfs: there is no journal and no syslog here, so what the daemon has to say is lost; -o log=FILE keeps it")
		log.SetOutput(null)
		return null, nil
	}
	log.SetOutput(toSyslog{w})
	forJournal(log) // whose format it is, too
	return null, nil
}

// logFile has the log written to the file of that name, which may be there.
func logFile(log *logrus.Logger, name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return nil, withCode(exitCreate, fmt.Errorf("log: %w", err))
	}
	log.SetOutput(f)
	return f, nil
}

// terminal shows who mounts what is wrong.
type terminal struct{ format logrus.Formatter }

func (terminal) Levels() []logrus.Level {
	return []logrus.Level{logrus.PanicLevel, logrus.FatalLevel, logrus.ErrorLevel, logrus.WarnLevel}
}

func (t terminal) Fire(e *logrus.Entry) error {
	text, err := t.format.Format(e)
	if err != nil {
		return err
	}
	_, err = os.Stderr.Write(text)
	return err
}

// readiness is how a daemon in the background tells that its mount serves.
type readiness struct {
	pipe   *os.File
	stderr *os.File // what the standard error is to be
}

// newReadiness takes over the pipe with the descriptor fd, which is not for
// the programs that the daemon runs.
func newReadiness(fd int, log *logrus.Logger, file string) (*readiness, error) {
	if err := unix.Fstat(fd, new(unix.Stat_t)); fd < 3 || err != nil {
		return nil, usage("--%s is not for people", readyFlag)
	}
	unix.CloseOnExec(fd)
	// The name that ps(1) and pkill(1) know it by would be "exe". It decides nothing.
	_ = os.WriteFile("/proc/self/comm", []byte("lockfs"), 0)
	stderr, err := backgroundLog(log, file)
	if err != nil {
		return nil, err
	}
	return &readiness{os.NewFile(uintptr(fd), "pipe "+strconv.Itoa(fd)), stderr}, nil
}

// tell lets go of the terminal and tells who mounts. Its error says that nobody
// is there any more to be told.
func (r *readiness) tell(log *logrus.Logger) error {
	hooks := logrus.LevelHooks{}
	for level, all := range log.Hooks {
		for _, h := range all {
			if _, ok := h.(terminal); !ok {
				hooks[level] = append(hooks[level], h)
			}
		}
	}
	log.ReplaceHooks(hooks)
	if err := unix.Dup3(int(r.stderr.Fd()), unix.Stderr, 0); err != nil {
		return os.NewSyscallError("dup", err)
	}
	_, err := r.pipe.Write([]byte{'!'})
	return errors.Join(err, r.pipe.Close())
}
