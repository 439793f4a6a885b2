package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func newUmount() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "umount MOUNTPOINT",
		Short: "Unmount a tree, and return when its locks are gone",
		Long: `Unmount the tree that is mounted at MOUNTPOINT and return when its daemon has ended: what was
written is on the file server then, and no lock of this mount is left. While a program
uses the mount it stays mounted (exit 75).`,
		Args: wants("MOUNTPOINT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return umount(ctx, args[0])
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 2*closeBound, "how long to wait for the daemon to end")
	return cmd
}

// umount unmounts what is mounted at name and waits for the daemon's end.
func umount(ctx context.Context, name string) error {
	point, err := mountpoint(name)
	if err != nil {
		return err
	}
	m, err := topMount(point)
	switch {
	case err != nil:
		return err
	case m == nil:
		return usage("%s is not mounted", point)
	case !m.ours():
		return usage("%s is a mount of type %s, not of lockfs", point, m.fsType)
	}
	// Before the unmount: nothing leads from the mount to its daemon later.
	daemon, err := findDaemon(ctx, m.dev)
	if err != nil {
		return fmt.Errorf("ask for the daemon of %s: %w", point, err)
	}
	if daemon != nil {
		defer daemon.Close()
	}
	if err := unmountAt(point, unix.UMOUNT_NOFOLLOW, ""); err != nil {
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
