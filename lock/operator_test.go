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
	// What is no lock is nobody's to break.
	path := t.TempDir()
	if err := os.MkdirAll(filepath.Join(path, lockName, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Break(openDir(t, path), path, "x", self(t), true); !errors.Is(err, ErrOdd) {
		t.Errorf("an odd lock: %v", err)
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
