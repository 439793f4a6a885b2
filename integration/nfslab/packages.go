package nfslab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// kernelPackages are the packages that depend on the newest kernel of a series.
var kernelPackages = map[string]string{
	"6.1":  "linux-image-cloud-amd64",
	"6.12": "linux-image-6.12-cloud-amd64",
}

// xfsPackages bring mkfs.xfs and those of its libraries that a Debian without
// it lacks.
var xfsPackages = []string{"xfsprogs", "libinih1", "liburcu8"}

// pkg is a Debian package in one version, as apt would install it now.
type pkg struct{ name, version, sha256 string }

func (p pkg) String() string { return p.name + "=" + p.version }

// kernelPackage returns the name of the series' newest kernel, which changes
// with every update of the kernel.
func kernelPackage(ctx context.Context, series string) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-cache", "depends", kernelPackages[series]).Output()
	if err != nil {
		return "", fmt.Errorf("nfslab: apt-cache depends %s: %w", kernelPackages[series], withStderr(err))
	}
	for _, line := range strings.Split(string(out), "\n") {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok && strings.HasPrefix(name, "linux-image-") {
			return name, nil
		}
	}
	return "", fmt.Errorf("nfslab: %s depends on no kernel", kernelPackages[series])
}

// resolve returns the packages of these names in the versions that apt prefers.
func resolve(ctx context.Context, names ...string) ([]pkg, error) {
	out, err := exec.CommandContext(ctx, "apt-cache", append([]string{"show", "--no-all-versions"}, names...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("nfslab: apt-cache show %s: %w", strings.Join(names, " "), withStderr(err))
	}
	var found []pkg
	var p pkg
	lines := bufio.NewScanner(bytes.NewReader(append(out, '\n')))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "Package":
			p = pkg{name: value}
		case "Version":
			p.version = value
		case "SHA256":
			p.sha256 = value
		case "":
			if p.sha256 != "" && !slices.Contains(found, p) {
				found = append(found, p)
			}
			p = pkg{}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(found) != len(names) {
		return nil, fmt.Errorf("nfslab: of the packages %v apt offers %v", names, found)
	}
	return found, nil
}

// unpack downloads the packages into the directory dir/deb, where those that
// are there already are not downloaded again, and unpacks them all into root.
func unpack(ctx context.Context, dir, root string, packages []pkg) error {
	for _, p := range packages {
		// Named by what is in it: apt's own names lose the version's colon.
		deb := filepath.Join(dir, "deb", p.sha256)
		if _, err := os.Stat(deb); errors.Is(err, os.ErrNotExist) {
			if err := download(ctx, dir, deb, p); err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
		if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", deb, root).CombinedOutput(); err != nil {
			return fmt.Errorf("nfslab: dpkg-deb -x %v: %w: %s", p, err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// download has apt download a package, and check it against the archive's
// signed list, and puts it at the path deb.
func download(ctx context.Context, dir, deb string, p pkg) error {
	if err := os.MkdirAll(filepath.Dir(deb), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, "download-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	cmd := exec.CommandContext(ctx, "apt-get", "-qq", "-o", "Acquire::Retries=3", "download", p.String())
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nfslab: apt-get download %v: %w: %s", p, err, bytes.TrimSpace(out))
	}
	got, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(got) != 1 {
		return fmt.Errorf("nfslab: apt-get download %v left %v (%v)", p, got, err)
	}
	return os.Rename(got[0], deb)
}
