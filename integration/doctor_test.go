package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockfs/lockfs/lock"
)

// Each check of the doctor fails on a file system that lacks what it checks,
// and a mount there is refused if it would corrupt or could not lock.
func TestDoctorOfUnfitFileSystems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for kind, test := range map[string]struct {
		code int // of doctor
		says string
		// mounts: lockfs mounts it all the same.
		mounts bool
	}{
		"none":     {0, "ok       of several one wins", true},
		"mkdir":    {69, "fault    mkdir makes a directory once", false},
		"symlink":  {69, "fault    a symbolic link keeps", false},
		"targets":  {0, "warning  a symbolic link keeps", true},
		"replace":  {69, "fault    rename leaves a directory alone that is not empty", false},
		"listing":  {69, "a listing does not show what is there", false},
		"empty":    {0, "warning  rename replaces an empty directory", true},
		"swap":     {69, "fault    a rename of a record is a compare-and-swap", false},
		"names":    {0, "warning  names may have 255 bytes", true},
		"readonly": {0, "not tried: a directory: mkdir: read-only file system", true},
	} {
		dir := filepath.Join(filepath.Dir(w.tree), kind)
		back, front, mnt := filepath.Join(dir, "back"), filepath.Join(dir, "front"), filepath.Join(dir, "mnt")
		for _, d := range []string{back, front, mnt} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		j := w.alpha.client("unfit", kind, back, front)
		w.expect(j, "up")
		w.alpha.runs(test.code, []string{"doctor", front}, test.says)
		out, code := w.alpha.run("mount", front, mnt)
		switch {
		case test.mounts && code != 0, !test.mounts && (code != 69 || !strings.Contains(out, "is not fit for locks")):
			t.Errorf("mount of one that lacks %s: exit code %d: %s", kind, code, out)
		case test.mounts:
			w.alpha.runs(0, []string{"umount", mnt})
		}
		j.Close()
		if kind == "none" {
			left, err := os.ReadDir(back)
			if err != nil || len(left) != 1 || left[0].Name() != lock.CardsName {
				t.Errorf("left is %v, %v", left, err)
			}
		}
	}
}

// What the doctor finds of the host and of odd places.
func TestDoctorOfHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.alpha.runs(0, []string{"doctor", w.tree}, "ok       identity", "ok       fingerprint", "ok       kernel", "ok       fuse", "open files", "local to this host")
	w.alpha.runs(0, []string{"doctor", "--json", w.tree}, `{"check":"identity","level":"ok","text":"host alpha, machine `)
	w.alpha.runs(69, []string{"doctor", w.mnt}, "is in a mount of lockfs")
	w.alpha.runs(69, []string{"doctor", filepath.Join(w.tree, "none")}, "no such file")
	w.alpha.runs(64, []string{"doctor"}, "SOURCE")
	for id, says := range map[string]string{" ": "is blank", "": "machine-id"} {
		out, err := w.alpha.Command("env", "LOCKFS_HOST_ID="+id, lockfs, "doctor", w.tree).CombinedOutput()
		if id == " " && exitCode(err) != 69 || !strings.Contains(string(out), says) {
			t.Errorf("with the host id %q: %v: %s", id, err, out)
		}
	}
	w.nothingLeft()
}
