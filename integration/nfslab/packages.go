package nfslab

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
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
	// Named by what is in it: apt's own names lose the version's colon.
	deb := func(p pkg) string { return filepath.Join(dir, "deb", p.sha256) }
	var missing []pkg
	for _, p := range packages {
		if _, err := os.Stat(deb(p)); errors.Is(err, os.ErrNotExist) {
			missing = append(missing, p)
		} else if err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		if err := download(ctx, dir, missing); err != nil {
			return err
		}
	}
	for _, p := range packages {
		if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", deb(p), root).CombinedOutput(); err != nil {
			return fmt.Errorf("nfslab: dpkg-deb -x %v: %w: %s", p, err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// download has apt download the packages, all at once since it takes its time to
// begin, and check them against the archive's signed list, and puts each into
// dir/deb under its sum's name.
func download(ctx context.Context, dir string, packages []pkg) error {
	debs := filepath.Join(dir, "deb")
	if err := os.MkdirAll(debs, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, "download-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	args := []string{"-qq", "-o", "Acquire::Retries=3", "download"}
	for _, p := range packages {
		args = append(args, p.String())
	}
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nfslab: apt-get download: %w: %s", err, bytes.TrimSpace(out))
	}
	got, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil {
		return err
	}
	sums := map[string]string{} // to the file
	for _, path := range got {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sums[fmt.Sprintf("%x", sha256.Sum256(text))] = path
	}
	for _, p := range packages {
		path := sums[p.sha256]
		if path == "" {
			return fmt.Errorf("nfslab: apt-get download of %v left %v, none with its sum", p, got)
		}
		if err := os.Rename(path, filepath.Join(debs, p.sha256)); err != nil {
			return err
		}
	}
	return nil
}
