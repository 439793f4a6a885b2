package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stressDirs are the directories that the stress works in.
var stressDirs = []string{"D", "E", "F"}

// A worker of the stress writes down what it does in a directory of notes
// beside the tree, without lockfs:
//
//	stop               there once the workers shall end
//	failures           what must not be
//	in.<dir>/<note>    one for each that writes in the directory now
//	log.<pid>.<start>  "try" and "ack" lines of what it did to the tree
//	job.<job>.<dir>    flock(2) among the processes of one job
type worker struct {
	mnt, notes, job string
	id              string // <pid>.<start>
	log             *os.File
	rnd             *rand.Rand
	seq             int
}

// errMountDied says that the worker's daemon was killed.
var errMountDied = errors.New("the mount has died")

// clientWorker works in the mount args[0], with the notes in args[1], as one
// of the job args[2], until it is told to stop or its daemon is dead.
func clientWorker(args []string) error {
	start, err := startOf(os.Getpid())
	if err != nil {
		return err
	}
	w := &worker{mnt: args[0], notes: args[1], job: args[2], id: fmt.Sprintf("%d.%s", os.Getpid(), start),
		rnd: rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(time.Now().UnixNano())))}
	if w.log, err = os.OpenFile(filepath.Join(w.notes, "log."+w.id), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return err
	}
	fmt.Println(os.Getpid())
	for {
		if _, err := os.Lstat(filepath.Join(w.notes, "stop")); err == nil {
			return nil
		}
		if err := w.step(); err != nil {
			if errors.Is(err, errMountDied) {
				return nil
			}
			return w.fail(err)
		}
	}
}

