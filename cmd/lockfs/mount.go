package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	lockfs "github.com/lockfs/lockfs/fs"
	"github.com/lockfs/lockfs/procid"
)

// closeBound is how long a daemon that was told to end waits for the file
// server to take what was written and to release the locks. It is less than
// the 90 s after which systemd kills a service.
const closeBound = 60 * time.Second

func newMount() *cobra.Command {
	var values []string
	lf := defaultLogFlags
	var foreground bool
	var readyFD int
	cmd := &cobra.Command{
		Use:   "mount SOURCE MOUNTPOINT",
		Short: "Mount a tree, and return when it is served",
		Long: `Mount the tree SOURCE at the directory MOUNTPOINT and return when a daemon in the background
serves it, or say why it can't. --foreground serves it in this process instead, for service
managers and to look at.

The daemon serves until the tree is unmounted (lockfs umount MOUNTPOINT, or umount) or until
SIGTERM, SIGINT or SIGHUP: then the mount is detached though it be in use, what was written is
flushed, and every lock is released. A second signal gives up on that.

In the background the log goes to the system's journal, or else to syslog.

Options, as of mount(8), in one -o or in several, the last one counts:
  wait=DURATION|forever  how long an operation waits for a lock, then EBUSY (forever)
  linger=DURATION|auto   how long a lock is kept for the same job after its last use (auto: as long
                         as the server takes to release it and give it again, 10ms to 1s);
                         from use to use no longer than that, or a second
  job=session|cgroup|process|user|mount
                         which programs are one job, and share a lock (session)
  ro, noexec, suid, dev, noatime, sync, ...
                         the flags of mount(8); nosuid and nodev are on unless these say otherwise
  remount                give what is mounted there other flags of mount(8)
  fsname=NAME            what /proc/mounts shows as the source (SOURCE)
  log=FILE               log to this file
  metrics=unix:/PATH|HOST:PORT
                         tell a monitoring system of the mount, at /metrics there (OpenMetrics)
  debug                  log every request of the kernel
What is for others is left to them: _netdev, nofail, user, x-*, comment=.... A comma in a value
stands behind a backslash, or the value between double quotes.`,
		Args: wants("SOURCE", "MOUNTPOINT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := parseOptions(values, nil)
			if err != nil {
				return err
			}
			if _, err := lf.logger(io.Discard); err != nil {
				return err
			}
			r, err := newMountRequest(args[0], args[1], o, lf)
			switch {
			case err != nil:
				return err
			case o.remount:
				return tellRemount(r.target, values, cmd.ErrOrStderr())
			case foreground:
				return r.serve(readyFD)
			}
			return background(r)
		},
	}
	cmd.Flags().StringArrayVarP(&values, "options", "o", nil, "mount options, with commas between them")
	cmd.Flags().BoolVarP(&foreground, "foreground", "f", false, "serve in this process")
	cmd.Flags().IntVar(&readyFD, readyFlag, 0, "the daemon's own")
	cmd.Flags().MarkHidden(readyFlag) // fails only for a flag that is not there
	lf.add(cmd.Flags())
	return cmd
}

// nolock is also an option of mount.nfs, which people write without a thought:
// it needs nolockValue in nolockEnv, which nobody has by chance.
const (
	nolockEnv   = "LOCKFS_NOLOCK"
	nolockValue = "measuring-only"
)

// mountRequest is a mount that is asked for.
type mountRequest struct {
	source, target string // absolute
	o              options
	log            logFlags
	notes          notes
	queue          *queue // of the log
}

// newMountRequest returns the request to mount source at target.
func newMountRequest(source, target string, o options, log logFlags) (r *mountRequest, err error) {
	r = &mountRequest{o: o, log: log}
	// For daemons and messages, which are elsewhere.
	if r.source, err = filepath.Abs(source); err != nil {
		return r, err
	}
	if r.target, err = filepath.Abs(target); err != nil {
		return r, err
	}
	if o.fsName == "" && filepath.IsAbs(source) {
		// Exactly what fstab says: mount(8) knows by it that it is mounted.
		r.o.fsName = source
	}
	if o.allowOther && os.Geteuid() != 0 {
		return r, withCode(exitRefused, errors.New("allow_other: a mount by another user than root is for that user only"))
	}
	if o.unlocked && os.Getenv(nolockEnv) != nolockValue {
		return r, usage("nolock takes no locks, so that jobs overwrite each other's data: it is for measuring on a tree of one's own, with %s=%s in the environment", nolockEnv, nolockValue)
	}
	return r, nil
}

