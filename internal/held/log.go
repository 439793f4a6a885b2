package held

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// suffix ends the names of the notes in a directory. Their owner has each
	// locked (flock(2)) until he ends.
	suffix = ".held"
	// syncAfter is how long a change may be unsynced.
	syncAfter = time.Second
	// compactAt is the size at which a note is written anew, with what is held
	// only; it grows with that.
	compactAt = 1 << 20
	// maxPending is how much may wait to be written. Beyond it, the note is
	// written anew when the disk answers.
	maxPending = 1 << 20
)

// Log is the note of one process.
type Log struct {
	dir  string
	tell func(error)

	mu      sync.Mutex
	held    map[string]int
	pending []byte
	anew    bool // the note must be written anew

	wake chan struct{}
	stop chan struct{}
	done chan struct{}

	// Of the goroutine.
	file   *os.File
	size   int64
	failed bool
}

// Open begins a note in the directory, which is made for this user alone if it
// is not there, and returns what the notes of processes that have ended name:
// paths that were locked and not released. They are part of the new note until
// Released is called for each. tell is called when the note can't be written,
// once for each such time, and when it can again not at all.
func Open(dir string, tell func(error)) (l *Log, left []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	old, err := takeOver(dir)
	if err != nil {
		return nil, nil, err
	}
	defer old.close()
	l = &Log{dir: dir, tell: tell, held: map[string]int{},
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	for path := range old.paths {
		l.held[path]++
		left = append(left, path)
	}
	if err := l.rewrite(); err != nil {
		return nil, nil, err
	}
	if err := old.remove(); err != nil {
		return nil, nil, errors.Join(err, l.file.Close(), os.Remove(l.file.Name()))
	}
	go l.write()
	return l, left, nil
}

// Taken notes that the directory path is locked. It does not wait.
func (l *Log) Taken(path string) { l.note('+', path, 1) }

// Released notes that it is not any more, once for each Taken.
func (l *Log) Released(path string) { l.note('-', path, -1) }

func (l *Log) note(sign byte, path string, by int) {
	l.mu.Lock()
	if l.held[path] += by; l.held[path] <= 0 {
		delete(l.held, path)
	}
	if len(l.pending) < maxPending {
		l.pending = appendLine(l.pending, sign, path)
	} else {
		l.anew = true
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // it is told already
	}
}

// Close ends the note. If nothing is held any more, nothing of it is left.
func (l *Log) Close() error {
	close(l.stop)
	<-l.done
	l.mu.Lock()
	n := len(l.held)
	l.mu.Unlock()
	if n > 0 {
		return errors.Join(l.file.Sync(), l.file.Close())
	}
	err := errors.Join(os.Remove(l.file.Name()), l.file.Close())
	// Another's note may be in it.
	_ = os.Remove(l.dir)
	return err
}

// write writes what is noted until the log is closed.
func (l *Log) write() {
	defer close(l.done)
	var sync <-chan time.Time
	for {
		select {
		case <-l.wake:
			l.told(l.flush())
			if sync == nil {
				sync = time.After(syncAfter)
			}
		case <-sync:
			sync = nil
			l.told(l.file.Sync())
		case <-l.stop:
			l.told(l.flush())
			return
		}
	}
}

// told tells of a first error.
func (l *Log) told(err error) {
	if err != nil && !l.failed {
		l.tell(err)
	}
	l.failed = err != nil
}

// flush writes what has been noted since.
func (l *Log) flush() error {
	l.mu.Lock()
	text, anew := l.pending, l.anew
	l.pending = nil
	l.mu.Unlock()
	if !anew {
		n, err := l.file.Write(text)
		l.size += int64(n)
		switch {
		case err != nil:
			l.mu.Lock()
			l.anew = true // a part of a line may stand there
			l.mu.Unlock()
			return err
		case l.size < compactAt:
			return nil
		}
	}
	return l.rewrite()
}

// rewrite makes a new file with what is held now.
func (l *Log) rewrite() error {
	l.mu.Lock()
	text := []byte(header)
	for path := range l.held {
		text = appendLine(text, '+', path)
	}
	l.pending, l.anew = nil, false
	l.mu.Unlock()
	f, err := create(l.dir)
	if err == nil {
		if _, err = f.Write(text); err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}
	if err != nil {
		l.mu.Lock()
		l.anew = true
		l.mu.Unlock()
		return err
	}
	old := l.file
	// What is held for long does not have the note written anew at each take.
	l.file, l.size = f, -int64(len(text))
	if old == nil {
		return nil
	}
	return errors.Join(os.Remove(old.Name()), old.Close())
}

// create makes a new file that this process has locked.
func create(dir string) (*os.File, error) {
	for {
		f, err := os.CreateTemp(dir, fmt.Sprintf("%d-*%s", os.Getpid(), suffix))
		if err != nil {
			return nil, err
		}
		// Another may take it for that of a dead process before it is locked.
		ok, err := own(f)
		if err == nil && ok {
			return f, nil
		}
		f.Close()
		if err != nil {
			return nil, errors.Join(err, os.Remove(f.Name()))
		}
	}
}

// own locks the file. ok is false if another has, or had and has removed it.
func own(f *os.File) (ok bool, err error) {
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, os.NewSyscallError("flock", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return false, os.NewSyscallError("fstat", err)
	}
	return st.Nlink > 0, nil
}

// ended are the notes of processes that have ended.
type ended struct {
	files []*os.File
	paths map[string]bool
}

// takeOver locks and reads the notes in dir whose owners have ended.
func takeOver(dir string) (*ended, error) {
	e := &ended{paths: map[string]bool{}}
	names, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*"+suffix))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, errors.Join(err, e.close())
		}
		ok, err := own(f)
		if err == nil && ok {
			err = e.read(f)
			e.files = append(e.files, f)
		} else {
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return nil, errors.Join(err, e.close())
		}
	}
	return e, nil
}

func (e *ended) close() (err error) {
	for _, f := range e.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

func (e *ended) remove() (err error) {
	for _, f := range e.files {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
