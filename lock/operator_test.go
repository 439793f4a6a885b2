package lock

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/procid"
)

// self is this process; the records of another are made from it.
func self(t *testing.T) *procid.Local {
	t.Helper()
	l, err := procid.Self()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ended returns the identity of a process of this host that has ended.
func endedProcess(t *testing.T) procid.ID {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	id := self(t).ID()
	id.PID = cmd.Process.Pid
	return id
}

// lockedBy makes a directory whose lock the process of id holds, and in which
// it has left a candidate.
func lockedBy(t *testing.T, id procid.ID) (Dir, string, record) {
	t.Helper()
	path := t.TempDir()
	r := record{holder: id, nonce: 1}
	for name, record := range map[string]record{lockName: r, r.candidate(): r} {
		if err := os.Mkdir(filepath.Join(path, name), 0o755); err != nil {
			t.Fatal(err)
		}
		target := note{Cause: Cause{Program: "cp", PID: 3}, Since: time.Unix(1, 0)}.String()
		if err := os.Symlink(target, filepath.Join(path, name, record.name())); err != nil {
			t.Fatal(err)
		}
	}
	return openDir(t, path), path, r
}

// foreign is a process of another host.
func foreignProcess(t *testing.T) procid.ID {
	id := self(t).ID()
	id.Machine = "0123456789abcdef0123456789abcdef"
	return id
}

func TestRecover(t *testing.T) {
	for _, test := range []struct {
		name  string
		id    procid.ID
		freed bool
	}{
		{"dead", endedProcess(t), true},
		{"alive", self(t).ID(), false},
		{"foreign", foreignProcess(t), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, path, _ := lockedBy(t, test.id)
			freed, err := Recover(d, self(t))
			if err != nil || freed != test.freed {
				t.Errorf("freed %v, %v; want %v", freed, err, test.freed)
			}
			if left := names(t, path); (len(left) == 0) != test.freed {
				t.Errorf("left: %q", left)
			}
		})
	}
}

func TestBreak(t *testing.T) {
	const none = ""
	for _, test := range []struct {
		name  string
		id    procid.ID
		named string // the record that the operator names; that which stands there if none
		force bool
		want  error
	}{
		{"foreign", foreignProcess(t), none, false, nil},
		{"dead", endedProcess(t), none, false, nil},
		{"alive", self(t).ID(), none, false, &HeldError{}},
		{"alive, by force", self(t).ID(), none, true, nil},
		{"another since", foreignProcess(t), "v1,gamma", true, ErrOutdated},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, path, r := lockedBy(t, test.id)
			name := test.named
			if name == none {
				name = r.name()
			}
			err := Break(d, path, name, self(t), test.force)
			var held *HeldError
			if test.want == nil && err != nil || test.want != nil && !errors.Is(err, test.want) && !errors.As(err, &held) {
				t.Errorf("%v, want %v", err, test.want)
			}
			if stands := slices.Contains(names(t, path), lockName); stands != (test.want != nil) {
				t.Errorf("the lock stands: %v", stands)
			}
		})
	}
}