// serve mounts what is asked for and serves it to its end, in this process. fd
// is the descriptor of a daemon's readiness, or 0.
func (r *mountRequest) serve(fd int) error {
	log, ready, err := r.logger(fd)
	if err != nil {
		return err
	}
	defer r.queue.flush()
	// A log reader that has gone away must not end the daemon.
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)

	server, entry, err := r.mount(log)
	if err != nil {
		return err
	}
	defer r.notes.close(entry)
	end, err := announce(r.target)
	if err != nil {
		// umount then can't tell when the locks are gone; all else works.
		entry.WithError(err).Warn("not announced")
	} else {
		defer end.Close()
	}
	entry.WithFields(logrus.Fields{"options": r.o.String(), "pid": os.Getpid()}).Info("mounted")
	if r.o.unlocked {
		entry.Warn("NO LOCKS ARE TAKEN: jobs overwrite each other's data in this mount (nolock, for measuring only)")
	}
	if ready != nil {
		if err := ready.tell(log); err != nil {
			return errors.Join(withCode(exitIO, fmt.Errorf("who mounts has gone away: %w", err)), closeServer(server, signals, entry))
		}
	}
	manager := notify(server, entry)
	ended := make(chan struct{})
	go func() { server.Wait(); close(ended) }()
	select {
	case <-ended:
		manager.ending()
		entry.Info("unmounted")
		return nil
	case s := <-signals:
		entry.WithField("signal", s.String()).Info("ending")
	}
	manager.ending()
	return closeServer(server, signals, entry)
}

// logger returns the daemon's log, and its readiness unless it serves in the
// foreground.
func (r *mountRequest) logger(fd int) (log *logrus.Logger, ready *readiness, err error) {
	if log, err = r.log.logger(os.Stderr); err != nil {
		return nil, nil, err
	}
	if r.o.debug {
		log.SetLevel(logrus.DebugLevel)
	}
	switch {
	case fd != 0:
		ready, err = newReadiness(fd, log, r.o.log)
	case r.o.log != "":
		_, err = logFile(log, r.o.log)
	case isJournal(os.Stderr):
		forJournal(log)
	}
	r.queue = newQueue(log.Out)
	log.SetOutput(r.queue)
	return log, ready, err
}

// mount mounts what is asked for. What it returns logs about that mount.
func (r *mountRequest) mount(log *logrus.Logger) (*lockfs.Server, *logrus.Entry, error) {
	var err error
	if r.target, err = mountpoint(r.target); err != nil {
		return nil, nil, withCode(exitCreate, fmt.Errorf("mountpoint: %w", err))
	}
	self, err := procid.Self()
	if err != nil {
		return nil, nil, err
	}
	if w := self.Warning(); w != "" {
		log.WithField("reason", w).Warn("machine identity")
	}
	ours, err := turn(r.target)
	if err != nil {
		return nil, nil, err
	}
	defer ours.Close()
	if err := clearDead(r.target, log); err != nil {
		return nil, nil, withCode(exitCreate, err)
	}
	if err := fits(r.source, r.target); err != nil {
		return nil, nil, err
	}
	if r.o.flags&unix.MS_RDONLY == 0 {
		if err := unfit(r.source); err != nil {
			return nil, nil, err
		}
		if err := r.leaveCard(self, log); err != nil {
			return nil, nil, err
		}
	}
	meter, err := newMeter(r.o.metrics, r.target)
	if err != nil {
		return nil, nil, err
	}
	left := r.notes.open(self.ID(), r.source, log)
	o := lockfs.Options{
		Held:     &r.notes,
		Left:     left,
		Self:     self,
		Jobs:     r.o.jobs,
		Wait:     r.o.wait,
		Linger:   r.o.linger,
		Unlocked: r.o.unlocked,
		Flags:    r.o.flags,
		FSName:   r.o.fsName,
		Log:      log,
		Debug:    r.o.debug,
	}
	meter.add(&o)
	server, err := lockfs.Mount(r.source, r.target, o)
	if err != nil {
		meter.close()
		r.notes.close(logrus.NewEntry(log))
		return nil, nil, withCode(mountCode(err), fmt.Errorf("mount %s at %s: %w", r.source, r.target, err))
	}
	entry := log.WithFields(logrus.Fields{"source": r.source, "mount": r.target, "host": self.ID().Host})
	meter.serve(server, entry)
	return server, entry, nil
}

// closeServer ends the mount within closeBound, or before at a second signal.
func closeServer(server *lockfs.Server, signals <-chan os.Signal, log *logrus.Entry) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- server.Close(ctx) }()
	select {
	case err := <-done:
		if err != nil {
			return withCode(exitIO, fmt.Errorf("ended without an answer to everything, locks may be left for the next mount on this host: %w", err))
		}
		log.Info("unmounted")
		return nil
	case s := <-signals:
		return withCode(exitIO, fmt.Errorf("gave up at a second %v; locks may be left for the next mount on this host", s))
	}
}

// mountCode is the exit code of a mount that failed with err.
func mountCode(err error) int {
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return exitRefused
	}
	return exitCreate
}

// clearDead detaches what a killed daemon has left mounted at target. Only
// that: a mount of lockfs itself whose daemon is known to be dead, since the
// kernel answers ENOTCONN for it.
func clearDead(target string, log *logrus.Logger) error {
	for {
		m, err := topMount(target)
		if err != nil {
			return err
		}
		if m == nil || !m.ours() || !m.dead() {
			return nil
		}
		if err := detach(target); err != nil {
			return err
		}
		log.WithField("mount", target).Warn("cleared the mount of a dead daemon")
	}
}
