package lock

import (
	"errors"
	"os"
	"syscall"
	"testing"

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
