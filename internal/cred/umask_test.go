package cred

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Each thread has the umask that it was given, whatever others have.
func TestWithUmaskIsOfTheThread(t *testing.T) {
	dir := t.TempDir()
	var threads sync.WaitGroup
	for _, umask := range []fs.FileMode{0, 0o022, 0o027, 0o077} {
		threads.Go(func() {
			for i := range 200 {
				name := filepath.Join(dir, fmt.Sprintf("%o.%d", umask, i))
				err := WithUmask(int(umask), func() error { return os.Mkdir(name, 0o777) })
				if err != nil {
					t.Error(err)
					return
				}
				if st, err := os.Lstat(name); err != nil || st.Mode().Perm() != 0o777&^umask {
					t.Errorf("with umask %o: %v, %v", umask, st, err)
				}
			}
		})
	}
	threads.Wait()
	own := errors.New("its own")
	if err := WithUmask(0, func() error { return own }); err != own {
		t.Errorf("the error of what ran: %v", err)
	}
}
