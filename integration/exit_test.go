package integration

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lockfs/lockfs/lock"
)

// Each exit code of the command, as its help lists them: what a script may rely
// on. That of a lost lock, which only run has, and of what run runs are tested
// with it.
func TestExitCodes(t *testing.T) {
	need(t, "setpriv", "util-linux")
	t.Parallel()
	w := newWorld(t)
	odd := filepath.Join(w.tree, "odd")
	if err := os.MkdirAll(filepath.Join(odd, lock.Reserved, "junk"), 0o755); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(w.tree, "locked")
	if err := os.Mkdir(locked, 0o700); err != nil {
		t.Fatal(err)
	}
	for p := filepath.Dir(lockfs); p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	none := filepath.Join(w.tree, "none")
	outdated := "v1,alpha,0123456789abcdef0123456789abcdef,0123456789abcdef0123456789abcdef,1,1,1,1,0123456789abcdef,0123456789abcdef"
	holder := w.alpha.hold()
	record := w.record()
	user := []string{"setpriv", "--reuid", "1234", "--clear-groups", lockfs}
	for _, test := range []struct {
		code int
		args []string
	}{
		{0, []string{lockfs, "version"}},
		{0, []string{lockfs, "status"}},
		{0, []string{lockfs, "status", w.in()}},
		{0, []string{lockfs, "recover", w.back()}},
		{0, []string{lockfs, "doctor", w.tree}},
		{64, []string{lockfs}},
		{64, []string{lockfs, "nothing"}},
		{64, []string{lockfs, "status", "--nothing"}},
		{64, []string{lockfs, "status", "-r"}},
		{64, []string{lockfs, "status", "--watch=soon"}},
		{64, []string{lockfs, "break", w.in()}},
		{64, []string{lockfs, "recover"}},
		{64, []string{lockfs, "doctor"}},
		{69, []string{"env", "LOCKFS_HOST_ID= ", lockfs, "status", w.in()}},
		{69, []string{lockfs, "doctor", w.mnt}},
		{70, []string{lockfs, "status", odd}},
		{70, []string{lockfs, "status", "-r", w.tree}},
		{70, []string{lockfs, "recover", w.tree}},
		{73, []string{lockfs, "mount", none, w.mnt + "2"}},
		{74, []string{lockfs, "status", none}},
		{74, []string{lockfs, "recover", none}},
		{75, []string{lockfs, "umount", w.mnt}},
		{75, []string{lockfs, "break", w.in(), outdated}},
		{75, []string{lockfs, "break", w.back(), outdated}},
		{75, []string{lockfs, "break", w.in(), record}},
		{75, []string{lockfs, "break", w.back(), record}},
		{77, append(user, "status", locked)},
		{77, append(user, "recover", locked)},
		{77, append(user, "break", w.back(), record)},
	} {
		out, err := w.alpha.Command(test.args[0], test.args[1:]...).CombinedOutput()
		if code := exitCode(err); code != test.code {
			t.Errorf("%q: exit code %d, want %d: %s", test.args, code, test.code, out)
		}
	}
	w.alpha.runs(0, []string{"break", odd, "junk"})
	w.tell(holder)
	w.tell(holder)
	w.done(holder)
}
