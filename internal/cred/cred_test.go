package cred

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// needRoot skips a test that becomes other users.
func needRoot(t *testing.T) {
	t.Helper()
	if Switchable() {
		return
	}
	msg := "needs root with CAP_SETUID and CAP_SETGID: run it under sudo"
	if os.Getenv("CI") != "" {
		t.Fatal(msg)
	}
	t.Skip(msg)
}

// threadIDs returns the lines Uid, Gid and Groups of a thread of this process;
// task is "thread-self" or "self/task/<tid>".
func threadIDs(task string) (map[string][]string, error) {
	b, err := os.ReadFile("/proc/" + task + "/status")
	if err != nil {
		return nil, err
	}
	ids := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		if k, v, _ := strings.Cut(line, ":"); k == "Uid" || k == "Gid" || k == "Groups" {
			ids[k] = strings.Fields(v)
		}
	}
	return ids, nil
}

// wantOwn fails unless the calling thread has the process's credentials.
func wantOwn(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ids, err := threadIDs("thread-self")
	if err != nil {
		t.Fatal(err)
	}
	got, want := fmt.Sprint(ids), fmt.Sprint(ownIDs())
	if got != want {
		t.Errorf("the thread has %s, want %s", got, want)
	}
}

// ownIDs are the lines of a thread of this process outside of Do.
func ownIDs() map[string][]string {
	o := Own()
	groups := []string{}
	for _, g := range o.Groups {
		groups = append(groups, fmt.Sprint(g))
	}
	slices.Sort(groups)
	four := func(id uint32) []string { return slices.Repeat([]string{fmt.Sprint(id)}, 4) }
	return map[string][]string{"Uid": four(o.UID), "Gid": four(o.GID), "Groups": groups}
}

// makeDir makes a directory with the given mode and owner.
func makeDir(t *testing.T, mode fs.FileMode, uid, gid int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d")
	for _, err := range []error{os.Mkdir(dir, 0), os.Chown(dir, uid, gid), os.Chmod(dir, mode)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// The parents are the test's own, closed to others.
	for p := filepath.Dir(dir); p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDoActsAsCaller(t *testing.T) {
	needRoot(t)
	user := func(uid, gid uint32, groups ...uint32) Cred { return Cred{UID: uid, GID: gid, Groups: groups} }
	for _, tt := range []struct {
		name     string
		mode     fs.FileMode
		uid, gid int // of the directory
		c        Cred
		want     error
		wantGID  uint32 // of the file
	}{
		{"the owner of a closed directory", 0o700, 1001, 1001, user(1001, 1001), nil, 1001},
		{"another user", 0o700, 1001, 1001, user(1002, 1002), syscall.EACCES, 0},
		{"the directory's group by gid", 0o770, 0, 2000, user(1002, 2000), nil, 2000},
		{"the directory's group by a supplementary group", 0o770, 0, 2000, user(1002, 1002, 7, 2000), nil, 1002},
		{"not of the directory's group", 0o770, 0, 2000, user(1002, 1002, 7, 2001), syscall.EACCES, 0},
		{"a group of root's is not the caller's", 0o770, 0, 0, user(1002, 1002), syscall.EACCES, 0},
		{"a setgid directory gives its group", 0o777 | fs.ModeSetgid, 0, 2000, user(1002, 1002), nil, 2000},
		{"root by another group", 0o700, 1001, 1001, user(0, 2000), nil, 2000},
		{"root", 0o700, 1001, 1001, Own(), nil, own.GID},
		{"four hundred groups", 0o770, 0, 2399, user(1002, 1002, manyGroups(2000, 400)...), nil, 1002},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := filepath.Join(makeDir(t, tt.mode, tt.uid, tt.gid), "f")
			var err error
			tt.c.Do(func() {
				err = os.WriteFile(name, []byte("x"), 0o640)
			})
			wantOwn(t)
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Fatalf("create: %v, want %v", err, tt.want)
			}
			if err != nil {
				return
			}
			var st syscall.Stat_t
			if err := syscall.Stat(name, &st); err != nil {
				t.Fatal(err)
			}
			if st.Uid != tt.c.UID || st.Gid != tt.wantGID {
				t.Errorf("the file is of %d:%d, want %d:%d", st.Uid, st.Gid, tt.c.UID, tt.wantGID)
			}
		})
	}
}

