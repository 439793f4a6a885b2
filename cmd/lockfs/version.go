package main

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say what this program was built from",
		Long: `Say which version this is, of which commit and its date, built by which Go for which system, and
with which modules: what a report of a fault should have.`,
		Args: wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return errors.New("this program was built without module information")
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), versions(info))
			return err
		},
	}
}

// versions says what a report of a fault needs: the version in the first line.
func versions(info *debug.BuildInfo) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	own := info.Main.Version
	if own == "" {
		own = "(devel)"
	}
	line("lockfs %s", own)
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if commit := settings["vcs.revision"]; commit != "" {
		changed := ""
		if settings["vcs.modified"] == "true" {
			changed = ", changed since"
		}
		line("commit %s of %s%s", commit, settings["vcs.time"], changed)
	}
	line("built by %s for %s/%s", info.GoVersion, runtime.GOOS, runtime.GOARCH)
	for _, m := range info.Deps {
		version := m.Version
		if m.Replace != nil {
			version = strings.TrimSpace(m.Replace.Path + " " + m.Replace.Version)
		}
		line("with %s %s", m.Path, version)
	}
	return b.String()
}
