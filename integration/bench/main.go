// Command bench measures what lockfs costs. It runs the same work on a tree
// itself (native) and through lockfs, lockfs that takes no locks, and other
// pass-through file systems, side by side and in turn on one backing, and
// prints each one's speed as a ratio to native:
//
//	go run ./integration/bench                  # all of it: half an hour on a quiet machine
//	go run ./integration/bench -scale 0.02 -rounds 1 -backing tmpfs -budget 30s
//	go run ./integration/bench -backing /nfs/scratch/bench -fs lockfs,bindfs -work small
//	go run ./integration/bench -write docs      # tables and plots into docs/performance.md
//
// It needs root, /dev/fuse and Go. What else it lacks it leaves out, and says
// so. All mounts and processes live in namespaces of their own, which end with
// the command however it ends. Every piece of work is done by a process that
// serves no mount, under a time limit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// roleEnv is set in the processes that this program starts of itself.
const roleEnv = "LOCKFS_BENCH_ROLE"

const (
	roleInside   = "inside"   // measures, in the namespaces
	roleWork     = "work"     // does one piece of work
	roleLoopback = "loopback" // serves go-fuse's loopback
)

func main() {
	var err error
	switch os.Getenv(roleEnv) {
	case "":
		err = outside()
	case roleInside:
		err = inside()
	case roleWork:
		err = workMain()
	case roleLoopback:
		err = serveLoopback(os.Args[1], os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// config is what the command line says.
type config struct {
	backings []string
	systems  words
	works    words
	rounds   int
	scale    float64
	limit    time.Duration
	budget   time.Duration
	write    string
	lockfs   string
	hp       string
	tmp      string // the directory for all that is made; outside's
}

// words choose among names: those that contain one of them, or all if empty.
type words []string

func (w words) match(name string) bool {
	for _, s := range w {
		if strings.Contains(name, s) {
			return true
		}
	}
	return len(w) == 0
}

// parse reads the command line.
func parse(args []string) (config, error) {
	var c config
	var backings, systems, works string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&backings, "backing", "tmpfs,ext4", "what to measure on: tmpfs, ext4 (on a loop device), or the absolute path of a directory")
	f.StringVar(&systems, "fs", "", "only the file systems whose names contain one of these words (and native)")
	f.StringVar(&works, "work", "", "only the work whose name contains one of these words")
	f.IntVar(&c.rounds, "rounds", 5, "how often each piece of work is done on each file system; medians count")
	f.Float64Var(&c.scale, "scale", 1, "the amount of work: 1 is 256 MiB and 10,000 small files")
	f.DurationVar(&c.limit, "limit", 5*time.Minute, "how long one piece of work may take; what takes longer is an error")
	f.DurationVar(&c.budget, "budget", 6*time.Hour, "how long all may take, about; what would begin later is left out")
	f.StringVar(&c.write, "write", "", "write the tables into performance.md in this directory, and plots beside it")
	f.StringVar(&c.lockfs, "lockfs", "", "the lockfs to measure (that of this source tree)")
	f.StringVar(&c.hp, "passthrough-hp", "", "libfuse's passthrough_hp (built from Debian's source)")
	f.StringVar(&c.tmp, "tmp", "", "") // from outside to inside
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("what is %q? See -help", f.Arg(0))
	}
	if c.rounds < 1 || !(c.scale > 0) {
		return c, errors.New("-rounds and -scale are positive")
	}
	list := func(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) }
	c.backings, c.systems, c.works = list(backings), list(systems), list(works)
	return c, nil
}

// outside runs this program again in a mount and a pid namespace, which take
// every mount and process with them when they end, and cleans up after it.
func outside() error {
	if _, err := parse(os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("needs root, to mount")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return fmt.Errorf("needs FUSE: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "lockfs-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	// Its death signal is sent when this thread ends.
	runtime.LockOSThread()
	cmd := exec.CommandContext(ctx, self, append([]string{"-tmp", tmp}, os.Args[1:]...)...)
	cmd.Env = append(os.Environ(), roleEnv+"="+roleInside)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   unix.CLONE_NEWPID,
		Unshareflags: unix.CLONE_NEWNS, // which also makes all mounts private
		Pdeathsig:    unix.SIGKILL,
		Setpgid:      true, // Ctrl-C is for this process
	}
	err = cmd.Run()
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if err != nil {
		return fmt.Errorf("not all went well: %w", err)
	}
	return nil
}

// inside measures everything and reports it.
func inside() error {
	c, err := parse(os.Args[1:])
	if err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	r := newReport(c)
	systems, err := findSystems(&c, r.note)
	if err != nil {
		return err
	}
	for _, name := range c.backings {
		b, err := newBacking(name, c.tmp)
		if err != nil {
			r.note("%s is left out: %v", name, err)
			continue
		}
		res, err := measureOn(c, b, systems, r.began.Add(c.budget), r.note)
		if err = errors.Join(err, b.close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.results = append(r.results, res)
		fmt.Print(r.text(res))
	}
	r.end()
	for _, n := range r.notes {
		fmt.Println("note:", n)
	}
	if c.write != "" {
		if err := r.write(c.write); err != nil {
			return err
		}
	}
	if n := r.failures(); n > 0 {
		return fmt.Errorf("%d pieces of work failed", n)
	}
	return nil
}

// moduleDir is where this module's source is.
func moduleDir() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w", err)
	}
	return filepath.Clean(strings.TrimSpace(string(out))), nil
}
