package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func newDoctor() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor SOURCE",
		Short: "Say whether lockfs is safe on this host, and on the file system of SOURCE",
		Long: `Check what lockfs rests on, on this host and in the tree SOURCE, which is to be mounted or
is mounted: by trying it where that is possible, by looking where it is not. What it makes
in SOURCE for that it removes. Run it as root, as the mount, and on each host.

Each check is ok, a warning, or a fault, and says what to do. With --json each is an object
in a line: {"check", "level", "text", "do"}.

Exit 69 if there is a fault.`,
		Args: wants("SOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			findings := append(examineHost(), examineTree(args[0])...)
			show := showFindings
			if asJSON {
				show = encodeFindings
			}
			if err := show(cmd.OutOrStdout(), findings); err != nil {
				return err
			}
			n := 0
			for _, f := range findings {
				if f.Level == levelFault {
					n++
				}
			}
			if n > 0 {
				return withCode(exitUnfit, fmt.Errorf("%d faults: lockfs is not safe, or does not work, here", n))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "for programs: one JSON object a line")
	return cmd
}

// The levels of a finding.
const (
	levelOK      = "ok"
	levelWarning = "warning"
	levelFault   = "fault"
)

// finding is what a check has found.
type finding struct {
	Check string `json:"check"`
	Level string `json:"level"`
	Text  string `json:"text"`
	// Do is what a person can do about it.
	Do string `json:"do,omitempty"`
}

func ok(check, format string, a ...any) finding {
	return finding{Check: check, Level: levelOK, Text: fmt.Sprintf(format, a...)}
}

func warning(check, do, format string, a ...any) finding {
	return finding{check, levelWarning, fmt.Sprintf(format, a...), do}
}

func fault(check, do, format string, a ...any) finding {
	return finding{check, levelFault, fmt.Sprintf(format, a...), do}
}

// showFindings writes findings as a table for people.
func showFindings(w io.Writer, findings []finding) error {
	checks := 0
	for _, f := range findings {
		checks = max(checks, len(f.Check))
	}
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%-7s  %-*s  %s\n", f.Level, checks, f.Check, printable(f.Text))
		if f.Do != "" {
			fmt.Fprintf(&b, "%-7s  %-*s  -> %s\n", "", checks, "", printable(f.Do))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func encodeFindings(w io.Writer, findings []finding) error {
	enc := json.NewEncoder(w)
	for _, f := range findings {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

// unfit returns an error that names what in the tree source would corrupt data
// or keeps every lock from being taken: the part of the doctor's work that is
// quick, for a mount before it serves.
func unfit(source string) error {
	var failed []error
	for _, f := range tryTree(source, false) {
		if f.Level == levelFault {
			failed = append(failed, fmt.Errorf("%s: %s; %s", f.Check, f.Text, f.Do))
		}
	}
	if failed == nil {
		return nil
	}
	return withCode(exitUnfit, fmt.Errorf("the file system of %s is not fit for locks (see lockfs doctor): %w", source, errors.Join(failed...)))
}

// treeMount returns the mount that the directory at path is in.
func treeMount(path string) (*mountEntry, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	ms, err := mounts()
	if err != nil {
		return nil, err
	}
	dev := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	i := slices.IndexFunc(ms, func(m mountEntry) bool { return m.dev == dev })
	if i < 0 {
		return nil, fmt.Errorf("%s: no mount with the device number %s is seen", path, dev)
	}
	return &ms[i], nil
}
