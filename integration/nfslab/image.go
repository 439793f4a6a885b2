package nfslab

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// imageFormat is part of every key: raise it when the way that an image is
// made changes in a manner that its other parts don't show.
const imageFormat = "2"

// guestModules are the kernel modules that every host loads. crc32c is asked
// for by ext4 and xfs by name only, which needs a modprobe that isn't there.
var guestModules = []string{
	"virtio_pci", "virtio_blk", "virtio_net", "virtio_rng", "crc32c_generic",
	"ext4", "xfs", "overlay", "fuse", "nfsv4", "nfsv3", "nfsd",
}

//go:embed guest
var guestFiles embed.FS

// image is what a host boots.
type image struct{ kernel, initrd, mkfsXFS string }

var built struct {
	sync.Mutex
	images map[string]image // by kernel series
}

// buildImage returns the image of a kernel series, made unless it is in the
// cache. Several processes may call it at once.
func buildImage(ctx context.Context, series string) (image, error) {
	built.Lock()
	defer built.Unlock()
	if img, ok := built.images[series]; ok {
		return img, nil
	}
	cache, err := cacheDir()
	if err != nil {
		return image{}, err
	}
	unlock, err := lockFile(filepath.Join(cache, "lock"), unix.LOCK_EX)
	if err != nil {
		return image{}, err
	}
	defer unlock()
	img, err := cachedImage(ctx, cache, series)
	if err != nil {
		return image{}, fmt.Errorf("nfslab: make the guests of kernel %s: %w", series, err)
	}
	if built.images == nil {
		built.images = map[string]image{}
	}
	built.images[series] = img
	return img, nil
}

func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "lockfs-nfslab")
	return dir, os.MkdirAll(dir, 0o755)
}

// lockFile locks the file of that name, made if need be, as flock(2) says; with
// LOCK_NB it is EWOULDBLOCK where that would wait. The lock ends with unlock, or
// with the process: the programs that it starts do not inherit it.
func lockFile(name string, how int) (unlock func(), err error) {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	for {
		if err = unix.Flock(fd, how); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "flock", Path: name, Err: err}
	}
	return func() { unix.Close(fd) }, nil
}

// cachedImage is buildImage with the cache locked.
func cachedImage(ctx context.Context, cache, series string) (image, error) {
	kernel, err := kernelPackage(ctx, series)
	if err != nil {
		return image{}, err
	}
	packages, err := resolve(ctx, append([]string{kernel, "busybox-static"}, xfsPackages...)...)
	if err != nil {
		return image{}, err
	}
	agent, err := buildAgent(ctx, cache)
	if err != nil {
		return image{}, err
	}
	key := sha256.New()
	fmt.Fprintln(key, imageFormat, packages, guestModules)
	key.Write(agent)
	for _, name := range []string{"guest/inittab", "guest/boot", "guest/lab.sh"} {
		text, err := guestFiles.ReadFile(name)
		if err != nil {
			return image{}, err
		}
		key.Write(text)
	}
	dir := filepath.Join(cache, fmt.Sprintf("guest-%s-%.8x", series, key.Sum(nil)))
	img := image{
		kernel:  filepath.Join(dir, "vmlinux"),
		initrd:  filepath.Join(dir, "initrd"),
		mkfsXFS: filepath.Join(dir, "xfs"),
	}
	if _, err := os.Stat(dir); err == nil {
		return img, useImage(dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return image{}, err
	}
	if err := dropUnused(cache, "new-*", "download-*", "guest-"+series+"-*"); err != nil {
		return image{}, err
	}
	tmp, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		return image{}, err
	}
	defer os.RemoveAll(tmp)
	if err := makeImage(ctx, cache, tmp, kernel, agent, packages); err != nil {
		return image{}, err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return image{}, err
	}
	return img, useImage(dir)
}

// inUse is the file in an image's directory that every process that boots the
// image keeps a shared lock of until it ends: a host may boot again at any time.
const inUse = "in-use"

func useImage(dir string) error {
	_, err := lockFile(filepath.Join(dir, inUse), unix.LOCK_SH)
	return err
}

