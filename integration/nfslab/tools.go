package nfslab

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// toolPackages bring the programs of the disk of tools, and the libraries that
// these load.
var toolPackages = []string{
	"coreutils", "dash", "diffutils", "findutils", "git", "grep", "gzip", "make", "rsync", "sed", "sqlite3", "tar",
	"python3-minimal", "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib",
	"libacl1", "libattr1", "libbz2-1.0", "libc6", "libexpat1", "libffi8", "libgcc-s1", "libgmp10", "liblz4-1", "liblzma5",
	"libpcre2-8-0", "libpopt0", "libreadline8", "libselinux1", "libsqlite3-0", "libssl3", "libtinfo6", "libxxhash0",
	"libzstd1", "zlib1g",
}

// toolsSize is that of the disk of tools, in bytes. The file is sparse.
const toolsSize = 256 << 20

// unwanted of the packages is what no program reads.
var unwanted = []string{"share/doc", "share/man", "share/locale", "share/info", "share/lintian"}

// buildTools returns a file that holds an ext4 file system, which is /usr of
// hosts that have it; made unless it is in the cache.
func buildTools(ctx context.Context) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	unlock, err := lockFile(filepath.Join(cache, "lock"), unix.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer unlock()
	packages, err := resolve(ctx, toolPackages...)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, fmt.Sprintf("tools-%.8x", sha256.Sum256(fmt.Append(nil, imageFormat, packages, unwanted))))
	disk := filepath.Join(dir, "disk")
	if _, err := os.Stat(dir); err == nil {
		return disk, useImage(dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := dropUnused(cache, "new-*", "download-*", "tools-*"); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := makeTools(ctx, cache, tmp, packages); err != nil {
		return "", fmt.Errorf("nfslab: make the disk of tools: %w", err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return "", err
	}
	return disk, useImage(dir)
}

// makeTools makes the disk in dir.
func makeTools(ctx context.Context, cache, dir string, packages []pkg) error {
	root := filepath.Join(dir, "root")
	if err := unpack(ctx, cache, root, packages); err != nil {
		return err
	}
	usr := filepath.Join(root, "usr")
	// The packages are for a /bin and /lib beside /usr; there, these lead into it.
	for _, name := range []string{"bin", "lib", "lib64"} {
		if err := command(ctx, "cp", "-a", filepath.Join(root, name), usr); err != nil {
			return err
		}
	}
	for _, name := range unwanted {
		if err := os.RemoveAll(filepath.Join(usr, name)); err != nil {
			return err
		}
	}
	disk := filepath.Join(dir, "disk")
	if err := os.WriteFile(disk, nil, 0o644); err != nil {
		return err
	}
	if err := os.Truncate(disk, toolsSize); err != nil {
		return err
	}
	mkfs, err := lookPath("mkfs.ext4")
	if err != nil {
		return err
	}
	if err := command(ctx, mkfs, "-q", "-F", "-O", "^has_journal", "-m", "0", "-d", usr, disk); err != nil {
		return err
	}
	return os.RemoveAll(root)
}

// command runs a command, whose output is told only if it fails.
func command(ctx context.Context, argv ...string) error {
	if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("nfslab: %s: %w: %s", filepath.Base(argv[0]), err, out)
	}
	return nil
}
