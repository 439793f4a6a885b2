package docs

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// endOfFigures is the line after what a program writes into a page.
const endOfFigures = "<!-- end -->\n"

// WriteFigures puts text into the page, in the place of what stands there between
// the line that names the command that writes it and the next "<!-- end -->".
func WriteFigures(page, command, text string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	begin := "<!-- " + command + ": -->\n"
	before, rest, ok := strings.Cut(string(old), begin)
	_, after, ended := strings.Cut(rest, endOfFigures)
	if !ok || !ended {
		return fmt.Errorf("%s lacks the lines %q and %q", page, begin, endOfFigures)
	}
	return os.WriteFile(page, []byte(before+begin+text+"\n"+endOfFigures+after), 0o644)
}

// Machine is what figures are from, in a few words.
func Machine() string {
	var u unix.Utsname
	release := "unknown"
	if unix.Uname(&u) == nil {
		release = unix.ByteSliceToString(u.Release[:])
	}
	return fmt.Sprintf("Linux %s, %d processors", release, runtime.NumCPU())
}

// Load is how many processes have run or wanted to in the last minute.
func Load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(data), " ")
	return first
}
