package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func newDemo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show on this machine, without NFS, what lockfs promises",
		Long: `Play two hosts on this machine that share a scratch tree, and show what happens when both
write in one directory, and when one of them crashes. It takes some seconds, needs root and
/dev/fuse (exit 69 without), and leaves nothing behind. Exit 0 if every promise was seen to
hold.`,
		Args: wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := demoFits(); err != nil {
				return withCode(exitUnfit, fmt.Errorf("the demo cannot run here: %w", err))
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runDemo(ctx, cmd.OutOrStdout())
		},
	}
}

// demoFits returns why the demo cannot run on this machine.
func demoFits() error {
	if os.Geteuid() != 0 {
		return errors.New("it plays hosts in namespaces of their own, and that needs root (sudo)")
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("it needs FUSE: %w (modprobe fuse; in a container: --device /dev/fuse --cap-add SYS_ADMIN)", err)
	}
	f.Close()
	for _, tool := range []string{"nsenter", "mount", "sh"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("it needs %s (apt-get install util-linux): %w", tool, err)
		}
	}
	return nil
}

// runDemo plays the whole story, and clears the stage however it ends.
func runDemo(ctx context.Context, out io.Writer) (err error) {
	s, err := newStage(ctx, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, act := range []func() error{s.writer, s.waiting, s.reading, s.handover, s.crash, s.recovery, s.powerCut, s.comeback, s.curtain} {
		if err := act(); err != nil {
			return fmt.Errorf("%w\nwhat the daemons said last:\n%s", err, s.logs())
		}
	}
	s.say("")
	s.say("Every promise was seen to hold.")
	return nil
}
