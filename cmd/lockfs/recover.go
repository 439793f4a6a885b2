package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

func newRecover() *cobra.Command {
	var only bool
	cmd := &cobra.Command{
		Use:   "recover PATH...",
		Short: "Free the locks that dead processes of this host have left in a tree",
		Long: `Free each lock that a dead process of this host has left in the directory PATH or in any
directory below it, in a mount or in the tree itself, and remove what else such have left
there. A lock whose holder lives, or is of another host, is left alone, so that this is
always safe; and it is never needed: the next write in a directory does the same. Mount
points and symbolic links below PATH are not followed.

Run it as root. In the tree itself it must have the identity that the mount has: the same
LOCKFS_HOST_ID, if one is set.

Exit 70 if a lock directory is in a state that lockfs never makes, 77 if something is
stale and may not be removed.`,
		Args: wants("PATH..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			self, err := procid.Self()
			if err != nil {
				return err
			}
			r := recovery{self: self, out: cmd.OutOrStdout()}
			for _, path := range args {
				r.run(cmd.Context(), path, only)
			}
			return r.report()
		},
	}
	cmd.Flags().BoolVarP(&only, "directory", "d", false, "each PATH itself only, nothing below it")
	return cmd
}

// recovery is a run of the command.
type recovery struct {
	self *procid.Local
	out  io.Writer

	dirs, freed, swept, held, foreign int
	// namesake: a foreign lock bears this host's name.
	namesake bool
	failed   []error
}

// run recovers what is at path and, unless only, below it.
func (r *recovery) run(ctx context.Context, path string, only bool) {
	p, err := openPlace(path)
	if err != nil {
		r.fail(err)
		return
	}
	defer p.close()
	if only {
		r.dirs++
		r.visit(p, true)
		return
	}
	n, err := walk(ctx, p, r.visit, r.fail)
	r.dirs += n
	if err != nil {
		r.fail(err)
	}
}

func (r *recovery) fail(err error) { r.failed = append(r.failed, err) }

// visit recovers one directory.
func (r *recovery) visit(p *place, traces bool) {
	if !traces {
		return
	}
	before, err := p.status(r.self.Judge)
	if err != nil {
		r.fail(err)
		return
	}
	switch before.State {
	case lock.Odd:
		r.fail(fmt.Errorf("%s: %w: %s; %s", p.path, lock.ErrOdd, before.Reason, before.Hint))
		return
	case lock.Held:
		r.held++
		if before.Verdict == "foreign" {
			r.foreign++
			r.namesake = r.namesake || before.Host == r.self.ID().Host
		}
	}
	if err := p.recover(r.self); err != nil {
		r.fail(err)
		return
	}
	after, err := p.status(r.self.Judge)
	if err != nil {
		r.fail(err)
		return
	}
	if before.State == lock.Stale && after.Record != before.Record {
		r.freed++
		r.say("%s: recovered from process %d of host %s: %s", p.path, before.PID, before.Host, before.Reason)
	}
	if n := len(before.Candidates) - len(after.Candidates); n > 0 && before.State != lock.Held {
		r.swept += n
		r.say("%s: removed what %d takes of dead processes had left", p.path, n)
	}
}

func (r *recovery) say(format string, a ...any) { fmt.Fprintf(r.out, format+"\n", a...) }

// report says what was done, and returns what could not be.
func (r *recovery) report() error {
	r.say("%d directories: %d locks recovered, %d held (%d by other hosts)", r.dirs, r.freed, r.held, r.foreign)
	if r.namesake {
		r.say("some are of a host with this host's name and another identity: if its mounts run with %s set, run this with the same", procid.EnvHostID)
	}
	return errors.Join(r.failed...)
}
