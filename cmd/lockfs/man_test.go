package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// handPages are the manual pages that are written by hand.
const handPages = "../../packaging/man"

// Each command has a page, and mandoc has nothing to say against any.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	pages := manPages(newCommand(), "lockfs v1", time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC))
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range newCommand().Commands() {
		if page := pages["lockfs-"+c.Name()+".1"]; c.IsAvailableCommand() && c.Name() != "help" && !strings.Contains(page, manText(c.Long[:20])) {
			t.Errorf("the page of %s does not describe it: %q", c.Name(), page)
		}
	}
	if !strings.Contains(pages["lockfs.1"], `lockfs\-mount\fR(1)`) {
		t.Error("lockfs(1) does not lead to lockfs-mount(1)")
	}
	if _, err := exec.LookPath("mandoc"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("needs mandoc: apt-get install mandoc")
		}
		t.Skip("needs mandoc: apt-get install mandoc")
	}
	hand, err := filepath.Glob(filepath.Join(handPages, "*.[178]"))
	if err != nil || len(hand) < 2 {
		t.Fatalf("pages by hand: %q, %v", hand, err)
	}
	all, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(hand, all...) {
		// Its exit status tells of each warning.
		if out, err := exec.Command("mandoc", "-Tlint", "-Wwarning", page).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", page, err, out)
		}
	}
}

// mount.lockfs(8) has every option.
func TestManPageHasTheOptions(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(handPages, "mount.lockfs.8"))
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(page))
	has := map[string]bool{}
	for _, w := range words {
		has[w] = true
	}
	want := append([]string{"debug", "allow_other", "remount"}, valueOptions...)
	for _, f := range flagOptions {
		want = append(want, f.on, f.off)
	}
	for _, w := range want {
		if !has[w] {
			t.Errorf("the page has no option %s", w)
		}
	}
}

func TestManText(t *testing.T) {
	p := manPage{title: "x"}
	p.section("DESCRIPTION")
	p.prose("One\n.two\n\nList:\n  a \\ 'b'\n  c\nthree")
	want := ".SH \"DESCRIPTION\"\nOne\n\\&.two\n.PP\nList:\n.RS \"2\"\n.nf\na \\e \\(aqb\\(aq\nc\n.fi\n.RE\n.PP\nthree\n"
	if got := p.b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p = manPage{title: "x"}
	p.synopsis(&cobra.Command{Use: "do THIS MORE..."})
	if got := p.b.String(); got != "\\fBdo\\fR \\fITHIS\\fR \\fIMORE\\fR\\&...\n" {
		t.Errorf("%q", got)
	}
}