// What keeps a lock from being taken and stands for nobody is removed when it is
// named, and a record that can't be judged only by force.
func TestBreakClearsWhatIsNamed(t *testing.T) {
	live := record{holder: self(t).ID(), nonce: 7}.name()
	newer := "v9,alpha,and,so,on"
	for _, test := range []struct {
		name    string
		entries []string // in the lock; those that end in / are directories
		named   string
		force   bool
		want    error
		left    []string
	}{
		{"what NFS keeps", []string{".nfs0001"}, ".nfs0001", false, nil, nil},
		{"a directory", []string{"@eaDir/"}, "@eaDir", false, nil, nil},
		{"a directory that is not empty", []string{"@eaDir/x/"}, "@eaDir", false, syscall.ENOTEMPTY, []string{"@eaDir"}},
		{"one of two", []string{".nfs0001", "x"}, "x", false, nil, []string{".nfs0001"}},
		{"beside a lock", []string{".nfs0001", live}, ".nfs0001", false, nil, []string{live}},
		{"gone since", []string{"x"}, "y", true, ErrOutdated, []string{"x"}},
		{"a newer format", []string{newer}, newer, false, ErrOdd, []string{newer}},
		{"a newer format, by force", []string{newer}, newer, true, nil, nil},
		{"one of two records", []string{live, newer}, newer, false, ErrOdd, []string{live, newer}},
		{"one of two records, by force", []string{live, newer}, newer, true, nil, []string{live}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := t.TempDir()
			for _, e := range test.entries {
				at := filepath.Join(path, lockName, e)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				err := os.Mkdir(at, 0o755)
				if !strings.HasSuffix(e, "/") {
					err = errors.Join(os.Remove(at), os.Symlink("{}", at))
				}
				if err != nil && !errors.Is(err, os.ErrExist) {
					t.Fatal(err)
				}
			}
			err := Break(openDir(t, path), path, test.named, self(t), test.force)
			if !errors.Is(err, test.want) || (test.want == nil) != (err == nil) {
				t.Errorf("%v, want %v", err, test.want)
			}
			left := names(t, filepath.Join(path, lockName))
			slices.Sort(test.left)
			if !slices.Equal(left, test.left) {
				t.Errorf("left is %q, want %q", left, test.left)
			}
			if test.left == nil && len(names(t, path)) > 0 {
				t.Error("the empty lock directory was left")
			}
		})
	}
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, lockName), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Break(openDir(t, path), path, "x", self(t), true); !errors.Is(err, ErrOdd) {
		t.Errorf("a file in the place of the lock: %v", err)
	}
}

// A candidate of another host is an operator's to discard, that of a live
// process of this host by force only.
func TestBreakCandidate(t *testing.T) {
	for _, test := range []struct {
		id    procid.ID
		force bool
		left  bool
	}{{foreignProcess(t), false, false}, {endedProcess(t), false, false}, {self(t).ID(), false, true}, {self(t).ID(), true, false}} {
		d, path, r := lockedBy(t, test.id)
		err := Break(d, path, r.candidate(), self(t), test.force)
		if (err != nil) != test.left || test.left && !errors.Is(err, syscall.EBUSY) {
			t.Errorf("%v", err)
		}
		left := names(t, path)
		if slices.Contains(left, r.candidate()) != test.left || !slices.Contains(left, lockName) {
			t.Errorf("left is %q", left)
		}
		if err := Break(d, path, record{holder: test.id, nonce: 2}.candidate(), self(t), true); !errors.Is(err, ErrOutdated) {
			t.Errorf("a candidate that is not there: %v", err)
		}
	}
}

// A lock that somebody left empty is removed with the rest.
func TestRecoverRemovesAnEmptyLock(t *testing.T) {
	path := t.TempDir()
	if err := os.Mkdir(filepath.Join(path, lockName), 0o755); err != nil {
		t.Fatal(err)
	}
	freed, err := Recover(openDir(t, path), self(t))
	if freed || err != nil || len(names(t, path)) > 0 {
		t.Errorf("freed %v, %v; left is %q", freed, err, names(t, path))
	}
}

// Two that recover one lock at once: one does.
func TestRecoverersMeet(t *testing.T) {
	for range 20 {
		d, path, _ := lockedBy(t, endedProcess(t))
		freed := make(chan bool, 4)
		for range cap(freed) {
			go func() {
				f, err := Recover(d, self(t))
				if err != nil {
					t.Error(err)
				}
				freed <- f
			}()
		}
		n := 0
		for range cap(freed) {
			if <-freed {
				n++
			}
		}
		if left := names(t, path); n != 1 || len(left) > 0 {
			t.Fatalf("%d recovered it; left is %q", n, left)
		}
	}
}

