package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// fits returns why source can't be mounted at target, as far as that can be
// known before: each with what helps, and with the code to end with.
func fits(source, target string) error {
	for _, check := range []func() error{
		func() error { return sourceFits(source) },
		func() error { return targetFits(target) },
		func() error { return notOurs(source) },
		fuseFits,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func targetFits(target string) error {
	m, err := topMount(target)
	if err != nil {
		return err
	}
	if m != nil && m.ours() {
		return withCode(exitHeld, fmt.Errorf("%s is a mount of lockfs already, of %s", target, m.source))
	}
	if err := directory(target); err != nil {
		return fmt.Errorf("mountpoint: %w", err)
	}
	return nil
}

func sourceFits(source string) error {
	// First, since below a mountpoint on which nothing is mounted yet there is
	// mostly nothing.
	if err := mountedBefore(source); err != nil {
		return err
	}
	if err := directory(source); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	// Root may be refused what those are allowed whom he serves (root_squash).
	if os.Geteuid() != 0 {
		if err := unix.Faccessat(unix.AT_FDCWD, source, unix.R_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
			return withCode(exitRefused, fmt.Errorf("source: %s: %w", source, err))
		}
	}
	return nil
}

// directory returns an error unless name leads to a directory.
func directory(name string) error {
	st, err := os.Stat(name)
	switch {
	case errors.Is(err, os.ErrPermission):
		return withCode(exitRefused, err)
	case err != nil:
		return withCode(exitCreate, err)
	case !st.IsDir():
		return withCode(exitCreate, fmt.Errorf("%s is not a directory", name))
	}
	return nil
}

// notOurs returns an error if source is in a mount of lockfs: the locks that
// one takes in the other would be hidden by it.
func notOurs(source string) error {
	var st unix.Stat_t
	if err := unix.Stat(source, &st); err != nil {
		return withCode(exitCreate, fmt.Errorf("source: %s: %w", source, err))
	}
	dev := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	ms, err := mounts()
	if err != nil {
		return err
	}
	for _, m := range ms {
		if m.ours() && m.dev == dev {
			return withCode(exitCreate, fmt.Errorf("the source %s is in a mount of lockfs already, at %s", source, m.point))
		}
	}
	return nil
}

// mountedBefore returns an error if source is to be in a file system that
// /etc/fstab names and that is not mounted.
func mountedBefore(source string) error {
	text, err := os.ReadFile("/etc/fstab")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("is %s mounted already? %w", source, err)
	}
	want, ok := fstabMount(string(text), source)
	if !ok {
		return nil
	}
	m, err := topMount(want.point)
	if err != nil || m != nil {
		return err
	}
	return withCode(exitCreate, fmt.Errorf("%s is not mounted yet: in /etc/fstab it is %s, of which the source %s is a part; mount it first (in fstab: x-systemd.requires-mounts-for=%s)",
		want.point, want.source, source, want.point))
}

// fstabMount returns the entry of a text of fstab(5), other than one of
// lockfs, in which the path is: the one with the longest mountpoint.
func fstabMount(text, path string) (mountEntry, bool) {
	var best mountEntry
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 3 || strings.HasPrefix(f[0], "#") {
			continue
		}
		m := mountEntry{source: unescape(f[0]), point: filepath.Clean(unescape(f[1])), fsType: f[2]}
		if m.fsType == "lockfs" || m.ours() || !filepath.IsAbs(m.point) || len(m.point) <= len(best.point) {
			continue
		}
		if m.point == "/" || path == m.point || strings.HasPrefix(path, m.point+"/") {
			best = m
		}
	}
	return best, best.point != "" && best.point != "/"
}

// fuseFits returns why no FUSE file system can be mounted here.
func fuseFits() error {
	if os.Geteuid() != 0 {
		if err := fusermountFits(); err != nil {
			return err
		}
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrPermission):
		return withCode(exitRefused, fmt.Errorf("%w (udev makes it 0666; in a container: --device /dev/fuse)", err))
	case err != nil:
		return withCode(exitUnfit, fmt.Errorf("there is no FUSE here: %w (modprobe fuse; in a container: --device /dev/fuse --cap-add SYS_ADMIN)", err))
	}
	f.Close()
	return nil
}

// fusermountFits returns an error without what mounts for a user. go-fuse looks
// for it in the same places.
func fusermountFits() error {
	if _, err := exec.LookPath("fusermount3"); err == nil {
		return nil
	}
	if _, err := exec.LookPath("/bin/fusermount3"); err != nil {
		return withCode(exitUnfit, errors.New("a mount by another user than root needs fusermount3: apt install fuse3"))
	}
	return nil
}
