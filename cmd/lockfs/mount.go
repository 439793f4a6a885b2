package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	lockfs "github.com/lockfs/lockfs/fs"
	"github.com/lockfs/lockfs/procid"
)

// closeBound is how long a daemon that was told to end waits for the file
// server to take what was written and to release the locks. It is less than
// the 90 s after which systemd kills a service.
const closeBound = 60 * time.Second

func newMount() *cobra.Command {
	var values []string
	var lf logFlags
	cmd := &cobra.Command{
		Use:   "mount SOURCE MOUNTPOINT",
		Short: "Mount a tree, and serve it in the foreground until it is unmounted",
		Long: `Mount the tree SOURCE at the directory MOUNTPOINT and serve it, in the foreground, until it is
unmounted (lockfs umount MOUNTPOINT) or until SIGTERM, SIGINT or SIGHUP: then the mount is
detached though it be in use, what was written is flushed, and every lock is released. A
second signal gives up on that.

Options, as of mount(8), in one -o or in several, the last one counts:
  wait=DURATION|forever  how long an operation waits for a lock, then EBUSY (forever)
  linger=DURATION        how long a lock is kept for the same job after its last use (` + defaultLinger.String() + `)
  job=session|cgroup|process|user|mount
                         which programs are one job, and share a lock (session)
  ro, noexec, suid, dev, noatime
                         as of mount(8); nosuid and nodev are on unless these say otherwise
  fsname=NAME            what /proc/mounts shows as the source (SOURCE)
  debug                  log every request of the kernel`,
		Args: wants("SOURCE", "MOUNTPOINT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := parseOptions(values)
			if err != nil {
				return err
			}
			log, err := lf.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if o.debug {
				log.SetLevel(logrus.DebugLevel)
			}
			return mount(args[0], args[1], o, log)
		},
	}
	cmd.Flags().StringArrayVarP(&values, "options", "o", nil, "mount options, with commas between them")
	lf.add(cmd.Flags())
	return cmd
}

// mount mounts source at target and serves it to its end.
func mount(source, target string, o options, log *logrus.Logger) error {
	// A log reader that has gone away must not end the daemon.
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)

	// Absolute, for messages that are read elsewhere.
	source, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	if target, err = mountpoint(target); err != nil {
		return err
	}
	self, err := procid.Self()
	if err != nil {
		return err
	}
	if w := self.Warning(); w != "" {
		log.WithField("reason", w).Warn("machine identity")
	}
	if err := clearDead(target, log); err != nil {
		return withCode(exitCreate, err)
	}
	server, err := lockfs.Mount(source, target, lockfs.Options{
		Self:     self,
		Jobs:     o.jobs,
		Wait:     o.wait,
		Linger:   o.linger,
		ReadOnly: o.readOnly,
		Flags:    o.flags,
		FSName:   o.fsName,
		Log:      log,
		Debug:    o.debug,
	})
	if err != nil {
		return withCode(mountCode(err), fmt.Errorf("mount %s at %s: %w", source, target, err))
	}
	entry := log.WithFields(logrus.Fields{"source": source, "mount": target})
	end, err := announce(target)
	if err != nil {
		// umount then can't tell when the locks are gone; all else works.
		entry.WithError(err).Warn("not announced")
	} else {
		defer end.Close()
	}
	entry.WithFields(logrus.Fields{"options": o.String(), "host": self.ID().Host, "pid": os.Getpid()}).Info("mounted")

	ended := make(chan struct{})
	go func() { server.Wait(); close(ended) }()
	select {
	case <-ended:
		entry.Info("unmounted")
		return nil
	case s := <-signals:
		entry.WithField("signal", s.String()).Info("ending")
	}
	return closeServer(server, signals, entry)
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
	case errors.Is(err, procid.ErrMachineID):
		return exitUnfit
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return exitRefused
	}
	if _, serr := os.Stat("/dev/fuse"); serr != nil {
		return exitUnfit
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
