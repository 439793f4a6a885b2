package procid

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{0, 1, 4095, 4096, 4097, 100_000} {
		name, want := filepath.Join(dir, "f"), bytes.Repeat([]byte{'x'}, size)
		if err := os.WriteFile(name, want, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := readFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %d, %v", size, len(got), err)
		}
	}
	if _, err := readFile(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
	if _, err := readFile(dir); !errors.Is(err, unix.EISDIR) {
		t.Errorf("a directory: %v", err)
	}
}

func BenchmarkReadStatus(b *testing.B) {
	for name, read := range map[string]func(string) ([]byte, error){"readFile": readFile, "os.ReadFile": os.ReadFile} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := read("/proc/self/status"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
