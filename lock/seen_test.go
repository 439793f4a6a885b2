package lock

import (
	"os"
	"path/filepath"
	"testing"
)

// What dead processes of this host leave goes when somebody sees it; what is
// not theirs stays.
func TestSeen(t *testing.T) {
	dead := record{holder: testID(99), nonce: 1}
	foreign := dead
	foreign.holder.Machine = "ffffffffffffffffffffffffffffffff"
	for _, test := range []struct {
		name  string
		seen  string
		in    []string // what is in it
		stays bool
	}{
		{"a stale lock", lockName, []string{dead.name()}, false},
		{"the lock of another host", lockName, []string{foreign.name()}, true},
		{"what is left of a lock", lockName, nil, false},
		{"a candidate of a dead process", dead.candidate(), []string{dead.name()}, false},
		{"an empty candidate of a dead process", dead.candidate(), nil, false},
		{"a candidate of another host", foreign.candidate(), []string{foreign.name()}, true},
		{"another name", Reserved + "x", nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			h := newHost()
			h.die(99)
			m := h.manager(t, 1, 0, nil)
			path := filepath.Join(dir, test.seen)
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range test.in {
				if err := os.Symlink("{}", filepath.Join(path, name)); err != nil {
					t.Fatal(err)
				}
			}
			m.Seen(place(t, dir), test.seen)
			m.workers.Wait()
			if left := names(t, dir); (len(left) == 1) != test.stays {
				t.Errorf("left in the directory: %q", left)
			}
		})
	}
}
