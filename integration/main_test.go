package integration

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	_ "github.com/lockfs/lockfs/fs" // see lookAtProgram
)

// clientEnv makes the test binary a client: a program that acts in a mount.
const clientEnv = "LOCKFS_TEST_CLIENT"

// lockfs and client are the program under test and this binary.
var lockfs, client string

// The go command keeps a test's result until something changes that the test
// imports or looks at. The program under test is neither.
var lookAtProgram = sync.OnceValue(func() error {
	if *program != "" {
		return nil
	}
	return filepath.WalkDir("../cmd/lockfs", func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			_, err = os.Stat(path)
		}
		return err
	})
})

var program = flag.String("lockfs", "", "the lockfs to test (that of this source tree): a test of its own binary then needs neither Go nor the sources")

// buildFlags are go build's for the program under test.
var buildFlags []string

func TestMain(m *testing.M) {
	if os.Getenv(clientEnv) != "" {
		os.Exit(runClient(os.Args[1:]))
	}
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lockfs-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	lockfs = filepath.Join(dir, "lockfs")
	if client, err = os.Executable(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if *program != "" {
		lockfs, err = filepath.Abs(*program)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}
	build := exec.Command("go", append(append([]string{"build", "-o", lockfs}, buildFlags...), "../cmd/lockfs")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