// dropUnused removes from the cache what has such names and is used by nobody:
// what was made from something older, and what a killed maker left.
func dropUnused(cache string, patterns ...string) error {
	for _, pattern := range patterns {
		old, err := filepath.Glob(filepath.Join(cache, pattern))
		if err != nil {
			return err
		}
		for _, dir := range old {
			if err := removeUnused(dir, inUse); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeUnused removes a directory unless a process has the lock of the file of
// that name in it.
func removeUnused(dir, name string) error {
	unlock, err := lockFile(filepath.Join(dir, name), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	return os.RemoveAll(dir)
}

// buildAgent returns the program that runs in every host. Go's own cache makes
// this quick when nothing changed.
func buildAgent(ctx context.Context, cache string) ([]byte, error) {
	out := filepath.Join(cache, "agent")
	if err := Build(ctx, out, "github.com/lockfs/lockfs/integration/nfslab/agent"); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

// Build makes a static program for the hosts, which depends on nothing but its
// source: pkg is its import path.
func Build(ctx context.Context, out, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nfslab: go build %s: %w: %s", pkg, err, text)
	}
	return nil
}

// makeImage makes the files of an image in dir.
func makeImage(ctx context.Context, cache, dir, kernel string, agent []byte, packages []pkg) error {
	root := filepath.Join(dir, "root")
	if err := unpack(ctx, cache, root, packages); err != nil {
		return err
	}
	release := kernel[len("linux-image-"):]
	bzImage, err := os.ReadFile(filepath.Join(root, "boot", "vmlinuz-"+release))
	if err != nil {
		return err
	}
	vmlinux, err := uncompressed(bzImage)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "vmlinux"), vmlinux, 0o644); err != nil {
		return err
	}
	mods, err := modules(filepath.Join(root, "lib", "modules", release), guestModules)
	if err != nil {
		return err
	}
	busybox, err := os.ReadFile(filepath.Join(root, "bin", "busybox"))
	if err != nil {
		return err
	}
	if err := writeInitrd(filepath.Join(dir, "initrd"), mods, busybox, agent); err != nil {
		return err
	}
	if err := keepMkfsXFS(root, filepath.Join(dir, "xfs")); err != nil {
		return err
	}
	return os.RemoveAll(root)
}

// keepMkfsXFS moves mkfs.xfs and its libraries into dir.
func keepMkfsXFS(root, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, pattern := range []string{"sbin/mkfs.xfs", "usr/sbin/mkfs.xfs", "lib/*/lib*.so.*", "usr/lib/*/lib*.so.*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			if err := os.Rename(path, filepath.Join(dir, filepath.Base(path))); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeInitrd writes the root file system of every host.
func writeInitrd(path string, mods []module, busybox, agent []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	c := newCPIO(f)
	// The root itself is named: its mode is else that of the kernel's own
	// making, and another user than root could not pass.
	for _, d := range []string{".", "bin", "dev", "etc", "export", "lib", "lib/m", "mnt", "proc", "root", "run",
		"sbin", "srv", "sys", "tmp", "usr", "usr/bin", "usr/sbin", "var", "var/lib", "var/lib/nfs", "var/lib/nfs/v4recovery"} {
		c.dir(d)
	}
	c.char("dev/console", 5, 1)
	c.program("bin/busybox", busybox)
	c.program("bin/agent", agent)
	c.symlink("bin/call", "agent")
	c.symlink("init", "bin/busybox")
	c.symlink("bin/sh", "busybox")
	// Where the disk of tools, mounted on /usr, is looked for by its programs.
	c.symlink("lib64", "usr/lib64")
	c.symlink("lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu")
	c.file("etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\nu1000:x:1000:1000::/tmp:/bin/sh\nu1001:x:1001:1001::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"))
	c.file("etc/group", []byte("root:x:0:\nu1000:x:1000:\nu1001:x:1001:\nnogroup:x:65534:\n"))
	c.file("etc/hosts", []byte("127.0.0.1 localhost\n10.77.0.1 server\n10.77.0.2 reexport\n10.77.0.11 c1\n10.77.0.12 c2\n10.77.0.13 c3\n"))
	for name, to := range map[string]string{"inittab": "etc/inittab", "boot": "lib/boot", "lab.sh": "lib/lab.sh"} {
		text, err := guestFiles.ReadFile("guest/" + name)
		if err != nil {
			return err
		}
		c.program(to, text)
	}
	var order []byte
	for _, m := range mods {
		c.file("lib/m/"+m.name+".ko", m.data)
		order = fmt.Appendln(order, m.name)
	}
	c.file("lib/m/order", order)
	if err := c.close(); err != nil {
		return err
	}
	return f.Close()
}
