package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const aLine = `time="2026-12-02T10:00:00.000Z" level=info msg="released" dir=/d elapsed=5s event=released record=` + "\n"

func TestTimelineOfFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"alpha.log": aLine, "empty.log": "nothing\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	alpha := filepath.Join(dir, "alpha.log")
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a host by its file's name": {[]string{alpha}, 0, "lockfs on alpha"},
		"a host by its name":        {[]string{"beta=" + alpha}, 0, "lockfs on beta"},
		"the standard input":        {[]string{"-"}, 0, "lockfs on an unnamed host"},
		"a picture":                 {[]string{"-o", filepath.Join(dir, "out.svg"), alpha}, 0, `<svg xmlns="http://www.w3.org/2000/svg"`},
		"no log":                    {[]string{filepath.Join(dir, "empty.log")}, exitUsage, "no line of it"},
		"no file":                   {[]string{filepath.Join(dir, "none")}, exitIO, "no such file"},
		"too few":                   {[]string{"--most=-1", alpha}, exitUsage, "less than nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newCommand()
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetIn(strings.NewReader(aLine))
			cmd.SetArgs(append([]string{"timeline"}, tt.args...))
			err := cmd.Execute()
			if exitCode(err) != tt.code {
				t.Fatalf("%v: exit code %d, want %d", err, exitCode(err), tt.code)
			}
			text := out.String()
			if err != nil {
				text = err.Error()
			} else if tt.args[0] == "-o" {
				b, err := os.ReadFile(tt.args[1])
				if err != nil {
					t.Fatal(err)
				}
				text = string(b)
			}
			if !strings.Contains(text, tt.want) {
				t.Errorf("no %q in the %d bytes that begin with %.200s", tt.want, len(text), text)
			}
		})
	}
}
