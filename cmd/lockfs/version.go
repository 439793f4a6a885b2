package main

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which versions of lockfs, go-fuse and Go this is",
		Args:  wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return errors.New("this program was built without module information")
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versions(info))
			return err
		},
	}
}

// versions says in one line what a bug report needs.
func versions(info *debug.BuildInfo) string {
	fuse := "not linked"
	for _, m := range info.Deps {
		if m.Path == "github.com/hanwen/go-fuse/v2" {
			fuse = m.Version
		}
	}
	own := info.Main.Version
	if own == "" {
		own = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && own == "(devel)" {
			own += " " + s.Value
		}
	}
	return fmt.Sprintf("lockfs %s, go-fuse %s, %s", own, fuse, info.GoVersion)
}
