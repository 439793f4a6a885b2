package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mountEntry is what is used of a line of proc_pid_mountinfo(5).
type mountEntry struct {
	dev     string // "major:minor"
	root    string // the directory of the file system that is mounted
	point   string
	fsType  string
	source  string
	options []string // of the mount and of its file system, as words of mount(8)
}

// parseMountinfo reads the text of proc_pid_mountinfo(5); a line that it
// cannot read is left out.
func parseMountinfo(text string) []mountEntry {
	var ms []mountEntry
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(line, " - ")
		f, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(f) < 6 || len(r) < 3 {
			continue
		}
		ms = append(ms, mountEntry{dev: f[2], root: unescape(f[3]), point: unescape(f[4]), fsType: r[0], source: unescape(r[1]),
			options: append(strings.Split(f[5], ","), strings.Split(r[2], ",")...)})
	}
	return ms
}

// unescape undoes the octal escapes of space, tab, newline and backslash
// (mangle_path in fs/seq_file.c).
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mounts returns the mounts of this process's namespace, one that covers
// another after that.
func mounts() ([]mountEntry, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMountinfo(string(text)), nil
}

// topMount returns the mount that is to be seen at the path point, or nil if
// nothing is mounted there. It asks the kernel only, never the mount.
func topMount(point string) (*mountEntry, error) {
	ms, err := mounts()
	if err != nil {
		return nil, err
	}
	for i := len(ms) - 1; i >= 0; i-- {
		if ms[i].point == point {
			return &ms[i], nil
		}
	}
	return nil, nil
}

// ours reports whether the mount is one of lockfs.
func (m *mountEntry) ours() bool { return m.fsType == "fuse.lockfs" }

// dead reports whether the mount's daemon has ended: the kernel then answers
// every request with ENOTCONN by itself.
func (m *mountEntry) dead() bool {
	var st unix.Statfs_t
	return errors.Is(unix.Statfs(m.point, &st), unix.ENOTCONN)
}

// mountpoint returns the absolute path of a mountpoint as mountinfo shows it,
// without asking what is mounted there: only the parent is looked up.
func mountpoint(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", err
	}
	point := filepath.Join(dir, filepath.Base(abs))
	// A symlink is no mountpoint itself; of a dead mount lstat says ENOTCONN.
	if st, err := os.Lstat(point); err == nil && st.Mode()&os.ModeSymlink != 0 {
		if point, err = filepath.EvalSymlinks(point); err != nil {
			return "", err
		}
	}
	return point, nil
}

// flags are the mount's, of mount(2).
func (m *mountEntry) flags() uintptr {
	var flags uintptr
	for _, f := range flagOptions {
		if slices.Contains(m.options, f.on) {
			flags |= f.flag
		}
	}
	return flags
}

// detach takes the mount at point out of the tree, in use or not.
func detach(point string) error {
	if err := unmountAt(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW, "-z"); err != nil {
		return fmt.Errorf("detach %s: %w", point, err)
	}
	return nil
}
