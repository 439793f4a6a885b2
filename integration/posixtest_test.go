package integration

import (
	"context"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"
)

// notForUs are the tests of go-fuse's suite that it does not run itself
// (TestAll in its posixtest_test.go).
var notForUs = map[string]string{
	"FcntlFlockLocksFile": "it is broken",
	"OpenSymlinkRace":     "it is a stress that needs a second, racing program",
}

// clientPosixtest runs go-fuse's tests of a file system below the directory
// args[0].
func clientPosixtest(args []string) error {
	if err := flag.CommandLine.Parse([]string{"-test.v"}); err != nil {
		return err
	}
	var tests []testing.InternalTest
	for _, name := range slices.Sorted(maps.Keys(posixtest.All)) {
		if notForUs[name] != "" {
			continue
		}
		tests = append(tests, testing.InternalTest{Name: name, F: func(t *testing.T) {
			dir := filepath.Join(args[0], name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			posixtest.All[name](t, dir)
		}})
	}
	if !testing.RunTests(func(string, string) (bool, error) { return true, nil }, tests) {
		return errors.New("not all tests have passed")
	}
	return nil
}

// The tests that go-fuse has for any file system pass through the mount.
func TestPosixtest(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(w.ctx, bound)
	defer cancel()
	cmd := w.alpha.Command(client, "posixtest", w.in())
	cmd.Env = append(cmd.Env, clientEnv+"=1")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	w.nothingLeft()
}
