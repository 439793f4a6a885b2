package nfslab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// diskSize is what a server's disk can hold, in bytes. The file is sparse.
const diskSize = 512 << 20

// makeDisk makes a file that holds an empty file system.
func makeDisk(ctx context.Context, img image, path, fsType string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Truncate(diskSize); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	var cmd *exec.Cmd
	switch fsType {
	case "xfs":
		cmd = exec.CommandContext(ctx, filepath.Join(img.mkfsXFS, "mkfs.xfs"), "-q", path)
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+img.mkfsXFS)
	default:
		mkfs, err := lookPath("mkfs.ext4")
		if err != nil {
			return err
		}
		cmd = exec.CommandContext(ctx, mkfs, "-q", "-F", path)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nfslab: %s: %w: %s", filepath.Base(cmd.Path), err, out)
	}
	return nil
}
