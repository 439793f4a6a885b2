package fs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// detach takes the mount out of the tree of names. Who uses it, keeps it.
func (s *Server) detach() error {
	err := unix.Unmount(s.target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if !errors.Is(err, unix.EPERM) {
		return os.NewSyscallError("umount", err)
	}
	out, err := exec.Command("fusermount3", "-u", "-z", "--", s.target).CombinedOutput()
	if err != nil {
		return fmt.Errorf("fusermount3: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// syncBatch is how many files one process syncs: their names fit into its
// arguments.
const syncBatch = 200

// flushMappings has the kernel write what programs have stored in mappings of
// files: it tells nobody of that before. This process serves what is then
// written, so another one asks for it, by fsync(2) of each file: syncfs(2) does
// not wait for FUSE (mapping_no_data_integrity in fs/fs-writeback.c, Linux
// 6.16). It can be killed by ctx, but is not waited for if the file server does
// not answer.
func (s *Server) flushMappings(ctx context.Context) error {
	flushed := make(chan error, 1)
	go func() {
		var failed error
		for paths := range slices.Chunk(s.tree.written(s.target), syncBatch) {
			out, err := exec.CommandContext(ctx, "sync", append([]string{"--"}, paths...)...).CombinedOutput()
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("sync: %w: %s", err, strings.TrimSpace(string(out))))
			}
		}
		flushed <- failed
	}()
	select {
	case err := <-flushed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deviceAt returns the device number of what is mounted at target. The mount
// itself is not asked: this process serves it.
func deviceAt(target string) (uint64, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return 0, err
	}
	dev, ok := findDevice(string(text), target)
	if !ok {
		return 0, fmt.Errorf("%s is not in /proc/self/mountinfo", target)
	}
	return dev, nil
}

// readAheadKiB is how far the kernel reads ahead of a program: as much as one
// request can carry. What suits a disk, 128 KiB, makes eight requests of that.
const readAheadKiB = 1024

// setReadAhead sets how far the kernel reads ahead in the mount with that device
// number. Only root may, and where /sys can be written.
func setReadAhead(dev uint64) error {
	name := fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(dev), unix.Minor(dev))
	return os.WriteFile(name, []byte(strconv.Itoa(readAheadKiB)), 0)
}

// findDevice returns the device number of the last mount at target in a text
// of proc_pid_mountinfo(5).
func findDevice(mountinfo, target string) (dev uint64, ok bool) {
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) < 5 || unescape.Replace(f[4]) != target {
			continue
		}
		var major, minor uint32
		if _, err := fmt.Sscanf(f[2], "%d:%d", &major, &minor); err != nil {
			continue
		}
		dev, ok = unix.Mkdev(major, minor), true
	}
	return dev, ok
}

// unescape undoes what the kernel does to names in a mountinfo
// (show_mountinfo in fs/proc_namespace.c).
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#")
