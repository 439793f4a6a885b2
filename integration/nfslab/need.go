package nfslab

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Packages is the one line that installs what Need asks for on a Debian.
const Packages = "apt-get update && apt-get install -y --no-install-recommends qemu-system-x86 e2fsprogs xz-utils"

// buildBound is how long the making of the guests may take: half a minute
// where the mirror is near and the machine idle.
const buildBound = 10 * time.Minute

// Need makes the guests of the default kernel and skips the test where the lab
// cannot run, saying what would help. Where the variable CI is set it fails
// instead.
func Need(t testing.TB) {
	t.Helper()
	if missing := missingTools(); len(missing) > 0 {
		lacks(t, "no "+strings.Join(missing, ", no "))
	}
	ctx, cancel := context.WithTimeout(t.Context(), buildBound)
	defer cancel()
	if _, err := buildImage(ctx, "6.1"); err != nil {
		lacks(t, err.Error())
	}
}

func missingTools() []string {
	var missing []string
	for _, tool := range []string{"qemu-system-x86_64", "mkfs.ext4", "apt-get", "apt-cache", "dpkg-deb", "xz", "go"} {
		if _, err := lookPath(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	return missing
}

// lookPath looks where administrators' programs are too.
func lookPath(tool string) (string, error) {
	path, err := exec.LookPath(tool)
	if err != nil {
		if path, e := exec.LookPath("/usr/sbin/" + tool); e == nil {
			return path, nil
		}
	}
	return path, err
}

func lacks(t testing.TB, what string) {
	t.Helper()
	what += "\nthe lab of NFS hosts needs, on Debian 12: " + Packages
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}
