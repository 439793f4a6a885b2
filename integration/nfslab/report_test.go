package nfslab_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lockfs/lockfs/integration/nfslab"
)

// parts are those of the document of results, in order; those of the matrix come
// before them.
var parts = []string{"Faults", "Faults through the mount", "Server failures under load", "Clones", "Clones through the mount", "Soft mounts",
	"Waiting, kernel 6.1", "Waiting, kernel 6.12", "A pipeline", "Programs that know of no lock", "Figures", "Figures of the mount", "Lingering"}

func init() {
	var mounts []string
	for _, config := range labs {
		mounts = append(mounts, mountsOf(config))
	}
	parts = append(mounts, parts...)
}

// mountsOf is the title of a part of the matrix.
func mountsOf(config nfslab.Config) string { return "Mounts of " + labName(config) }

// report tells of a part, also of what failed, and puts it into the document of
// results if there is to be one.
func report(t *testing.T, title, text string) {
	t.Helper()
	if !slices.Contains(parts, title) {
		t.Fatalf("the document has no part %q", title)
	}
	t.Logf("%s:\n%s", title, text)
	if *results == "" {
		return
	}
	if err := replacePart(*results, title, text); err != nil {
		t.Error(err)
	}
}

const head = `# What was seen in the laboratory of NFS hosts

Written by the tests themselves; a part is replaced when its test is run again:

    go test ./integration/nfslab -timeout 4h -args -nfslab.matrix -nfslab.results RESULTS.md

Emulated machines with Debian 12's kernels (6.1 unless another is named), kernel nfsd, sync exports, lease and grace period 10 s.
Times are of emulated processors, two to four of which shared two real ones with other work: they compare, and say little else.

Of the mounts, the columns up to "fresh list" are asserted. What a stat from cache says, or where a path leads that was walked
before ("old ...", "replaced parent"), is seen only: "stale" where it is not as the server has it. "take ms" is of the first take
in a directory. "removed" is a directory that is removed on the server under a holder and a waiter (of re-exports on hard mounts only). "counted" is two hosts' read,
add and write under the lock, 15 times each.
`

// replacePart replaces a part of the document, or adds it in its place.
func replacePart(path, title, text string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	texts := map[string]string{}
	for _, part := range strings.Split(string(old), "\n## ")[1:] {
		title, text, _ := strings.Cut(part, "\n")
		texts[title] = text
	}
	texts[title] = text
	var b strings.Builder
	b.WriteString(head)
	for _, title := range parts {
		if text := strings.TrimSpace(texts[title]); text != "" {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", title, text)
		}
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
