package lock

import (
	"os"
	"testing"
)

// The file system of the tests has all that the protocol rests on, and nothing
// of a trial is left there. What is made of file systems that lack it is tested
// with such (package integration).
func TestTry(t *testing.T) {
	path := t.TempDir()
	for _, thorough := range []bool{false, true} {
		trials := Try(openDir(t, path), self(t), thorough)
		if want := map[bool]int{false: 5, true: 7}[thorough]; len(trials) != want {
			t.Errorf("%d trials, want %d: %+v", len(trials), want, trials)
		}
		for _, tr := range trials {
			if tr.Outcome != Kept || tr.Text == "" {
				t.Errorf("%+v", tr)
			}
		}
		if left := names(t, path); len(left) > 0 {
			t.Errorf("left is %q", left)
		}
	}
	d := openDir(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if trials := Try(d, self(t), true); len(trials) != 1 || trials[0].Outcome != Unable {
		t.Errorf("in a directory that is gone: %+v", trials)
	}
}
