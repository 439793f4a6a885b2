// Command lockfs mounts a directory tree so that writing in each of its
// directories happens only under that directory's lock, which every host that
// shares the tree respects. See README.md.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	// mount(8) and init systems may give none, and sync and fusermount3 are needed.
	if os.Getenv("PATH") == "" {
		os.Setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	if help, args := helperOf(os.Args); help != nil {
		err := help(args, os.Stderr)
		tell(err)
		os.Exit(helperCode(err))
	}
	err := newCommand().Execute()
	tell(err)
	os.Exit(exitCode(err))
}

// tell says why the command failed, unless that was told already.
func tell(err error) {
	if err != nil && !errors.Is(err, errTold) {
		fmt.Fprintln(os.Stderr, "lockfs:", err)
	}
}

// newCommand returns the command with all of its subcommands.
func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "lockfs",
		Short: "A lock per directory for programs that know of none",
		Long: `lockfs mounts a tree that several hosts share, on NFS as a rule, so that writing in a
directory happens only under that directory's lock. Programs need no change: they
write through the mount, and where two jobs meet, one of them waits. Reading never does.

Exit codes: 0 done; 64 usage; 69 this machine or file system is not fit; 70 a lock directory is in a
state that lockfs never makes; 73 the mount cannot be made; 74 an I/O error, or an unknown
outcome; 75 held, in use or changed hands; 76 the lock was lost; 77 not permitted; 130 interrupted. As a helper
of mount(8) (mount.lockfs, mount.fuse.lockfs, umount.fuse.lockfs) it has mount(8)'s: 1 usage,
8 interrupted, 32 failed.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("there is no command %q; see lockfs --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(cmd.ErrOrStderr())
			return withCode(exitUsage, fmt.Errorf("which command?\n\n%s", strings.TrimSpace(cmd.UsageString())))
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return withCode(exitUsage, err) })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		newMount(),
		newUmount(),
		newRun(),
		newStatus(),
		newRecover(),
		newBreak(),
		newTimeline(),
		newDoctor(),
		newDemo(),
		newVersion(),
		newMan(),
	)
	return root
}

// usage returns an error that ends the command with exitUsage.
func usage(format string, a ...any) error { return withCode(exitUsage, fmt.Errorf(format, a...)) }

// wants returns a check that the arguments are those of the given names; a
// last name with "..." takes one or more.
func wants(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		many := len(names) > 0 && strings.HasSuffix(names[len(names)-1], "...")
		if len(args) == len(names) || many && len(args) > len(names) {
			return nil
		}
		return usage("%s wants %d argument(s) (%s), not %d; see %s --help",
			cmd.CommandPath(), len(names), strings.Join(names, " "), len(args), cmd.CommandPath())
	}
}
