package fs

import "golang.org/x/sys/unix"

// spareMost is how many descriptors the files that programs open leave to the
// daemon. Else a close, which needs one to have the server get what was written
// and more to see that the lock stood, would fail for the want of it; and so would
// a stat, which has nothing to do with how many files are open.
const spareMost = 64

// room returns EMFILE if programs have so many files open that one more would have
// a spare descriptor. It is called before each open for a program.
func (t *tree) room() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil // the open itself will tell
	}
	t.mu.Lock()
	open := uint64(len(t.open))
	t.mu.Unlock()
	// Each may have a lock, with two descriptors, and idleDirs leaves three
	// quarters of all: so there is no need to look.
	if 6*open < limit.Cur {
		return nil
	}
	return t.root.use(func(fd int) error {
		// The kernel gives the lowest number that is free.
		lowest, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		unix.Close(lowest) // O_PATH: it has nothing to fail with
		if uint64(lowest) >= limit.Cur-min(spareMost, limit.Cur/8) {
			return unix.EMFILE
		}
		return nil
	})
}