// fail writes a failure down.
func (w *worker) fail(err error) error {
	f, ferr := os.OpenFile(filepath.Join(w.notes, "failures"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if ferr != nil {
		return errors.Join(err, ferr)
	}
	_, werr := fmt.Fprintf(f, "%s of %s: %v\n", w.id, w.job, err)
	return errors.Join(err, werr, f.Close())
}

func (w *worker) step() error {
	w.seq++
	dir := stressDirs[w.rnd.IntN(len(stressDirs))]
	var err error
	switch n := w.rnd.IntN(10); {
	case n < 4:
		err = w.append(dir)
	case n < 6:
		err = w.count(dir)
	case n < 9:
		err = w.files(dir, stressDirs[w.rnd.IntN(len(stressDirs))])
	default:
		err = w.dirs(dir)
	}
	if err != nil {
		// The kernel answers for a dead daemon with two errnos, and for the
		// whole mount from then on.
		var st unix.Statfs_t
		if errors.Is(unix.Statfs(w.mnt, &st), unix.ENOTCONN) {
			return errMountDied
		}
	}
	return err
}

// op gives an error the name of what failed.
func op(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// writing opens a file for writing, and so holds the directory's lock, and
// closes it after f.
func (w *worker) writing(dir, name string, flags int, f func(fd int) error) error {
	path := filepath.Join(w.mnt, dir, name)
	fd, err := unix.Open(path, flags|unix.O_CREAT, 0o644)
	if err != nil {
		return op("open "+path, err)
	}
	err = w.alone(dir, func() error { return op("write "+path, f(fd)) })
	return errors.Join(err, op("close "+path, unix.Close(fd)))
}

// append adds a line to the directory's log.
func (w *worker) append(dir string) error {
	line := fmt.Sprintf("%s %s %d", w.job, w.id, w.seq)
	if err := w.note("try", dir, "line", line); err != nil {
		return err
	}
	err := w.writing(dir, "log", unix.O_WRONLY|unix.O_APPEND, func(fd int) error {
		n, err := unix.Write(fd, []byte(line+"\n"))
		if err == nil && n != len(line)+1 {
			err = fmt.Errorf("%d bytes were written of %d", n, len(line)+1)
		}
		return err
	})
	if err != nil {
		return err
	}
	return w.note("ack", dir, "line", line)
}

// count adds one to the directory's counter. The processes of a job share its
// lock, and so need one of their own among each other.
func (w *worker) count(dir string) error {
	mine, err := os.OpenFile(filepath.Join(w.notes, "job."+w.job+"."+dir), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer mine.Close()
	if err := unix.Flock(int(mine.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	if err := w.note("try", dir, "count", ""); err != nil {
		return err
	}
	err = w.writing(dir, "counter", unix.O_RDWR, func(fd int) error {
		var buf [32]byte
		n, err := unix.Pread(fd, buf[:], 0)
		if err != nil {
			return err
		}
		old := 0
		if n > 0 {
			if old, err = strconv.Atoi(strings.TrimSpace(string(buf[:n]))); err != nil {
				return err
			}
		}
		_, err = unix.Pwrite(fd, fmt.Appendf(nil, "%12d\n", old+1), 0)
		return err
	})
	if err != nil {
		return err
	}
	return w.note("ack", dir, "count", "")
}

// files makes a file, moves it to another directory, reads and removes it.
func (w *worker) files(dir, to string) error {
	name := fmt.Sprintf("f.%s.%d", w.id, w.seq)
	err := w.writing(dir, name, unix.O_WRONLY|unix.O_EXCL, func(fd int) error {
		_, err := unix.Write(fd, []byte(name))
		return err
	})
	if err != nil {
		return err
	}
	from, dest := filepath.Join(w.mnt, dir, name), filepath.Join(w.mnt, to, name+".moved")
	if err := unix.Rename(from, dest); err != nil {
		return op("rename "+from+" "+dest, err)
	}
	b, err := os.ReadFile(dest)
	if err != nil {
		return err
	}
	if string(b) != name {
		return fmt.Errorf("%s has %q", dest, b)
	}
	return op("unlink "+dest, unix.Unlink(dest))
}

// dirs makes a directory with a file in it and removes both.
func (w *worker) dirs(dir string) error {
	sub := filepath.Join(w.mnt, dir, fmt.Sprintf("s.%s.%d", w.id, w.seq))
	if err := unix.Mkdir(sub, 0o755); err != nil {
		return op("mkdir "+sub, err)
	}
	if err := os.WriteFile(filepath.Join(sub, "f"), []byte("x"), 0o644); err != nil {
		return err
	}
	if err := unix.Unlink(filepath.Join(sub, "f")); err != nil {
		return op("unlink in "+sub, err)
	}
	return op("rmdir "+sub, unix.Rmdir(sub))
}

// note writes a line of the worker's log.
func (w *worker) note(words ...string) error {
	_, err := w.log.WriteString(strings.Join(words, "\t") + "\n")
	return err
}

// alone runs f while the worker's note says that its job writes in the
// directory, and fails if another job's does. Notes are taken back before the
// lock is: two at once are two holders.
func (w *worker) alone(dir string, f func() error) error {
	notes := filepath.Join(w.notes, "in."+dir)
	own := filepath.Join(notes, w.job+"."+w.id)
	n, err := os.OpenFile(own, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	n.Close()
	err = w.noOther(notes)
	if err == nil {
		err = f()
	}
	return errors.Join(err, os.Remove(own))
}

// noOther returns an error if a process of another job is in. The note of a
// killed process stays behind, and the lock may be released a moment before
// it is seen to be dead: so one that dies was not in.
func (w *worker) noOther(notes string) error {
	entries, err := os.ReadDir(notes)
	if err != nil {
		return err
	}
	for _, e := range entries {
		job, pid, start, ok := parseNoteName(e.Name())
		if !ok {
			return fmt.Errorf("%q is no note", e.Name())
		}
		if job == w.job {
			continue
		}
		path := filepath.Join(notes, e.Name())
		for deadline := time.Now().Add(bound); ; time.Sleep(time.Millisecond) {
			if !lives(pid, start) {
				if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
				break
			}
			if _, err := os.Lstat(path); err != nil || time.Now().After(deadline) {
				// It may have died, and another have seen that and removed its note.
				if !lives(pid, start) {
					break
				}
				return fmt.Errorf("OVERLAP: %s is in %s at the same time as %s", e.Name(), filepath.Base(notes), w.job)
			}
		}
	}
	return nil
}

// parseNoteName reads "<job>.<pid>.<start>".
func parseNoteName(name string) (job string, pid int, start string, ok bool) {
	f := strings.Split(name, ".")
	if len(f) != 3 {
		return "", 0, "", false
	}
	pid, err := strconv.Atoi(f[1])
	return f[0], pid, f[2], err == nil
}

// startOf returns when the process started, as proc_pid_stat(5) has it; an
// error if it has ended.
func startOf(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return f[19], nil
}

func lives(pid int, start string) bool {
	got, err := startOf(pid)
	return err == nil && got == start
}
