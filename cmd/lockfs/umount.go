package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// umountTimeout is longer than a daemon that was told to end takes.
const umountTimeout = 2 * closeBound

// umountHow says how to unmount.
type umountHow struct {
	timeout time.Duration // how long to wait for the daemon's end
	lazy    bool          // though it is in use, and without waiting
	force   bool          // though it does not answer (MNT_FORCE of umount(2))
}

func newUmount() *cobra.Command {
	var how umountHow
	cmd := &cobra.Command{
		Use:   "umount MOUNTPOINT",
		Short: "Unmount a tree, and return when its locks are gone",
		Long: `Unmount the tree that is mounted at MOUNTPOINT and return when its daemon has ended: what was
written is on the file server then, and no lock of this mount is left. While a program
uses the mount it stays mounted (exit 75). --lazy takes it out of the tree all the same and
waits for nothing: who uses it keeps it, and its locks.`,
		Args: wants("MOUNTPOINT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return umount(cmd.Context(), args[0], how)
		},
	}
	cmd.Flags().DurationVar(&how.timeout, "timeout", umountTimeout, "how long to wait for the daemon to end")
	cmd.Flags().BoolVarP(&how.lazy, "lazy", "l", false, "detach the mount though it is in use")
	return cmd
}

// oursAt returns the mount of lockfs that is to be seen at name, and its
// absolute path.
func oursAt(name string) (point string, m *mountEntry, err error) {
	if point, err = mountpoint(name); err != nil {
		return "", nil, err
	}
	m, err = topMount(point)
	switch {
	case err != nil:
		return "", nil, err
	case m == nil:
		return "", nil, usage("%s is not mounted", point)
	case !m.ours():
		return "", nil, usage("%s is a mount of type %s, not of lockfs", point, m.fsType)
	}
	return point, m, nil
}

// umount unmounts what is mounted at name and waits for the daemon's end, or
// for a signal.
func umount(ctx context.Context, name string, how umountHow) error {
	point, m, err := oursAt(name)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, how.timeout)
	defer cancel()
	if how.lazy {
		return detach(point)
	}
	// Before the unmount: nothing leads from the mount to its daemon later.
	daemon, err := findDaemon(ctx, m.dev)
	if err != nil {
		return fmt.Errorf("ask for the daemon of %s: %w", point, err)
	}
	if daemon != nil {
		defer daemon.Close()
	}
	flags := unix.UMOUNT_NOFOLLOW
	if how.force {
		flags |= unix.MNT_FORCE
	}
	if err := unmountAt(point, flags, ""); err != nil {
		return fmt.Errorf("unmount %s: %w", point, err)
	}
	if daemon == nil {
		return nil
	}
	if err := awaitEnd(ctx, daemon); err != nil {
		return withCode(exitIO, fmt.Errorf("%s is unmounted, but its daemon still writes or releases locks: %w", point, err))
	}
	return nil
}

// unmountAt unmounts what is at point, by the system call or, for a user who
// may not make it, by fusermount3 with the extra flag.
func unmountAt(point string, flags int, extra string) error {
	err := unix.Unmount(point, flags)
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	args := []string{"-u"}
	if extra != "" {
		args = append(args, extra)
	}
	out, err := exec.Command("fusermount3", append(args, "--", point)...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return withCode(exitUnfit, errors.New("another user than root needs fusermount3 for this: apt install fuse3"))
	}
	if err != nil {
		text := strings.TrimSpace(string(out))
		// fusermount3 has one exit code for everything, so the text tells.
		if strings.Contains(text, "busy") {
			return fmt.Errorf("%w: %s", unix.EBUSY, text)
		}
		return fmt.Errorf("fusermount3: %w: %s", err, text)
	}
	return nil
}