// What a hint tells to type is one word for each argument, whatever the path.
func TestAdvice(t *testing.T) {
	const rec = "v1,alpha,x"
	for _, test := range []struct {
		st    Status
		wants string
	}{
		{Status{State: Free}, ""},
		{Status{State: Stale}, "lockfs recover '/a b'"},
		{Status{State: Held, Verdict: "foreign", Host: "alpha", Record: rec}, "if host alpha never comes back: lockfs break '/a b' " + rec},
		{Status{State: Held, Verdict: "unknown", Host: "alpha", Record: rec}, "lockfs break '/a b' " + rec},
		{Status{State: Held, Verdict: "alive"}, "wait for it"},
		{Status{State: Held, Verdict: "foreign", SharedMachine: true}, "LOCKFS_HOST_ID"},
		{Status{State: Held, Verdict: "foreign", Copied: true, Record: rec}, "a copy of the lock, made with its directory; if it is: lockfs break '/a b' " + rec},
		{Status{State: Held, Verdict: "alive", Copied: true, Record: rec}, "lockfs break --force '/a b' " + rec},
		{Status{State: Odd, Entries: []string{"it's"}}, `lockfs break '/a b' 'it'\''s'`},
		{Status{State: Odd, Entries: []string{"v9,x"}}, "lockfs break '/a b' v9,x --force"},
		{Status{State: Odd}, "look at '/a b/.lockfs'"},
	} {
		test.st.Advise("/a b")
		if test.st.Path != "/a b" || !strings.Contains(test.st.Hint, test.wants) || test.wants == "" && test.st.Hint != "" {
			t.Errorf("%+v", test.st)
		}
	}
}

