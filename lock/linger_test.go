package lock

import (
	"io/fs"
	"testing"
	"testing/synctest"
	"time"
)

// slowDir is a directory of a server that takes its time for each change.
type slowDir struct {
	Dir
	change time.Duration
}

func (d slowDir) Mkdir(name string, mode fs.FileMode) error {
	time.Sleep(d.change)
	return d.Dir.Mkdir(name, mode)
}

func (d slowDir) Symlink(target, name string) error {
	time.Sleep(d.change)
	return d.Dir.Symlink(target, name)
}

func (d slowDir) Rename(from, to string) error {
	time.Sleep(d.change)
	return d.Dir.Rename(from, to)
}

func (d slowDir) Unlink(name string) error {
	time.Sleep(d.change)
	return d.Dir.Unlink(name)
}

func (d slowDir) Rmdir(name string) error {
	time.Sleep(d.change)
	return d.Dir.Rmdir(name)
}

// A lock lingers for as long as its server needs to release it and to give it
// again: three changes for a take, two for a release.
func TestLingerAuto(t *testing.T) {
	for _, c := range []struct {
		name         string
		change, want time.Duration
	}{
		{"a server that needs no time", 0, lingerLeast},
		{"a fast one", 100 * time.Microsecond, lingerLeast},
		{"a slow one", 20 * time.Millisecond, 5 * 20 * time.Millisecond},
		{"one that hung", time.Minute, lingerMost},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *site) {
				d := newMemFS()
				place := d.place(1)
				place.Open = func() (Dir, error) {
					dir, err := d.Open()
					return slowDir{dir, c.change}, err
				}
				m := s.process(1, LingerAuto)
				r := Request{Place: place, Job: job(t, 1), Wait: Forever}
				lingers := func() bool {
					held, ending := m.Holds(place.Key)
					return held && !ending
				}
				idle := func() {
					for len(d.all()) > 0 {
						time.Sleep(max(c.change, lingerLeast))
						synctest.Wait()
					}
				}
				acquire(t, m, r).Release()
				idle()
				acquire(t, m, r).Release()
				const little = time.Microsecond
				time.Sleep(c.want - little)
				synctest.Wait()
				if len(d.all()) == 0 || !lingers() {
					t.Errorf("the lock was let go before %v", c.want)
				}
				time.Sleep(2 * little)
				synctest.Wait()
				if lingers() {
					t.Errorf("the lock lingers for more than %v", c.want)
				}
				idle()
				s.close(m)
				d.empty(t)
			})
		})
	}
}

// One slow answer changes little.
func TestLingerFollows(t *testing.T) {
	l := linger{fixed: LingerAuto}
	for range 20 {
		l.took(2 * time.Millisecond)
		l.released(time.Millisecond)
	}
	l.took(100 * time.Millisecond)
	if d := l.duration(); d > 50*time.Millisecond {
		t.Errorf("one slow take makes locks linger for %v", d)
	}
	for range 20 {
		l.took(100 * time.Millisecond)
	}
	if d := l.duration(); d < 90*time.Millisecond || d > 101*time.Millisecond {
		t.Errorf("takes of 100 ms and releases of 1 ms make locks linger for %v", d)
	}
}
