package integration

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var toolsWrite = flag.String("tools.write", "", "run all tools, a missing one being a failure, and write what came of it to this file (../docs/tools.md)")

// toolBound is how long one tool may take.
const toolBound = 5 * time.Minute

const toolsPage = "../docs/tools.md"

const toolsHead = `# Tools that were compared

Each tool was run twice, in a directory of the tree itself and in the same one
through the mount, at one path: the same output, exit code, names, types, modes,
owners, sizes and contents must come of it, and the same times of modification
where the tool sets them. No tool was changed or told of lockfs. What the scripts
are is in integration/tools_list_test.go; this page is written by

    go test ./integration -run TestTools -tools.write ../docs/tools.md

as root on Debian 12. What can't be alike is in [differences.md](differences.md).

| tool | version | what was run | result |
|---|---|---|---|
`

// Tools work through the mount as on the tree.
func TestTools(t *testing.T) {
	all := *toolsWrite != ""
	w := newWorld(t)
	rows := toolsHead
	for i, tool := range tools {
		t.Run(tool.name, func(t *testing.T) {
			switch {
			case all:
				tool.need(t, t.Fatal)
			case !tool.ci:
				t.Skip("takes long, or large packages: runs with -tools.write")
			default:
				tool.need(t, func(why ...any) { unable(t, fmt.Sprint(why...)) })
			}
			sub := *w
			sub.t = t
			dir := fmt.Sprintf("D/%d", i)
			want, got := sub.tool(w.tree, dir+".native", tool), sub.tool(w.mnt, dir+".mounted", tool)
			if !strings.Contains(want, tool.says) {
				t.Errorf("without the mount it does not say %q:\n%s", tool.says, want)
			}
			if got != want {
				t.Error(firstDifference(got, want))
			}
		})
		if all && !t.Failed() {
			rows += fmt.Sprintf("| %s | %s | %s | alike |\n", tool.name, w.versionOf(tool), tool.did)
		}
	}
	w.nothingLeft()
	if all && !t.Failed() {
		if err := os.WriteFile(*toolsWrite, []byte(rows), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// docs/tools.md tells of the tools that are in the list, and of no others.
func TestToolsPage(t *testing.T) {
	page, err := os.ReadFile(toolsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, rows, ok := strings.Cut(string(page), toolsHead)
	if !ok {
		t.Fatalf("%s does not begin as this test has it", toolsPage)
	}
	lines := strings.Split(strings.TrimSpace(rows), "\n")
	if len(lines) != len(tools) {
		t.Fatalf("%s has %d tools, the list %d", toolsPage, len(lines), len(tools))
	}
	for i, tool := range tools {
		cells := strings.Split(lines[i], " | ")
		if len(cells) != 4 || cells[0] != "| "+tool.name || cells[2] != tool.did {
			t.Errorf("%s has %q where the list has %q", toolsPage, lines[i], tool.name)
		}
	}
}

// need calls missing if a program of the tool is not there.
func (tool tool) need(t *testing.T, missing func(...any)) {
	t.Helper()
	for _, program := range tool.programs {
		if _, err := exec.LookPath(program); err != nil {
			missing("needs " + program + ": apt-get install " + tool.packages)
		}
	}
}

// tool runs the tool in the directory dir of root, which is new, and returns
// what it said, how it ended, and what it left in the tree. Both runs are at
// one path, since tools write down where they are.
func (w *world) tool(root, dir string, tool tool) string {
	w.t.Helper()
	if err := os.Mkdir(filepath.Join(w.tree, dir), 0o755); err != nil {
		w.t.Fatal(err)
	}
	here, home := filepath.Join(filepath.Dir(w.tree), "here"), w.t.TempDir()
	if err := os.MkdirAll(here, 0o755); err != nil {
		w.t.Fatal(err)
	}
	said := w.shell(toolBound, "unshare", "-m", "--propagation", "private", "sh", "-c",
		`mount --bind "$0" "$1" && cd "$1" && export LC_ALL=C TZ=UTC HOME="$2" && umask 022 && eval "$3"`,
		filepath.Join(root, dir), here, home, tool.script)
	w.nothingLeft()
	said = strings.ReplaceAll(said, here, "HERE")
	said += w.shell(bound, "sh", "-c", `cd "$0" && LC_ALL=C && export LC_ALL && find . ! -type d -printf '%P %y %m %U %G %s %l\n' -o -printf '%P %y %m %U %G\n' | sort; find . -type f -exec sha1sum {} + | sort`, filepath.Join(w.tree, dir))
	if tool.times != "" {
		said += w.shell(bound, "sh", "-c", `cd "$0" && find `+tool.times+` -printf '%p %T@\n' | LC_ALL=C sort`, filepath.Join(w.tree, dir))
	}
	return said
}

// versionOf returns what the tool says of its version.
func (w *world) versionOf(tool tool) string {
	w.t.Helper()
	said := w.shell(bound, "sh", "-c", `for c in 1; do { `+tool.version+`; } 2>&1; done`)
	line, _, _ := strings.Cut(strings.TrimSpace(said), "\n")
	return strings.ReplaceAll(line, "|", "/")
}

// firstDifference shows where two texts part.
func firstDifference(got, want string) string {
	g, n := strings.Split(got, "\n"), strings.Split(want, "\n")
	i := 0
	for i < min(len(g), len(n)) && g[i] == n[i] {
		i++
	}
	const lines = 12
	show := func(all []string) string { return strings.Join(all[i:min(i+lines, len(all))], "\n") }
	return fmt.Sprintf("from line %d on, through the mount:\n%s\nwithout:\n%s", i+1, cmp.Or(show(g), "(nothing)"), cmp.Or(show(n), "(nothing)"))
}
