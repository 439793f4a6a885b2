package lock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockfs/lockfs/internal/cred"
	"github.com/lockfs/lockfs/procid"
)

// userEnv is the directory that the process of an ordinary user is to lock.
const userEnv = "LOCKFS_TEST_STICKY"

// TestStickyUser is that process: each line that it reads is a command, and
// each that it writes is what came of it.
func TestStickyUser(t *testing.T) {
	path := os.Getenv(userEnv)
	if path == "" {
		t.Skip("runs as another user, for TestUsersInAStickyDirectory")
	}
	syscall.Umask(0o77) // what a lock allows is not this process's to say
	self, err := procid.Self()
	if err != nil {
		t.Fatal(err)
	}
	m := NewManager(Config{Self: self})
	defer m.Close(context.Background())
	var hold *Hold
	take := func(wait time.Duration) (err error) {
		place := Place{Key: Key{Ino: 1}, Path: path, Open: func() (Dir, error) { return OpenPath(path, cred.Own()) }}
		hold, err = m.Acquire(context.Background(), Request{Place: place, Job: job(t, 1), Wait: wait})
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var err error
		switch in.Text() {
		case "try":
			err = take(0)
		case "take":
			err = take(Forever)
		case "release":
			hold.Release()
		}
		switch held := (*HeldError)(nil); {
		case err == nil:
			fmt.Println("= done")
		case errors.As(err, &held):
			fmt.Println("= held")
		default:
			fmt.Println("=", Errno(err))
		}
	}
}

// user is a running TestStickyUser.
type user struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func startUser(t *testing.T, program, path string, id uint32) *user {
	cmd := exec.Command(program, "-test.run=^TestStickyUser$")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), userEnv+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	u := &user{t, cmd, in, bufio.NewScanner(out)}
	t.Cleanup(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
	return u
}

// tell gives the user a command, and answers reads what came of it.
func (u *user) tell(command string) {
	if _, err := fmt.Fprintln(u.in, command); err != nil {
		u.t.Fatal(err)
	}
}

func (u *user) answers(want string) {
	u.t.Helper()
	for u.lines.Scan() {
		if got, ok := strings.CutPrefix(u.lines.Text(), "= "); ok {
			if got != want {
				u.t.Errorf("%q, want %q", got, want)
			}
			return
		}
	}
	u.t.Fatalf("no answer, want %q: %v", want, u.lines.Err())
}

func (u *user) does(command, want string) {
	u.t.Helper()
	u.tell(command)
	u.answers(want)
}

// In a sticky directory a rename onto another user's lock is refused, held or
// not. Whoever can act as nobody else waits all the same while it is held, and
// is told that he may not when it is not.
func TestUsersInAStickyDirectory(t *testing.T) {
	if !cred.Switchable() {
		t.Skip("needs root: it starts processes of other users")
	}
	const alice, bob = 1001, 1002
	base := t.TempDir()
	for p := base; p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, path := filepath.Join(base, "lock.test"), filepath.Join(base, "scratch")
	text, err := os.ReadFile(self)
	if err = errors.Join(err, os.WriteFile(program, text, 0o755), os.Mkdir(path, 0o777), os.Chmod(path, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	a, b := startUser(t, program, path, alice), startUser(t, program, path, bob)

	a.does("take", "done")
	b.does("try", "held")
	b.tell("take")
	a.does("release", "done")
	b.answers("done")
	b.does("release", "done")

	nothingLeft := func() bool {
		left, err := os.ReadDir(path)
		return err == nil && len(left) == 0
	}
	eventually(t, "the lock is released", nothingLeft)

	// Nobody else may remove what a crash has left of alice's.
	empty := filepath.Join(path, lockName)
	if err := errors.Join(os.Mkdir(empty, 0o755), os.Chown(empty, alice, alice)); err != nil {
		t.Fatal(err)
	}
	b.does("take", syscall.EPERM.Error())
	a.does("take", "done")
	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	a.cmd.Wait()
	b.does("take", syscall.EPERM.Error())
	again := startUser(t, program, path, alice)
	again.does("take", "done")
	again.does("release", "done")
	b.does("take", "done")
	b.does("release", "done")
	eventually(t, "nothing is left", nothingLeft)
}