// A lock that came with its directory from elsewhere is told from one that was
// taken where it stands.
func TestCopiedLock(t *testing.T) {
	taken := func(since time.Time, modified *time.Time) Status {
		t.Helper()
		path := t.TempDir()
		r := record{holder: foreignProcess(t), nonce: 1}
		if err := os.Mkdir(filepath.Join(path, lockName), 0o755); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(path, r.inLock())
		if err := os.Symlink(note{Cause: Cause{Program: "cp"}, Since: since}.String(), at); err != nil {
			t.Fatal(err)
		}
		if modified != nil {
			ts := unix.NsecToTimespec(modified.UnixNano())
			if err := unix.UtimesNanoAt(unix.AT_FDCWD, at, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				t.Fatal(err)
			}
		}
		st, err := StatusOf(openDir(t, path), path, self(t).Judge)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	old := time.Now().Add(-time.Hour)
	for name, test := range map[string]struct {
		st     Status
		copied bool
	}{
		"in place":       {taken(time.Now(), nil), false},
		"cp -r":          {taken(old, nil), true},
		"cp -a":          {taken(old, &old), true},
		"without a note": {taken(time.Time{}, nil), false},
	} {
		if test.st.Copied != test.copied || strings.Contains(test.st.Hint, "looks like a copy") != test.copied {
			t.Errorf("%s: %+v", name, test.st)
		}
	}
}

func TestStatusOf(t *testing.T) {
	shared := foreignProcess(t)
	shared.Machine, shared.Boot, shared.Host = self(t).ID().Machine, "0123456789abcdef0123456789abcdef", "beta"
	shared.Fingerprint = "0123456789abcdef"
	for _, test := range []struct {
		name    string
		id      procid.ID
		state   State
		verdict string
	}{
		{"dead", endedProcess(t), Stale, "dead"},
		{"alive", self(t).ID(), Held, "alive"},
		{"foreign", foreignProcess(t), Held, "foreign"},
		{"a clone's", shared, Held, "foreign"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, path, r := lockedBy(t, test.id)
			s, err := StatusOf(d, path, self(t).Judge)
			if err != nil {
				t.Fatal(err)
			}
			if s.Path != path || s.State != test.state || s.Verdict != test.verdict || s.Record != r.name() ||
				s.PID != test.id.PID || s.Cause.Program != "cp" || !s.Since.Equal(time.Unix(1, 0)) ||
				!slices.Equal(s.Candidates, []string{r.candidate()}) || s.Hint == "" || s.Reason == "" {
				t.Errorf("%+v", s)
			}
		})
	}
	for name, want := range map[string]State{"free": Free, lockName + "/x": Odd, lockName: Free} {
		path := t.TempDir()
		if err := os.MkdirAll(filepath.Join(path, name), 0o755); err != nil {
			t.Fatal(err)
		}
		s, err := StatusOf(openDir(t, path), path, self(t).Judge)
		if err != nil || s.State != want || (want == Odd) != (len(s.Entries) > 0) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	for v, want := range map[procid.Verdict]string{procid.Alive: "alive", procid.Dead: "dead", procid.Foreign: "foreign", procid.Unknown: "unknown"} {
		if got := verdictName(v); got != want {
			t.Errorf("%v is called %q", v, got)
		}
	}
}

// What bears the lock's name and is none is followed by nobody.
func TestOddPlaces(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a link to a directory": func(path string) error { return os.Symlink("/", path) },
		"a file":                func(path string) error { return os.WriteFile(path, nil, 0o644) },
	} {
		path := t.TempDir()
		if err := make(filepath.Join(path, lockName)); err != nil {
			t.Fatal(err)
		}
		s, err := StatusOf(openDir(t, path), path, self(t).Judge)
		if err != nil || s.State != Odd || !strings.Contains(s.Reason, "no directory") {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// The manager of a real process, and its notes of its locks in their order.
func TestManagerOfThisProcess(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	slices.Sort(dirs)
	m := NewManager(Config{Self: self(t)})
	released := make(chan string, len(dirs))
	var holds []*Hold
	for _, i := range []int{2, 0, 1} {
		p := place(t, dirs[i])
		p.Released = func(lost bool) {
			if lost {
				t.Error("the lock is said to be lost")
			}
			if left := names(t, p.Path); len(left) > 0 {
				t.Errorf("released, and left is %q", left)
			}
			released <- p.Path
		}
		holds = append(holds, acquire(t, m, Request{Place: p, Job: job(t, 1)}))
	}
	var listed []string
	for _, s := range m.Status() {
		listed = append(listed, s.Path)
	}
	if !slices.Equal(listed, dirs) {
		t.Errorf("listed are %q, want %q", listed, dirs)
	}
	for _, h := range holds {
		h.Release()
		<-released
	}
	m.Seen(place(t, dirs[0]), lockName) // nothing is there
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	m.Seen(place(t, dirs[0]), lockName)
}

// Two directories of which one stays held: all or nothing, and no longer than
// the wait.
func TestAcquireBothGivesUp(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	m := newHost().manager(t, 1, 0, nil)
	one := Request{Place: place(t, a), Job: job(t, 1)}
	two := Request{Place: place(t, b), Job: job(t, 1)}
	theirs := two
	theirs.Job = job(t, 2)
	held := acquire(t, m, theirs)
	defer held.Release()
	for _, wait := range []time.Duration{0, 30 * time.Millisecond} {
		one.Wait = wait
		if _, _, err := m.AcquireBoth(t.Context(), one, two); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("after %v: %v, want EBUSY", wait, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	one.Wait = Forever
	ended := make(chan error)
	go func() { _, _, err := m.AcquireBoth(ctx, one, two); ended <- err }()
	eventually(t, "a waiter", func() bool { return m.Contended(two.Place.Key) })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	eventually(t, "the end of the first lock", func() bool { return len(names(t, a)) == 0 })
}

// What people have written into a lock is shown as far as it can be read.
func TestNoteThatIsNone(t *testing.T) {
	for _, target := range []string{"", "{", "[]", "nowhere"} {
		if got := parseNote(target); got != (note{}) {
			t.Errorf("%q is read as %+v", target, got)
		}
	}
}
