package lock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/internal/cred"
)

func openDir(t *testing.T, path string) Dir {
	t.Helper()
	d, err := OpenPath(path, cred.Own())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// A lock directory that a crash has left empty is taken by the rename alone.
func TestRenameReplacesAnEmptyDirectory(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path)
	for _, name := range []string{"from", "to"} {
		if err := d.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Symlink("x", "from/record"); err != nil {
		t.Fatal(err)
	}
	if err := d.Rename("from", "to"); err != nil {
		t.Fatalf("onto an empty directory: %v", err)
	}
	if _, err := os.Lstat(path + "/to/record"); err != nil {
		t.Error(err)
	}
	if err := d.Mkdir("from", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.Rename("from", "to"); !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
		t.Errorf("onto a directory that is not empty: %v", err)
	}
}

// Who may not act in the directory is helped by the caller, and where he may
// not either by the owner of the lock: as on an export with root_squash, where
// root is nobody.
func TestActsAsWhoMay(t *testing.T) {
	if !cred.Switchable() {
		t.Skip("needs root: it acts as other users")
	}
	const nobody, caller, owner = 65534, 1001, 1002
	path := t.TempDir()
	for p := path; p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(path, caller, caller); err != nil {
		t.Fatal(err)
	}
	d, err := OpenPath(path, cred.Cred{UID: caller, GID: caller})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	asNobody := func(f func() error) (err error) {
		cred.Cred{UID: nobody, GID: nobody}.Do(func() { err = f() })
		return err
	}
	if err := asNobody(func() error { return d.Mkdir("mine", 0o700) }); err != nil {
		t.Errorf("as the caller: %v", err)
	}
	// The empty lock directory of another user in a sticky directory.
	if err := errors.Join(os.Chown(path, 0, 0), os.Chmod(path, 0o1777|os.ModeSticky),
		os.Mkdir(filepath.Join(path, lockName), 0o755), os.Chown(filepath.Join(path, lockName), owner, owner),
		os.Mkdir(filepath.Join(path, "theirs"), 0o755), os.Chown(filepath.Join(path, "theirs"), owner, owner)); err != nil {
		t.Fatal(err)
	}
	if err := asNobody(func() error { return d.Rmdir(lockName) }); err != nil {
		t.Errorf("as the owner of the lock: %v", err)
	}
	// The owner of anything else is not asked.
	if err := asNobody(func() error { return d.Rmdir("theirs") }); !errors.Is(err, syscall.EPERM) {
		t.Errorf("what is no lock was removed as its owner: %v", err)
	}
}

func TestReplays(t *testing.T) {
	for path, want := range map[string]bool{"/proc": true, "/dev/shm": false} {
		dir, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		if got, err := replays(int(dir.Fd())); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", path, got, err, want)
		}
	}
	if _, err := replays(-1); !errors.Is(err, syscall.EBADF) {
		t.Errorf("no descriptor: %v", err)
	}
}

func TestErrno(t *testing.T) {
	for want, err := range map[syscall.Errno]error{
		0:                nil,
		syscall.EBUSY:    fmt.Errorf("x: %w", &HeldError{Path: "d", By: "b"}),
		syscall.EIO:      ErrLost,
		syscall.EDEADLK:  fmt.Errorf("x: %w", ErrDeadlock),
		syscall.ENOTCONN: ErrClosed,
		syscall.ENOSPC:   &os.PathError{Op: "mkdir", Path: "d", Err: syscall.ENOSPC},
	} {
		if got := Errno(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
	if got := Errno(errors.New("another")); got != syscall.EIO {
		t.Errorf("an error without an errno: %v", got)
	}
}

// An error of the directory itself is what each call says.
func TestErrorsOfTheDirectory(t *testing.T) {
	if _, err := OpenDir(-1, cred.Own()); !errors.Is(err, syscall.EBADF) {
		t.Errorf("OpenDir of no descriptor: %v", err)
	}
	if _, err := OpenPath(t.TempDir()+"/none", cred.Own()); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("OpenPath of nothing: %v", err)
	}
	d, err := OpenPath(t.TempDir(), cred.Own())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Readlink("none"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("Readlink of nothing: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	h := newHost()
	holder := newHolder(testID(1), h.judge)
	_, modeErr := d.Mode()
	_, lookErr := holder.look(d)
	_, statusErr := StatusOf(d, "d", h.judge)
	_, recoverErr := holder.recoverDead(d)
	for what, err := range map[string]error{
		"Mode": modeErr, "look": lookErr, "StatusOf": statusErr, "Recover": recoverErr,
		"Break": holder.breakLock(d, "d", "x", true), "Close": d.Close(),
	} {
		if !errors.Is(err, syscall.EBADF) {
			t.Errorf("%s of a closed directory: %v, want EBADF", what, err)
		}
	}
}

func TestModeOfTheLock(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path)
	for mode, want := range map[os.FileMode]os.FileMode{
		0o700:                 0o755,
		0o2775:                0o775,
		os.ModeSticky | 0o777: os.ModeSticky | 0o777,
		os.ModeSetgid | 0o770: 0o775,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		got, err := lockMode(d)
		if err != nil || got != want {
			t.Errorf("in a directory of mode %v: %v, %v, want %v", mode, got, err, want)
		}
		if err := d.Mkdir("x", got); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path + "/x"); err != nil {
			t.Fatal(err)
		}
	}
}

// A strict directory has the caller's rights and no others, neither this
// process's nor the owner's.
func TestStrictDirectory(t *testing.T) {
	if !cred.Switchable() {
		t.Skip("needs root: it acts as other users")
	}
	const owner, other = 1001, 1002
	path := t.TempDir()
	for p := path; p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(path, owner, owner); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for i, want := range []error{syscall.EACCES, nil} {
		uid := []uint32{other, owner}[i]
		d, err := OpenDirAs(fd, cred.Cred{UID: uid, GID: uid})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Mkdir("x", 0o755); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("user %d: %v, want %v", uid, err, want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
