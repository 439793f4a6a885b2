package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

func newStatus() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status PATH...",
		Short: "Say who holds a directory's lock, who waits, and whether the holder is alive",
		Long: `Say of each PATH who holds its lock: PATH is a directory in a lockfs mount or in the tree
itself, or a file, whose lock is its directory's. In a mount the jobs of this host that wait
are named too. Nothing is changed. Exit 70 if a lock directory is in a state that lockfs
never makes.`,
		Args: wants("PATH..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			self, err := procid.Self()
			if err != nil {
				return err
			}
			var failed []error
			for _, path := range args {
				st, err := statusOf(path, self.Judge)
				if err == nil {
					err = printStatus(cmd.OutOrStdout(), st, asJSON)
				}
				if err == nil && st.State == lock.Odd {
					err = fmt.Errorf("%s: %w", st.Path, lock.ErrOdd)
				}
				if err != nil {
					failed = append(failed, err)
				}
			}
			return errors.Join(failed...)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a path, each in a line")
	return cmd
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

// printStatus writes a status for people, or as JSON for programs.
func printStatus(w io.Writer, st lock.Status, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(st)
	}
	_, err := io.WriteString(w, statusText(st, time.Now()))
	return err
}

// statusText says a status in words; now is what ages are counted to.
func statusText(st lock.Status, now time.Time) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	switch st.State {
	case lock.Held, lock.Stale:
		line("%s: %s, by process %d of host %s%s", st.Path, st.State, st.PID, st.Host, since(st.Since, now))
		if who := causeText(st.Cause); who != "" {
			line("  taken for: %s", who)
		}
		line("  the holder is %s: %s", st.Verdict, st.Reason)
	case lock.Odd:
		line("%s: odd: %s", st.Path, st.Reason)
		for _, e := range st.Entries {
			line("  in the lock directory: %q", e)
		}
	default:
		line("%s: %s", st.Path, st.State)
	}
	if h := st.Holder; h != nil {
		lost := ""
		if h.Lost {
			lost = ", LOST: it was taken away"
		}
		line("  held here by %s%s, in use %d times%s", jobText(h.Job, h.Cause), since(h.Since, now), h.Uses, lost)
	}
	for _, w := range st.Waiters {
		line("  waiting here: %s%s", jobText(w.Job, w.Cause), since(w.Since, now))
	}
	for _, c := range st.Candidates {
		line("  not published: %s", c)
	}
	if st.Hint != "" {
		line("  %s", st.Hint)
	}
	return b.String()
}

// since says when something began, and how long ago by this host's clock.
func since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf(", since %s (%v)", t.Local().Format(time.DateTime), max(0, now.Sub(t)).Round(time.Second))
}

// causeText says who made a lock be taken.
func causeText(c lock.Cause) string {
	var words []string
	if c.Program != "" || c.PID != 0 {
		words = append(words, fmt.Sprintf("%s (pid %d)", c.Program, c.PID))
	}
	if c.User != "" {
		words = append(words, "user "+c.User)
	}
	if c.Job != "" {
		words = append(words, c.Job)
	}
	if c.Mount != "" {
		words = append(words, "through "+c.Mount)
	}
	return strings.Join(words, ", ")
}

// jobText says which job it is, and what of it.
func jobText(job string, c lock.Cause) string {
	c.Job = job
	return causeText(c)
}
