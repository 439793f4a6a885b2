package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

func newStatus() *cobra.Command {
	var asJSON, recursive bool
	var every string
	cmd := &cobra.Command{
		Use:   "status [PATH...]",
		Short: "Say who holds a lock, who waits, whether the holder is alive, and what to do",
		Long: `Say of each PATH who holds its lock, who waits for it on this host, whether the holder is
alive and why, and what to do next. PATH is

  a directory   in a mount of lockfs or in the tree itself; or a file, for its directory
  a mountpoint  of lockfs: all that this host holds or waits for through it
  a tree        with -r: each directory in it that is locked
  missing       all mounts of this host

Nothing is changed. A mount is asked without a request to the file server, so that it
answers while that does not; it tells root, and the user whose mount it is. A directory is
looked at on the server.

With --json each line is one object. Its "kind" is
  mount  mount, source, state (served; dead: its daemon has ended; silent: reason says why),
         host, pid, since, holds, waiters (numbers)
  lock   path, state (free, held, stale, odd), record, host, pid, boot, verdict (alive,
         dead, foreign, unknown), reason, since, cause {program, pid, user, job, mount},
         shared_machine, copied, entries, candidates, hint; and of this host's mount:
         holder {job, cause, since, uses, lost}, waiters [{job, cause, since}]
What is empty is left out. Times are of RFC 3339.

Exit 70 if a lock directory is in a state that lockfs never makes.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			q := query{paths: args, recursive: recursive}
			if recursive && len(args) == 0 {
				return usage("status -r wants a PATH")
			}
			var err error
			if q.self, err = procid.Self(); err != nil {
				return err
			}
			show := showText
			if asJSON {
				show = showJSON
			}
			if every == "" {
				v := q.ask(cmd.Context())
				return errors.Join(show(cmd.OutOrStdout(), v, style{now: time.Now()}), v.err())
			}
			interval, err := parseDuration("--watch", every)
			if err != nil {
				return usage("%w", err)
			}
			return watch(cmd.Context(), cmd.OutOrStdout(), max(interval, leastInterval), q, show, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "for programs: one JSON object a line")
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "each locked directory in the tree PATH")
	cmd.Flags().StringVar(&every, "watch", "", "show it again and again, until Ctrl-C, every INTERVAL (2s)")
	cmd.Flags().Lookup("watch").NoOptDefVal = "2s"
	return cmd
}

// query is what the command was asked.
type query struct {
	self      *procid.Local
	paths     []string
	recursive bool
}

// view is an answer.
type view struct {
	// mounts are the mounts that were asked for.
	mounts []mountView
	// single are the directories that were named, each to be told in full.
	single []lock.Status
	// listed are what was found in mounts and trees.
	listed []lock.Status
	// walked is how many directories of trees were looked at, if any were.
	walked int
	failed []error
}

// ask looks at everything that was asked for.
func (q query) ask(ctx context.Context) *view {
	v := &view{}
	if len(q.paths) == 0 {
		ms, err := mounts()
		if err != nil {
			v.fail(err)
		}
		v.addMounts(served(ms))
		return v
	}
	for _, path := range q.paths {
		if err := q.askPath(ctx, v, path); err != nil {
			v.fail(err)
		}
	}
	v.markCopies()
	return v
}

func (q query) askPath(ctx context.Context, v *view, path string) error {
	if !q.recursive {
		if m, err := mountedAt(path); err != nil {
			return err
		} else if m != nil {
			v.addMounts([]mountEntry{*m})
			return nil
		}
	}
	p, err := openPlace(path)
	if err != nil {
		return err
	}
	defer p.close()
	if !q.recursive {
		st, err := p.status(q.self.Judge)
		if err == nil {
			v.single = append(v.single, st)
		}
		return err
	}
	n, err := walk(ctx, p, func(p *place, traces bool) {
		if !traces {
			return
		}
		st, err := p.status(q.self.Judge)
		switch {
		case err != nil:
			v.fail(err)
		case st.State != lock.Free || st.Holder != nil || len(st.Waiters)+len(st.Candidates) > 0:
			v.listed = append(v.listed, st)
		}
	}, v.fail)
	v.walked += n
	return err
}

// mountedAt returns the mount of lockfs at path, if it is a mountpoint of one.
// The mount is not asked, nor is anything but path's parent.
func mountedAt(path string) (*mountEntry, error) {
	point, err := mountpoint(path)
	if err != nil {
		return nil, nil // what is wrong with path is said by who opens it
	}
	m, err := topMount(point)
	if err != nil || m == nil || !m.ours() || m.root != "/" {
		return nil, err
	}
	return m, nil
}

func (v *view) fail(err error) { v.failed = append(v.failed, err) }

// addMounts asks the daemons of the mounts.
func (v *view) addMounts(ms []mountEntry) {
	for _, a := range askMounts(ms) {
		v.mounts = append(v.mounts, a.view)
		v.listed = append(v.listed, a.locks...)
	}
}

// markCopies marks the locks whose very record stands in two directories: no
// two locks ever have one, so that one is a copy.
func (v *view) markCopies() {
	count := map[string]int{}
	for _, st := range v.listed {
		count[st.Record]++
	}
	for i := range v.listed {
		if st := &v.listed[i]; st.Record != "" && count[st.Record] > 1 && !st.Copied {
			st.Copied = true
			st.Advise(st.Path)
		}
	}
}

// err returns what could not be seen, and what was seen that must not be.
func (v *view) err() error {
	failed := v.failed
	for _, list := range [][]lock.Status{v.single, v.listed} {
		for _, st := range list {
			if st.State == lock.Odd {
				failed = append(failed, fmt.Errorf("%s: %w", printable(st.Path), lock.ErrOdd))
			}
		}
	}
	return errors.Join(failed...)
}

// statusOf looks at the lock that protects path.
func statusOf(path string, judge lock.Judge) (lock.Status, error) {
	p, err := openPlace(path)
	if err != nil {
		return lock.Status{}, err
	}
	defer p.close()
	return p.status(judge)
}

// under returns path, which is in the directory from, as it is found in to.
func under(path, from, to string) string {
	rel, err := filepath.Rel(from, path)
	if err != nil {
		return path
	}
	return filepath.Join(to, rel)
}
