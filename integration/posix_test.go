package integration

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// posixCases are what system calls do, by what they are about. Each is run in
// a new directory of the tree itself, and in one of the mount, by one process
// each, and must say the same.
var posixCases = map[string]func(p *posix){}

// Users without rights of root, and a group that one is in only if his
// supplementary groups say so.
const (
	ann   = 1001
	bob   = 1002
	crew  = 1010
	other = 1011
)

// posix runs a case, in its directory as the working directory.
type posix struct {
	name string
	out  *bufio.Writer
}

// say writes a line of what was seen. Errors are written by their names.
func (p *posix) say(what string, seen ...any) {
	fmt.Fprintf(p.out, "%s: %s:", p.name, what)
	for _, v := range seen {
		if err, ok := v.(error); ok || v == nil {
			v = errnoName(err)
		}
		fmt.Fprintf(p.out, " %v", v)
	}
	fmt.Fprintln(p.out)
}

// need ends the client if what a case is made of can't be had.
func (p *posix) need(err error) {
	if err != nil {
		p.out.Flush()
		panic(fmt.Sprintf("%s: %v", p.name, err))
	}
}

// as runs f as the user with the groups, the first of which is his own.
func (p *posix) as(uid int, groups []int, f func()) {
	p.need(unix.Setgroups(groups))
	p.need(unix.Setresgid(-1, groups[0], -1))
	p.need(unix.Setresuid(-1, uid, -1))
	f()
	p.need(unix.Setresuid(-1, 0, -1))
	p.need(unix.Setresgid(-1, 0, -1))
	p.need(unix.Setgroups(nil))
}

// file makes a file of that mode, whatever the umask, and owner.
func (p *posix) file(name string, mode uint32, uid, gid int) {
	p.need(os.WriteFile(name, []byte("hello\n"), 0o600))
	p.need(unix.Chown(name, uid, gid))
	p.need(unix.Chmod(name, mode))
}

// dir is file for a directory.
func (p *posix) dir(name string, mode uint32, uid, gid int) {
	p.need(unix.Mkdir(name, 0o700))
	p.need(unix.Chown(name, uid, gid))
	p.need(unix.Chmod(name, mode))
}

// stat says what name is.
func (p *posix) stat(name string) {
	var st unix.Stat_t
	err := unix.Lstat(name, &st)
	size := st.Size
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		size, st.Nlink = 0, 0 // of the file system's making
	}
	p.say("stat "+short(name), err, fmt.Sprintf("%o", st.Mode), st.Uid, st.Gid, size, st.Nlink)
}

// open says whether name can be opened.
func (p *posix) open(name string, flags int, mode uint32) {
	p.say(fmt.Sprintf("open %s %#o %#o", short(name), flags, mode), closing(unix.Open(name, flags, mode)))
}

// short is a name that fits into a line.
func short(name string) string {
	if len(name) > 40 {
		return fmt.Sprintf("%s...(%d)", name[:10], len(name))
	}
	return name
}

// clientPosix runs all cases below the directory args[0].
func clientPosix(args []string) error {
	runtime.LockOSThread() // the umask and the working directory are the process's all the same
	unix.Umask(0o022)
	p := &posix{out: bufio.NewWriter(os.Stdout)}
	for _, p.name = range slices.Sorted(maps.Keys(posixCases)) {
		dir := filepath.Join(args[0], strings.ReplaceAll(p.name, " ", "-"))
		p.need(unix.Mkdir(dir, 0o755))
		p.need(unix.Chdir(dir))
		posixCases[p.name](p)
		unix.Umask(0o022)
	}
	return p.out.Flush()
}

// System calls answer through the mount what they answer without it.
func TestPosix(t *testing.T) {
	w := newWorld(t)
	w.open()
	run := func(root string) []string {
		t.Helper()
		dir := filepath.Join(root, "D", "mounted")
		if root == w.tree {
			dir = filepath.Join(root, "D", "native")
		}
		ctx, cancel := context.WithTimeout(w.ctx, 2*bound)
		defer cancel()
		cmd := w.alpha.Command("sh", "-c", `mkdir "$1" && exec "$0" posix "$1"`, client, dir)
		cmd.Env = append(cmd.Env, clientEnv+"=1")
		var out, complaint strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &complaint
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
		defer stop()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("in %s: %v\n%s%s", root, err, out.String(), complaint.String())
		}
		return strings.Split(out.String(), "\n")
	}
	native, through := run(w.tree), run(w.mnt)
	if len(native) < 100 {
		t.Errorf("only %d answers", len(native))
	}
	for i := range max(len(native), len(through)) {
		var a, b string
		if i < len(native) {
			a = native[i]
		}
		if i < len(through) {
			b = through[i]
		}
		if a != b {
			t.Errorf("without:\n%s\nthrough the mount:\n%s", a, b)
		}
	}
	w.nothingLeft()
}

// open lets every user reach the tree and the mounts.
func (w *world) open() {
	w.t.Helper()
	for dir := w.tree; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
}