func manyGroups(first, n uint32) (gs []uint32) {
	for i := range n {
		gs = append(gs, first+i)
	}
	return gs
}

// A setgid file that another user writes loses the bit: CAP_FSETID goes with
// the fsuid. A file of another's keeps its mode: CAP_FOWNER goes as well.
func TestDoTakesRightsAway(t *testing.T) {
	needRoot(t)
	dir := makeDir(t, 0o777, 0, 0)
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o777|fs.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	var chmod, write error
	Cred{UID: 1001, GID: 1001}.Do(func() {
		chmod = os.Chmod(name, 0o600)
		write = os.WriteFile(name, []byte("x"), 0)
	})
	if !errors.Is(chmod, fs.ErrPermission) || write != nil {
		t.Errorf("chmod: %v, write: %v; want no permission, and none needed", chmod, write)
	}
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if st.Mode()&fs.ModeSetuid != 0 {
		t.Errorf("the file written by another user is still setuid: %v", st.Mode())
	}
}

func TestDoRestores(t *testing.T) {
	needRoot(t)
	a := Cred{UID: 1001, GID: 1002, Groups: []uint32{1003, 1004}}
	b := Cred{UID: 2001, GID: 2002}
	want := func(t *testing.T, uid, gid, groups string) {
		t.Helper()
		ids, err := threadIDs("thread-self")
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(ids["Uid"][3], " ", ids["Gid"][3], " ", ids["Groups"])
		if w := uid + " " + gid + " " + groups; got != w {
			t.Errorf("the thread is %s, want %s", got, w)
		}
	}
	wantPanic := func(t *testing.T, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
			wantOwn(t)
		}()
		f()
	}
	t.Run("after f", func(t *testing.T) {
		a.Do(func() { want(t, "1001", "1002", "[1003 1004]") })
		wantOwn(t)
	})
	t.Run("after nested calls", func(t *testing.T) {
		a.Do(func() {
			b.Do(func() { want(t, "2001", "2002", "[]") })
			want(t, "1001", "1002", "[1003 1004]")
			Own().Do(func() { wantOwn(t) })
			want(t, "1001", "1002", "[1003 1004]")
			a.Do(func() { want(t, "1001", "1002", "[1003 1004]") })
			want(t, "1001", "1002", "[1003 1004]")
		})
		wantOwn(t)
	})
	t.Run("after a panic of f", func(t *testing.T) {
		wantPanic(t, func() { a.Do(func() { panic("f") }) })
	})
	t.Run("after a panic of f as oneself", func(t *testing.T) {
		wantPanic(t, func() { Own().Do(func() { panic("f") }) })
	})
	t.Run("after ids that are none", func(t *testing.T) {
		wantPanic(t, func() { Cred{UID: 1001, GID: ^uint32(0)}.Do(func() { t.Error("f ran") }) })
		wantPanic(t, func() { Cred{UID: ^uint32(0), GID: 1001}.Do(func() { t.Error("f ran") }) })
		wantPanic(t, func() { Cred{UID: 1001, Groups: []uint32{^uint32(0)}}.Do(func() { t.Error("f ran") }) })
	})
}

// What own credentials are is a copy: nobody changes the process's by it.
func TestOwn(t *testing.T) {
	c := Own()
	if c.UID != uint32(os.Geteuid()) || c.GID != uint32(os.Getegid()) {
		t.Errorf("Own() = %+v", c)
	}
	defer func(o Cred) { own = o }(own)
	own.Groups = []uint32{5}
	Own().Groups[0] = 6
	if own.Groups[0] != 5 {
		t.Error("a change of Own()'s groups reached the process's own")
	}
}

