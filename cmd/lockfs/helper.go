package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// mount(8) and umount(8) run a helper for each type of file system. This
// program is all of them, by its name: mount.lockfs, mount.fuse.lockfs,
// umount.lockfs and umount.fuse.lockfs; and mount.fuse(8) runs it as a mount
// helper without a verb.

// The exit codes of mount(8), which its helpers end with.
const (
	helperUsage       = 1
	helperInterrupted = 8
	helperFailed      = 32
)

// helper is one of mount(8)'s or umount(8)'s.
type helper func(args []string, stderr io.Writer) error

// helperOf returns the helper that the arguments of the program ask for, and
// its own arguments; nil if they ask for a command.
func helperOf(argv []string) (helper, []string) {
	switch filepath.Base(argv[0]) {
	case "mount.lockfs", "mount.fuse.lockfs":
		return mountHelper, argv[1:]
	case "umount.lockfs", "umount.fuse.lockfs":
		return umountHelper, argv[1:]
	}
	// No command has a name with a slash.
	if len(argv) > 2 && filepath.IsAbs(argv[1]) && filepath.IsAbs(argv[2]) {
		return mountHelper, argv[1:]
	}
	return nil, nil
}

// helperCode is the exit code that mount(8) has for err.
func helperCode(err error) int {
	if err == nil {
		return exitDone
	}
	switch exitCode(err) {
	case exitUsage:
		return helperUsage
	case exitInterrupted:
		return helperInterrupted
	default:
		return helperFailed
	}
}

// helperFlags are those that mount(8) and umount(8) know.
type helperFlags struct {
	*pflag.FlagSet
	verbose   bool
	namespace string
}

func newHelperFlags(name string) *helperFlags {
	f := &helperFlags{FlagSet: pflag.NewFlagSet(name, pflag.ContinueOnError)}
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	f.BoolVarP(&f.verbose, "verbose", "v", false, "")
	f.BoolP("no-mtab", "n", false, "") // there is none any more
	f.StringP("types", "t", "", "")    // it is ours, or we would not be asked
	f.StringVarP(&f.namespace, "namespace", "N", "", "")
	return f
}

// read reads the arguments, which must be as many as the words of what.
func (f *helperFlags) read(args []string, what string) error {
	if err := f.Parse(args); err != nil {
		return withCode(exitUsage, err)
	}
	if f.namespace != "" {
		return usage("lockfs does not enter other namespaces (-N): run it there (nsenter --mount=%s)", f.namespace)
	}
	if want := len(strings.Fields(what)); f.NArg() != want {
		return usage("%s wants %s, not %d arguments", f.Name(), what, f.NArg())
	}
	return nil
}

// mountHelper is `mount.lockfs SOURCE MOUNTPOINT [-sfnv] [-o OPTIONS]`.
func mountHelper(args []string, stderr io.Writer) error {
	f := newHelperFlags("mount.lockfs")
	sloppy := f.BoolP("sloppy", "s", false, "")
	fake := f.BoolP("fake", "f", false, "")
	values := f.StringArrayP("options", "o", nil, "")
	if err := f.read(args, "SOURCE MOUNTPOINT"); err != nil {
		return err
	}
	var unknown func(string)
	if *sloppy {
		unknown = func(word string) { fmt.Fprintf(stderr, "lockfs: there is no option %q: ignored\n", word) }
	}
	o, err := parseOptions(*values, unknown)
	if err != nil {
		return err
	}
	r, err := newMountRequest(f.Arg(0), f.Arg(1), o, defaultLogFlags)
	switch {
	case err != nil:
		return err
	case *fake:
		return nil
	case o.remount:
		return tellRemount(r.target, *values, stderr)
	}
	err = background(r)
	if err == nil && f.verbose {
		fmt.Fprintf(stderr, "lockfs: %s mounted on %s\n", r.source, r.target)
	}
	return err
}

// tellRemount is remount, and tells what could not be changed.
func tellRemount(target string, values []string, stderr io.Writer) error {
	left, err := remount(target, values)
	if err == nil && len(left) > 0 {
		fmt.Fprintln(stderr, "lockfs:", leftText(left))
	}
	return err
}

// umountHelper is `umount.lockfs MOUNTPOINT [-flnrv]`.
func umountHelper(args []string, stderr io.Writer) error {
	f := newHelperFlags("umount.lockfs")
	var how umountHow
	f.BoolVarP(&how.force, "force", "f", false, "")
	f.BoolVarP(&how.lazy, "lazy", "l", false, "")
	readOnly := f.BoolP("read-only", "r", false, "")
	if err := f.read(args, "MOUNTPOINT"); err != nil {
		return err
	}
	how.timeout = umountTimeout
	err := umount(context.Background(), f.Arg(0), how)
	if *readOnly && exitCode(err) == exitHeld {
		rerr := tellRemount(f.Arg(0), []string{"ro"}, stderr)
		if rerr == nil {
			fmt.Fprintf(stderr, "lockfs: %v: mounted read-only instead\n", err)
			return nil
		}
		err = errors.Join(err, rerr)
	}
	if err == nil && f.verbose {
		fmt.Fprintf(stderr, "lockfs: %s unmounted\n", f.Arg(0))
	}
	return err
}
