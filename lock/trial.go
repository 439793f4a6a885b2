package lock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/lockfs/lockfs/procid"
)

// Outcome is how a file system has passed a trial.
type Outcome uint8

const (
	// Kept: it does what the protocol rests on.
	Kept Outcome = iota
	// Awkward: it does not, and the protocol can do without it.
	Awkward
	// Broken: two could hold one lock there.
	Broken
	// Unable: no lock can be taken there.
	Unable
	// Untried: it could not be tried, as where nothing may be written.
	Untried
)

// Trial is one thing that was tried of a file system.
type Trial struct {
	Name    string
	Outcome Outcome
	// Text says what was seen.
	Text string
}

// Try tries in the directory d whether its file system does what the protocol
// rests on, as far as one host can tell, with a dozen requests; thorough, with
// some hundred more, in which several contend. What it makes bears the names
// of candidates, so that a crash in its midst leaves nothing that is not
// discarded by the next who looks.
func Try(d Dir, self *procid.Local, thorough bool) []Trial {
	t := &trial{d: d, h: newHolder(self.ID(), self.Judge)}
	for _, step := range []func() bool{t.mkdir, t.symlink, t.renameOntoFull, t.renameOntoEmpty, t.swap} {
		if !step() {
			break
		}
	}
	if thorough && t.sound() {
		t.longNames()
		t.contend()
	}
	t.clean()
	return t.seen
}

// trial is a run of Try.
type trial struct {
	d    Dir
	h    *holder
	made []record // whose candidates may stand
	seen []Trial
	// a holds a record, and b is the one that it is moved to.
	a, b record
}

func (t *trial) say(name string, o Outcome, format string, args ...any) bool {
	t.seen = append(t.seen, Trial{name, o, fmt.Sprintf(format, args...)})
	return o == Kept || o == Awkward
}

// sound reports whether nothing has gone wrong yet.
func (t *trial) sound() bool {
	return !slices.ContainsFunc(t.seen, func(s Trial) bool { return s.Outcome > Awkward })
}

// untried is for a call that failed though nothing was wrong with it.
func (t *trial) untried(name, call string, err error) bool {
	o := Unable
	for _, no := range []syscall.Errno{syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, no) {
			o = Untried
		}
	}
	return t.say(name, o, "%s: %v", call, err)
}

// newRecord is one whose candidate clean removes.
func (t *trial) newRecord() record {
	r := t.h.newRecord()
	t.made = append(t.made, r)
	return r
}

// build makes the candidate of a new record.
func (t *trial) build() (record, error) {
	r := t.newRecord()
	if err := t.d.Mkdir(r.candidate(), 0o755); err != nil {
		return r, err
	}
	return r, t.d.Symlink("{}", r.candidate()+"/"+r.name())
}

func (t *trial) mkdir() bool {
	const name = "mkdir makes a directory once"
	t.a = t.newRecord()
	if err := t.d.Mkdir(t.a.candidate(), 0o755); err != nil {
		return t.untried(name, "a directory", err)
	}
	switch err := t.d.Mkdir(t.a.candidate(), 0o755); {
	case errors.Is(err, syscall.EEXIST):
		return t.say(name, Kept, "the second time it says that it is there")
	case err == nil:
		return t.say(name, Broken, "it made the same directory twice")
	default:
		return t.say(name, Unable, "the second time it says: %v", err)
	}
}

func (t *trial) symlink() bool {
	const name = "a symbolic link keeps a long text"
	target := strings.Repeat("x", 1000) // as long as a note may be
	at := t.a.candidate() + "/" + t.a.name()
	if err := t.d.Symlink(target, at); err != nil {
		return t.say(name, Unable, "%v", err)
	}
	if got, err := t.d.Readlink(at); err != nil || got != target {
		return t.say(name, Awkward, "of %d bytes %d came back (%v): who holds is known, but not why", len(target), len(got), err)
	}
	return t.say(name, Kept, "%d bytes", len(target))
}

func (t *trial) renameOntoFull() bool {
	const name = "rename leaves a directory alone that is not empty"
	var err error
	if t.b, err = t.build(); err != nil {
		return t.untried(name, "a second lock", err)
	}
	err = t.d.Rename(t.a.candidate(), t.b.candidate())
	names, lerr := t.d.List(t.b.candidate())
	switch {
	case err == nil:
		return t.say(name, Broken, "it replaced one: a lock that is held would be taken away")
	case !held(err):
		return t.say(name, Unable, "it says: %v", err)
	case lerr != nil:
		return t.say(name, Unable, "a listing: %v", lerr)
	case !slices.Equal(names, []string{t.b.name()}):
		return t.say(name, Broken, "it did, but a listing does not show what is there (%d names): who holds cannot be known", len(names))
	}
	return t.say(name, Kept, "%v", err)
}