// A process without the rights acts as itself.
func TestDoWithoutRights(t *testing.T) {
	defer func(s bool) { switchable = s }(switchable)
	switchable = false
	ran := false
	Cred{UID: 1001, GID: 1001}.Do(func() {
		ran = true
		wantOwn(t)
	})
	if !ran {
		t.Error("f did not run")
	}
}

// Root whose container lacks CAP_SETUID can't switch, and must not try.
func TestSwitchable(t *testing.T) {
	if os.Getenv("CRED_TEST_CHILD") != "" {
		fmt.Printf("switchable=%t\n", Switchable())
		return
	}
	needRoot(t)
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("needs setpriv, of the package util-linux:", err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]bool{"": true, "-setuid": false, "-setgid": false} {
		cmd := exec.Command(exe, "-test.run=^TestSwitchable$")
		if arg != "" {
			cmd = exec.Command(setpriv, "--bounding-set="+arg, exe, "-test.run=^TestSwitchable$")
		}
		cmd.Env = append(os.Environ(), "CRED_TEST_CHILD=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), fmt.Sprintf("switchable=%t\n", want)) {
			t.Errorf("bounding set %q: %v, %s; want switchable=%t", arg, err, out, want)
		}
	}
}

// Sixteen threads of mixed users at once: every file has its maker's owner,
// no user gets into another's directory, the ids of the process as a whole
// never change, and in the end no thread is anybody else's.
func TestDoManyUsers(t *testing.T) {
	needRoot(t)
	const users, rounds = 16, 150
	var dirs [users]string
	for u := range dirs {
		dirs[u] = makeDir(t, 0o700, 3000+u, 4000+u)
	}
	errs := make(chan error, users+1)
	var work sync.WaitGroup
	inside := make(chan struct{}) // closed once all are at work together
	var arrived sync.WaitGroup
	arrived.Add(users)
	for u := range users {
		work.Go(func() {
			c := Cred{UID: uint32(3000 + u), GID: uint32(4000 + u), Groups: []uint32{uint32(5000 + u)}}
			for i := range rounds {
				var err error
				c.Do(func() {
					if i == 0 {
						arrived.Done()
						<-inside
					}
					err = createOwned(dirs[u], dirs[(u+1)%users], i, c)
				})
				if err != nil {
					errs <- fmt.Errorf("user %d: %w", c.UID, err)
					return
				}
			}
		})
	}
	go func() { arrived.Wait(); close(inside) }()
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			if err := processIDsAreOwn(); err != nil {
				errs <- err
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	work.Wait()
	close(stop)
	watch.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		ids, err := threadIDs("self/task/" + task.Name())
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if got, want := fmt.Sprint(ids), fmt.Sprint(ownIDs()); err != nil || got != want {
			t.Errorf("thread %s has %s, %v; want %s", task.Name(), got, err, want)
		}
	}
}

// createOwned makes a file in c's directory as c, and finds another's closed.
func createOwned(dir, other string, i int, c Cred) error {
	name := filepath.Join(dir, fmt.Sprint(i))
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return err
	}
	var st syscall.Stat_t
	if err := syscall.Stat(name, &st); err != nil {
		return err
	}
	if st.Uid != c.UID || st.Gid != c.GID {
		return fmt.Errorf("%s is of %d:%d", name, st.Uid, st.Gid)
	}
	if _, err := os.ReadDir(other); !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("another's directory: %v, want no permission", err)
	}
	runtime.Gosched()
	return nil
}

// processIDsAreOwn looks at the real, effective and saved ids of every thread.
func processIDsAreOwn() error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	want := ownIDs()
	for _, task := range tasks {
		ids, err := threadIDs("self/task/" + task.Name())
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return err
		}
		for _, k := range []string{"Uid", "Gid"} {
			if !slices.Equal(ids[k][:3], want[k][:3]) {
				return fmt.Errorf("thread %s has the %s %v, want %v", task.Name(), k, ids[k], want[k])
			}
		}
	}
	return nil
}
