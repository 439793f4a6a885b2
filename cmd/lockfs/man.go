package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newMan is for packages, and for those who have none.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIRECTORY",
		Short:  "Write the manual pages of this program",
		Long:   `Write lockfs(1) and a manual page for each command into the directory.`,
		Hidden: true,
		Args:   wants("DIRECTORY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			version, date := "lockfs", time.Now()
			if info, ok := debug.ReadBuildInfo(); ok {
				version += " " + info.Main.Version
				for _, s := range info.Settings {
					if t, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
						date = t
					}
				}
			}
			for name, text := range manPages(cmd.Root(), version, date) {
				if err := os.WriteFile(filepath.Join(args[0], name), []byte(text), 0o644); err != nil {
					return withCode(exitCreate, err)
				}
			}
			return nil
		},
	}
}

// manPages returns the manual pages of a command and of those below it by the
// names of their files, in the language of man(7). The library's own generator
// reads a description as Markdown, which those of this program are not.
func manPages(root *cobra.Command, version string, date time.Time) map[string]string {
	pages := map[string]string{}
	all := []*cobra.Command{root}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			all = append(all, c)
		}
	}
	for _, c := range all {
		p := manPage{title: strings.ReplaceAll(c.CommandPath(), " ", "-")}
		// The date is not quoted: formatters read it.
		p.line(fmt.Sprintf(`.TH "%s" 1 %s "%s"`, manText(strings.ToUpper(p.title)), date.UTC().Format(time.DateOnly), manText(version)))
		p.section("NAME")
		p.line(p.title + ` \- ` + manText(manFirst(c.Short)))
		p.section("SYNOPSIS")
		p.synopsis(c)
		p.section("DESCRIPTION")
		p.prose(c.Long)
		p.commands(all[1:], c == root)
		p.options(c)
		p.section("SEE ALSO")
		p.seeAlso(c == root)
		pages[p.title+".1"] = p.b.String()
	}
	return pages
}

// manFirst is a sentence as it goes on after a dash.
func manFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

type manPage struct {
	title string
	b     strings.Builder
}

// macro writes a request with its arguments.
func (p *manPage) macro(name string, args ...string) {
	p.b.WriteString("." + name)
	for _, a := range args {
		fmt.Fprintf(&p.b, ` "%s"`, strings.ReplaceAll(manText(a), `"`, `\(dq`))
	}
	p.b.WriteString("\n")
}

func (p *manPage) section(name string) { p.macro("SH", name) }

// line writes a line of text that is quoted already.
func (p *manPage) line(s string) { p.b.WriteString(s + "\n") }

// manText is the text so that a formatter shows it as it is.
func manText(s string) string {
	s = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `"`, `\(dq`, `'`, `\(aq`, "`", "\\(ga", `^`, `\(ha`, `~`, `\(ti`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}

func (p *manPage) synopsis(c *cobra.Command) {
	use := c.CommandPath()
	if c.HasAvailableSubCommands() {
		p.line(`\fB` + manText(use) + `\fR \fICOMMAND\fR [...]`)
		return
	}
	text := `\fB` + manText(use) + `\fR`
	if c.HasAvailableLocalFlags() {
		text += ` [\fIOPTIONS\fR]`
	}
	for _, word := range strings.Fields(c.Use)[1:] {
		if strings.HasPrefix(word, "[") {
			text += " " + manText(word)
			continue
		}
		name := strings.TrimSuffix(word, "...")
		text += ` \fI` + manText(name) + `\fR` + manText(word[len(name):])
	}
	p.line(text)
}

// prose writes paragraphs; lines that begin with spaces stay as they are.
func (p *manPage) prose(text string) {
	asIs, begun := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		indented := strings.HasPrefix(line, "  ")
		if asIs && !indented {
			p.macro("fi")
			p.macro("RE")
		}
		switch {
		case line == "":
			begun = false
		case indented && !asIs:
			p.macro("RS", "2")
			p.macro("nf")
			p.line(manText(line[2:]))
		case indented:
			p.line(manText(line[2:]))
		default:
			if !begun && p.b.Len() > 0 && !strings.HasSuffix(p.b.String(), ".SH \"DESCRIPTION\"\n") {
				p.macro("PP")
			}
			begun = true
			p.line(manText(line))
		}
		asIs = indented
		if indented {
			begun = false
		}
	}
	if asIs {
		p.macro("fi")
		p.macro("RE")
	}
}

// commands lists the commands below the root.
func (p *manPage) commands(all []*cobra.Command, isRoot bool) {
	if !isRoot {
		return
	}
	p.section("COMMANDS")
	for _, c := range all {
		p.macro("TP")
		p.line(`\fB` + manText("lockfs-"+c.Name()) + `\fR(1)`)
		p.line(manText(c.Short + "."))
	}
}

func (p *manPage) options(c *cobra.Command) {
	if !c.HasAvailableLocalFlags() {
		return
	}
	p.section("OPTIONS")
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		p.macro("TP")
		kind, usage := pflag.UnquoteUsage(f)
		name := `\fB` + manText("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			name = `\fB` + manText("-"+f.Shorthand) + `\fR, ` + name
		}
		if kind != "" {
			name += ` \fI` + manText(manKind(kind)) + `\fR`
		}
		p.line(name)
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
			usage += " (default " + f.DefValue + ")"
		}
		p.line(manText(usage + "."))
	})
}

// manKind is what stands for a flag's value.
func manKind(kind string) string {
	switch kind {
	case "string":
		return "WORD"
	case "stringArray", "strings":
		return "WORDS"
	case "int", "uint":
		return "NUMBER"
	}
	return strings.ToUpper(kind)
}

func (p *manPage) seeAlso(isRoot bool) {
	pages := []string{"lockfs(7)", "mount.lockfs(8)"}
	if !isRoot {
		pages = append([]string{"lockfs(1)"}, pages...)
	}
	for i, page := range pages {
		name, section, _ := strings.Cut(page, "(")
		text := `\fB` + manText(name) + `\fR(` + section
		if i < len(pages)-1 {
			text += ","
		}
		p.line(text)
	}
}