func (t *trial) renameOntoEmpty() bool {
	const name = "rename replaces an empty directory"
	if err := t.d.Unlink(t.b.candidate() + "/" + t.b.name()); err != nil {
		return t.untried(name, "a record's end", err)
	}
	outcome, text := Kept, "in one step"
	err := t.d.Rename(t.a.candidate(), t.b.candidate())
	if held(err) {
		outcome, text = Awkward, "it does not: a lock that a crash has left empty costs a moment more"
		if err = t.d.Rmdir(t.b.candidate()); err == nil {
			err = t.d.Rename(t.a.candidate(), t.b.candidate())
		}
	}
	if err != nil {
		return t.say(name, Unable, "%v", err)
	}
	return t.say(name, outcome, "%s", text)
}

// swap renames the record in b's candidate twice: of two who recover a lock one
// wins, and the other is told.
func (t *trial) swap() bool {
	const name = "a rename of a record is a compare-and-swap"
	dir := t.b.candidate() + "/"
	first, second := t.newRecord(), t.newRecord()
	if err := t.d.Rename(dir+t.a.name(), dir+first.name()); err != nil {
		return t.say(name, Unable, "%v", err)
	}
	err := t.d.Rename(dir+t.a.name(), dir+second.name())
	if err != nil && !absent(err) {
		return t.say(name, Unable, "for a record that is gone it says: %v", err)
	}
	names, lerr := t.d.List(t.b.candidate())
	switch {
	case err == nil:
		return t.say(name, Broken, "a record that is gone can be renamed")
	case lerr != nil:
		return t.say(name, Unable, "a listing: %v", lerr)
	case !slices.Equal(names, []string{first.name()}):
		return t.say(name, Broken, "a listing shows %d names and not the one that is there: what stands cannot be known", len(names))
	}
	return t.say(name, Kept, "who comes second is told, and a listing shows who won")
}

func (t *trial) longNames() {
	const name, most = "names may have 255 bytes", 255
	at := t.b.candidate() + "/" + strings.Repeat("n", most)
	err := t.d.Symlink("x", at)
	if err == nil {
		err = t.d.Unlink(at)
	}
	if err != nil {
		// Longer than any that lockfs makes.
		t.say(name, Awkward, "%v: programs may miss them, lockfs itself does not", err)
		return
	}
	t.say(name, Kept, "they do")
}

// Several contend for a lock, then to recover it, again and again.
const (
	contenders = 8
	rounds     = 8
)

func (t *trial) contend() {
	const name = "of several one wins"
	for range rounds {
		target := t.newRecord()
		var rivals [contenders]record
		for i := range rivals {
			var err error
			if rivals[i], err = t.build(); err != nil {
				t.untried(name, "a candidate", err)
				return
			}
		}
		winner, won, wrong := race(func(i int) error { return t.d.Rename(rivals[i].candidate(), target.candidate()) }, held)
		if won != 1 || wrong != nil {
			t.contended(name, "take", won, wrong)
			return
		}
		dir := target.candidate() + "/"
		_, won, wrong = race(func(i int) error {
			return t.d.Rename(dir+rivals[winner].name(), fmt.Sprintf("%s%d", dir, i))
		}, absent)
		if won != 1 || wrong != nil {
			t.contended(name, "recover", won, wrong)
			return
		}
		t.clean()
	}
	t.say(name, Kept, "%d at once, %d times, to take and to recover", contenders, rounds)
}

func (t *trial) contended(name, what string, won int, wrong error) {
	if won > 1 {
		t.say(name, Broken, "%d of %d could %s one lock", won, contenders, what)
		return
	}
	t.say(name, Unable, "%d of %d could %s a lock; who could not was told: %v", won, contenders, what, wrong)
}

// race has all contenders do try at once. It returns who won last, how many
// did, and an error that is not the one of who comes second.
func race(try func(i int) error, second func(error) bool) (winner, won int, wrong error) {
	var errs [contenders]error
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = try(i) })
	}
	all.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
			winner = i
			won++
		case !second(err):
			wrong = errors.Join(wrong, err)
		}
	}
	return winner, won, wrong
}

// clean removes what was made. What can't be removed is a fault by itself.
func (t *trial) clean() {
	var failed error
	for _, r := range t.made {
		names, err := t.d.List(r.candidate())
		for _, n := range names {
			failed = errors.Join(failed, t.d.Unlink(r.candidate()+"/"+n))
		}
		if err == nil {
			err = t.d.Rmdir(r.candidate())
		}
		if err != nil && !absent(err) {
			failed = errors.Join(failed, err)
		}
		drop(r)
	}
	t.made = nil
	if failed != nil {
		t.say("what is made can be removed", Unable, "%v", failed)
	}
}
