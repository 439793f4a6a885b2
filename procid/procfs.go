package procid

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// procfs is where a proc(5) file system is mounted.
type procfs string

const hostProc procfs = "/proc"

// seenOurs is set once hostProc was seen to be ours. A failure is not kept: it
// may have been a want of descriptors.
var seenOurs atomic.Bool

// ourProc returns hostProc if it shows this process's own pid namespace. That
// is looked at until it was so once: whoever mounts another /proc under a
// running process must restart it.
func ourProc() (procfs, error) {
	if !seenOurs.Load() {
		if err := hostProc.mine(os.Getpid()); err != nil {
			return "", err
		}
		seenOurs.Store(true)
	}
	return hostProc, nil
}

// path returns the path of a file of the process or thread pid.
func (p procfs) path(pid int, name string) string {
	return filepath.Join(string(p), strconv.Itoa(pid), name)
}

// gone reports whether err says that the process it was read of has ended
// (or is hidden, with hidepid=2).
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// stat reads the stat file of the process or thread pid.
func (p procfs) stat(pid int) (stat, error) {
	name := p.path(pid, "stat")
	b, err := readFile(name)
	if err != nil {
		return stat{}, err
	}
	s, err := parseStat(b, pid)
	if err != nil {
		return stat{}, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// status reads the status file of the process or thread pid.
func (p procfs) status(pid int) (status, error) {
	b, err := readFile(p.path(pid, "status"))
	return b, err
}

// namespace returns the inode of a namespace of the process pid; kind is its
// name in /proc/<pid>/ns (namespaces(7)).
func (p procfs) namespace(pid int, kind string) (uint64, error) {
	name := p.path(pid, "ns/"+kind)
	link, err := os.Readlink(name)
	if err != nil {
		return 0, err
	}
	n, err := parseNamespace(link, kind)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

// parseNamespace reads "pid:[4026531836]".
func parseNamespace(link, kind string) (uint64, error) {
	s, ok := strings.CutPrefix(link, kind+":[")
	s, end := strings.CutSuffix(s, "]")
	n, err := strconv.ParseUint(s, 10, 64)
	if !ok || !end || err != nil || n == 0 {
		return 0, fmt.Errorf("%q names no %s namespace", link, kind)
	}
	return n, nil
}

// mine returns an error unless p shows the pid namespace of this process,
// whose id is pid. In a /proc of an outer one (after unshare(1) -p without
// --mount-proc) every number means another process.
func (p procfs) mine(pid int) error {
	self, err := os.Readlink(filepath.Join(string(p), "self"))
	if err != nil {
		return err
	}
	if self != strconv.Itoa(pid) {
		return fmt.Errorf("%s is of another pid namespace: it calls this process %s, not %d", p, self, pid)
	}
	// The numbers can agree by chance. NSpid lists the process's ids from the
	// namespace of this /proc down to its own: one id, one namespace.
	st, err := p.status(pid)
	if err != nil {
		return err
	}
	if ids, ok := st.field("NSpid"); ok && ids != self {
		return fmt.Errorf("%s is of another pid namespace: it calls this process %q", p, ids)
	}
	return nil
}

// pids lists the processes that p shows.
func (p procfs) pids() ([]int, error) {
	names, err := os.ReadDir(string(p))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// complete returns an error unless p lists every process whoever asks, that
// is, unless it is mounted without hidepid (proc(5)).
func (p procfs) complete() error {
	var st unix.Stat_t
	if err := unix.Stat(string(p), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: string(p), Err: err}
	}
	b, err := os.ReadFile(filepath.Join(string(p), "self/mountinfo"))
	if err != nil {
		return err
	}
	opts, err := superOptions(string(b), st.Dev)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(opts, func(o string) bool { return strings.HasPrefix(o, "hidepid=") }); i >= 0 {
		return fmt.Errorf("%s is mounted with %s", p, opts[i])
	}
	return nil
}

// superOptions returns the options of the file system dev, from the text of
// proc_pid_mountinfo(5).
func superOptions(mountinfo string, dev uint64) ([]string, error) {
	want := fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev))
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		sep := slices.Index(f, "-")
		if sep < 3 || f[2] != want || len(f) < sep+4 {
			continue
		}
		return strings.Split(f[sep+3], ","), nil
	}
	return nil, fmt.Errorf("no mount of the device %s", want)
}
