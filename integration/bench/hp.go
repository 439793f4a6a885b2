package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Debian has passthrough_hp's source only: this is that of its release 12.
const (
	hpURL    = "https://deb.debian.org/debian/pool/main/f/fuse3/fuse3_3.14.0.orig.tar.xz"
	hpSHA256 = "96115b2a8ff34bd1e0c7b00c5dfd8297571d7e165042b94498c9a26356a9a70a"
	hpSource = "fuse-3.14.0/example"
)

// buildHP builds libfuse's passthrough_hp, keeps it in the user's cache, and
// returns its path.
func buildHP(tmp string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	program := filepath.Join(cache, "lockfs-bench", "passthrough_hp-"+hpSHA256[:12])
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	for _, need := range []struct{ file, get string }{
		{"/usr/include/fuse3/fuse_lowlevel.h", "libfuse3-dev"}, {"/usr/bin/g++", "g++"}, {"/usr/bin/xz", "xz-utils"},
	} {
		if _, err := os.Stat(need.file); err != nil {
			return "", fmt.Errorf("%w (apt-get install %s)", err, need.get)
		}
	}
	source, err := download(hpURL, hpSHA256)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return "", err
	}
	untar := exec.Command("tar", "-xJ", hpSource)
	untar.Dir, untar.Stdin = tmp, bytes.NewReader(source)
	built := filepath.Join(tmp, "passthrough_hp")
	compile := exec.Command("g++", "-O2", "-D_FILE_OFFSET_BITS=64", "-I/usr/include/fuse3",
		"-DHAVE_UTIMENSAT", "-DHAVE_POSIX_FALLOCATE", "-DHAVE_SETXATTR", // as its own build finds out
		"-o", built, filepath.Join(tmp, hpSource, "passthrough_hp.cc"), "-lfuse3", "-lpthread")
	move := exec.Command("mv", built, program) // across file systems
	for _, cmd := range []*exec.Cmd{untar, compile, move} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w: %s", cmd.Args[0], err, out)
		}
	}
	return program, nil
}

// download returns what is at url, if it is what the sum says.
func download(url, sum string) ([]byte, error) {
	client := http.Client{Timeout: 2 * time.Minute}
	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return nil, err
	}
	if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != sum {
		return nil, fmt.Errorf("%s is not what it was: its SHA-256 is %x", url, got)
	}
	return data, nil
}
