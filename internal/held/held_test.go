package held

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// dirEnv makes the test binary a process that notes two takes and one release,
// says so, and waits to be killed.
const dirEnv = "LOCKFS_TEST_HELD"

func TestMain(m *testing.M) {
	dir := os.Getenv(dirEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	l, _, err := Open(dir, func(error) {})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	l.Taken("a\nb")
	l.Taken("c")
	l.Taken("d")
	l.Released("c")
	for l.wait() {
	}
	fmt.Println("noted")
	bufio.NewReader(os.Stdin).ReadString('\n')
}

// wait reports whether something is not written yet.
func (l *Log) wait() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, _ := os.ReadFile(l.file.Name())
	return len(l.pending) > 0 || strings.Count(string(b), "\n") != 5
}

func open(t *testing.T, dir string) (*Log, []string) {
	t.Helper()
	l, left, err := Open(dir, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(left)
	return l, left
}

// What a killed process held is what the next one, and only one, is told, also
// if that is killed before it has dealt with it; and a live one's is its own.
func TestLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a [b]", "c")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), dirEnv+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "noted\n" {
		t.Fatalf("%q, %v", line, err)
	}
	beside, left := open(t, dir)
	if left != nil {
		t.Errorf("of a live process: %q", left)
	}
	cmd.Process.Kill()
	cmd.Wait()
	want := []string{"a\nb", "d"}
	l, left := open(t, dir)
	if !slices.Equal(left, want) {
		t.Errorf("left: %q, want %q", left, want)
	}
	if _, left := open(t, dir); left != nil {
		t.Errorf("a second one is told %q", left)
	}
	l.Released("d")
	l.Taken("e")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	l, left = open(t, dir)
	if want := []string{"a\nb", "e"}; !slices.Equal(left, want) {
		t.Errorf("left by one that closed: %q, want %q", left, want)
	}
	for _, path := range left {
		l.Released(path)
	}
	for _, l := range []*Log{l, beside} {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A note does not grow with what has happened.
func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir)
	long := strings.Repeat("x", 1000)
	l.Taken("kept")
	for i := range 20_000 {
		l.Taken(fmt.Sprint(long, i))
		l.Released(fmt.Sprint(long, i))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%q, %v", names, err)
	}
	if st, err := os.Stat(names[0]); err != nil || st.Size() > 3*compactAt {
		t.Errorf("%v, %v", st.Size(), err)
	}
	if _, left := open(t, dir); !slices.Equal(left, []string{"kept"}) {
		t.Errorf("left: %.50q", left)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "rubbish\n+\"a\"\n": 0, header: 0, header + "+\"a\"\n": 1, header + "+\"a\"": 0, header + "+\"a\"\n-\"a\"\n": 0,
		header + "-\"a\"\n+\"a\"\n": 1, header + "\n\x00\n+\n+\"\n*\"b\"\n+\"a\"\n": 1, header + "+\"a\"\n+\"a\"\n-\"a\"\n": 1,
	} {
		held, err := parse(bufio.NewReader(strings.NewReader(text)))
		if err != nil || len(held) != want {
			t.Errorf("parse(%q) = %v, %v; want %d", text, held, err, want)
		}
	}
}

// What can't be read or made is an error, and a symbolic link is not followed.
func TestOpenFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(file, nil); err == nil {
		t.Error("a file served as a directory")
	}
	if err := os.Symlink(file, filepath.Join(dir, "x"+suffix)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir, nil); err == nil {
		t.Error("a symbolic link was followed")
	}
}
