package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const top = "../.."

// spoken are the packages whose messages an operator reads.
var spoken = []string{"cmd/lockfs", "fs", "fs/gate", "lock", "procid"}

// verb is what stands for a value in a format.
var verb = regexp.MustCompile(`%[-+#0-9.]*[a-zA-Z]|%%`)

// pattern is a format as docs/messages.md writes it: "..." for each value.
func pattern(format string) string {
	return strings.TrimSpace(verb.ReplaceAllString(format, "..."))
}

// source collects what the program can say.
type source struct {
	// all are the patterns of all text in the source.
	all []string
	// explain are those that need an explanation: warnings and errors of the
	// log, and errors that end the command with a code other than wrong use.
	explain []string
}

func readSource(t *testing.T) source {
	t.Helper()
	var s source
	for _, dir := range spoken {
		files, err := filepath.Glob(filepath.Join(top, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, name := range files {
			base := filepath.Base(name)
			if strings.HasSuffix(base, "_test.go") || strings.HasPrefix(base, "demo") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, s.look)
		}
	}
	return s
}

// beginsAText is what a message begins with, and a part of one or a name does
// not.
var beginsAText = regexp.MustCompile(`^[a-z]+ `)

func (s *source) look(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BasicLit:
		if text, ok := literal(n); ok {
			s.all = append(s.all, pattern(text))
		}
	case *ast.FuncDecl:
		if n.Name.Name == "tell" && n.Type.Results != nil { // fs/gate: what an event says
			ast.Inspect(n, func(n ast.Node) bool {
				if text, ok := literal(n); ok && beginsAText.MatchString(text) {
					s.explain = append(s.explain, pattern(text))
				}
				return true
			})
		}
	case *ast.CallExpr:
		switch name := called(n); {
		case (name == "Warn" || name == "Error") && len(n.Args) == 1:
			s.note(n.Args[0])
		case name == "withCode" && called(n.Args[0]) != "exitUsage":
			if inner, ok := n.Args[1].(*ast.CallExpr); ok && len(inner.Args) > 0 {
				s.note(inner.Args[0])
			}
		}
	}
	return true
}

// note notes the text of an argument, if it is one that says something.
func (s *source) note(arg ast.Expr) {
	if text, ok := literal(arg); ok && len(strings.Fields(verb.ReplaceAllString(text, ""))) >= 2 {
		s.explain = append(s.explain, pattern(text))
	}
}

// literal is the text that an expression is, or begins with.
func literal(n ast.Node) (string, bool) {
	if sum, ok := n.(*ast.BinaryExpr); ok {
		return literal(sum.X)
	}
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// called is the last name of what is called, or of an identifier.
func called(n ast.Expr) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		return called(n.Fun)
	case *ast.SelectorExpr:
		return n.Sel.Name
	case *ast.Ident:
		return n.Name
	}
	return ""
}

// row is a line of a table whose first cell is a message.
var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// docs/messages.md explains what the program says, and nothing that it does
// not say.
func TestMessages(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(top, "docs/messages.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := readSource(t)
	var explained []string
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		explained = append(explained, m[1])
		if !slices.ContainsFunc(s.all, func(p string) bool { return strings.Contains(p, m[1]) }) {
			t.Errorf("docs/messages.md explains %q, which no source says", m[1])
		}
	}
	if len(explained) < 20 {
		t.Fatalf("only %d messages are explained", len(explained))
	}
	slices.Sort(s.explain)
	for _, p := range slices.Compact(s.explain) {
		if !slices.ContainsFunc(explained, func(e string) bool { return strings.Contains(p, e) }) {
			t.Errorf("docs/messages.md does not explain this: add a row\n| `%s` | ... |", p)
		}
	}
}
