package main

import (
	"errors"
	"fmt"
	"log/syslog"
	"os"
	"os/user"
	"strings"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

func newBreak() *cobra.Command {
	var force bool
	var lf logFlags
	cmd := &cobra.Command{
		Use:   "break PATH RECORD",
		Short: "Take a lock away whose host never comes back",
		Long: `Take the lock of the directory PATH, in a mount or in the tree itself, away from the holder
whom RECORD names, as lockfs status shows it. It is refused if another holds by now (75).
It is for a host that never comes back: should it live after all, both may write until
its lockfs finds out, within seconds, and fails whatever is written there from then on.

A holder that provably lives on this host is refused (75), and so is a record that this
lockfs cannot read or that is one of several (70), unless --force says so.

What keeps a lock from being taken and is no record, like a .nfs file, is named in place
of RECORD and removed; so is a candidate (.lockfs.v1,...) of a host that never comes back.

What was done is logged, to syslog too, and by the mount that it went through.`,
		Args: wants("PATH", "RECORD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			log, err := lf.logger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			self, err := procid.Self()
			if err != nil {
				return err
			}
			p, err := openPlace(args[0])
			if err != nil {
				return err
			}
			defer p.close()
			return breakLock(p, args[1], self, force, log)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "though the holder lives on this host, or nobody can judge")
	lf.add(cmd.Flags())
	return cmd
}

// breakLock breaks the lock of p, and says what it did or why not.
func breakLock(p *place, record string, self *procid.Local, force bool, log *logrus.Logger) error {
	before, err := p.status(self.Judge)
	if err != nil {
		return err
	}
	err = p.breakLock(record, self, force)
	if err != nil {
		return explain(p, before, record, self, err)
	}
	entry := log.WithFields(logrus.Fields{"dir": p.path, "record": record, "by": operator(), "force": force})
	text := "removed what stood in the way of the lock of " + p.path
	if before.Record == record {
		text = fmt.Sprintf("broke the lock of %s, which process %d of host %s held", p.path, before.PID, before.Host)
		entry = entry.WithField("reason", before.Verdict+": "+before.Reason)
		if who := causeText(before.Cause); who != "" {
			entry = entry.WithField("holder", who)
		}
	}
	entry.Warn(text)
	if err := tellSyslog(fmt.Sprintf("%s (record %s, force %t, by %s)", text, record, force, operator())); err != nil {
		log.WithError(err).Warn("not told to syslog")
	}
	return nil
}

// explain adds to why a lock was not broken what the operator can do.
func explain(p *place, before lock.Status, record string, self *procid.Local, err error) error {
	var held *lock.HeldError
	switch {
	case errors.Is(err, lock.ErrOutdated):
		now, serr := p.status(self.Judge)
		if serr != nil {
			return errors.Join(err, serr)
		}
		if now.Record != "" {
			return fmt.Errorf("%w: now it is %s", err, now.Record)
		}
		return fmt.Errorf("%w: now it is %s, and holds no %q", err, now.State, record)
	case errors.As(err, &held):
		return fmt.Errorf("%w, which lives on this host: end it, or use --force", err)
	case p.mounted && errors.Is(err, syscall.EBUSY):
		// All that the daemon could say was the errno.
		return withCode(exitHeld, fmt.Errorf("%s: %s lives on this host (%s): end it, or use --force", p.path, record, before.Reason))
	case before.State == lock.Odd && !errors.Is(err, os.ErrPermission):
		return withCode(exitOdd, fmt.Errorf("%w; it holds %q: %s", err, before.Entries, before.Hint))
	}
	return err
}

// operator says who runs the command.
func operator() string {
	name := fmt.Sprint(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if sudo := os.Getenv("SUDO_USER"); sudo != "" {
		name += ", by sudo of " + sudo
	}
	return name
}

// tellSyslog tells the system's log what an operator did.
func tellSyslog(text string) error {
	w, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_WARNING, "lockfs")
	if err != nil {
		return err
	}
	return errors.Join(w.Warning(strings.ToValidUTF8(text, "?")), w.Close())
}
