package main

import "github.com/spf13/cobra"

func newDemo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show on this machine, without NFS, what lockfs promises",
		Args:  wants(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.OutOrStdout()) },
	}
}
