package fs

import (
	"sync"
	"syscall"
	"time"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
)

const (
	// moment is how long the kernel takes the attributes of a file for valid. It
	// makes a tick of its clock of it, 1 to 10 ms (time_to_jiffies in
	// fs/fuse/dir.c), and asks no more at each read(2) from its cache.
	moment = time.Nanosecond
	// shownFor is how long it may take until an answer has reached the kernel
	// and that moment is over.
	shownFor = time.Second
	// shownMost is how many files of a directory may be valid at once.
	shownMost = 64
)

// shown knows the files of a directory whose attributes the kernel may still
// take for valid. Who has just got the lock must not.
type shown struct {
	mu    sync.Mutex
	files map[*fusefs.Inode]time.Time
}

// add notes that the file's attributes are about to be told, and reports
// whether they may be taken for valid.
func (s *shown) add(file *fusefs.Inode) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if _, ok := s.files[file]; !ok && len(s.files) >= shownMost {
		for f, at := range s.files {
			if now.Sub(at) > shownFor {
				delete(s.files, f)
			}
		}
		if len(s.files) >= shownMost {
			return false
		}
	}
	if s.files == nil {
		s.files = map[*fusefs.Inode]time.Time{}
	}
	s.files[file] = now
	return true
}

// end has the kernel ask again for whatever it may take for valid. An answer
// that is on its way is worth nothing then either: it is of an older version
// (fuse_reverse_inval_inode in fs/fuse/inode.c).
func (s *shown) end() (failed syscall.Errno) {
	s.mu.Lock()
	files := s.files
	s.files = nil
	s.mu.Unlock()
	for f, at := range files {
		if time.Since(at) > shownFor {
			continue
		}
		// No pages: those of a file that has changed go when it is asked.
		no := f.NotifyContent(-1, 0)
		if no != 0 && no != syscall.ENOENT { // the kernel may have forgotten it
			failed = no
		}
	}
	return failed
}
