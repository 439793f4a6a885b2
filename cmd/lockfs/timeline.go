package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockfs/lockfs/internal/timeline"
)

func newTimeline() *cobra.Command {
	var out string
	var most int
	cmd := &cobra.Command{
		Use:   "timeline LOG...",
		Short: "Draw who held and who waited for which directory when",
		Long: `Draw, from the logs of one or several hosts, who held and who waited for the lock of which
directory when, as one HTML page that any browser shows without a network, or as one SVG
picture if the output's name ends in .svg.

LOG is what lockfs mount has logged, as text or JSON, or what journalctl -o json or
-o short-iso-precise shows of it; "-" is the standard input, and HOST=LOG gives the name of the
host for lines that do not say it. At --log-level info the log has what lasts some seconds; at
debug each take and release.

Times are drawn as logged. Where the order of two hosts' entries is certain and their times say
otherwise, the page says by how much their clocks differ at least.`,
		Args: wants("LOG..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			if most < 0 {
				return usage("--most=%d is less than nothing", most)
			}
			var all []timeline.Entry
			for _, arg := range args {
				entries, err := readLog(cmd.InOrStdin(), arg)
				if err != nil {
					return err
				}
				all = append(all, entries...)
			}
			h := timeline.Tell(all)
			draw := h.Page
			if strings.HasSuffix(out, ".svg") {
				draw = h.SVG
			}
			return writeOut(cmd.OutOrStdout(), out, func(w io.Writer) error { return draw(w, most) })
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "-", `the page's file; "-" is the standard output`)
	cmd.Flags().IntVar(&most, "most", 100, "how many directories are drawn at most, those that were waited for longest; 0 for all")
	return cmd
}

// readLog reads the log that an argument names.
func readLog(stdin io.Reader, arg string) ([]timeline.Entry, error) {
	if arg == "-" {
		return parseLog(stdin, "the standard input", "an unnamed host")
	}
	f, err := os.Open(arg)
	host, name := strings.TrimSuffix(filepath.Base(arg), filepath.Ext(arg)), arg
	if errors.Is(err, fs.ErrNotExist) {
		if h, file, found := strings.Cut(arg, "="); found {
			host, name = h, file
			f, err = os.Open(file)
		}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseLog(f, name, host)
}

func parseLog(r io.Reader, name, host string) ([]timeline.Entry, error) {
	entries, err := timeline.Read(r, host)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(entries) == 0 {
		return nil, usage("%s: no line of it is of a log of lockfs mount", name)
	}
	return entries, nil
}

// writeOut has f write to the named file, or to w for "-".
func writeOut(w io.Writer, name string, f func(io.Writer) error) error {
	if name == "-" {
		return f(w)
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(f(file), file.Close())
}
