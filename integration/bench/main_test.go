package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process with a role is this test's own.
func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) != "" || os.Getenv(mainEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// mainEnv makes the test binary the command.
const mainEnv = "LOCKFS_BENCH_TEST"

// bench returns the command, with a directory of its own for what it makes.
func bench(t *testing.T, args ...string) (cmd *exec.Cmd, tmp string) {
	t.Helper()
	need(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tmp = t.TempDir()
	cmd = exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), mainEnv+"=1", "TMPDIR="+tmp)
	return cmd, tmp
}

// need skips a test that can't mount here; in CI it fails instead.
func need(t *testing.T) {
	t.Helper()
	_, err := os.Stat("/dev/fuse")
	if os.Geteuid() == 0 && err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("needs root and /dev/fuse")
	}
	t.Skip("needs root and /dev/fuse")
}

// nothingLeft checks that the command has left no file and no mount.
func nothingLeft(t *testing.T, tmp string) {
	t.Helper()
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left in %s: %v, %v", tmp, left, err)
	}
	if m, err := isMounted(tmp); m || err != nil {
		t.Errorf("mounted at %s: %v, %v", tmp, m, err)
	}
}

func TestAllWorkOnLockfs(t *testing.T) {
	docs := t.TempDir()
	page := filepath.Join(docs, "performance.md")
	const begin, end = "before\n<!-- " + writes + ": -->\n", "<!-- end -->\nafter\n"
	if err := os.WriteFile(page, []byte(begin+"replaced\n"+end), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd, tmp := bench(t, "-backing", "tmpfs", "-fs", "lockfs", "-scale", "0.001", "-rounds", "1", "-write", docs)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"lockfs", "clients: 16", "peak memory"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); !strings.HasPrefix(s, begin) || !strings.HasSuffix(s, end) ||
		strings.Contains(s, "replaced") || !strings.Contains(s, "| clients: 16 |") {
		t.Errorf("performance.md:\n%s", s)
	}
	if _, err := os.Stat(filepath.Join(docs, "performance-tmpfs.svg")); err != nil {
		t.Error(err)
	}
	nothingLeft(t, tmp)
}

func TestInterruptLeavesNothing(t *testing.T) {
	cmd, tmp := bench(t, "-backing", "tmpfs", "-fs", "loopback", "-work", "clients", "-scale", "0.01", "-rounds", "100000")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Its first line says that it works in the mounts.
	var line [256]byte
	n, err := out.Read(line[:])
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	go func() {
		for err == nil {
			_, err = out.Read(line[:])
		}
	}()
	if err := cmd.Wait(); err == nil {
		t.Errorf("after a SIGTERM at %q it exits with 0", line[:n])
	}
	nothingLeft(t, tmp)
}

// A daemon that stops answering is an error, and nothing hangs.
func TestSilentDaemonIsEnded(t *testing.T) {
	cmd, tmp := bench(t, "-backing", "tmpfs", "-fs", "loopback", "-work", "clients: 1", "-scale", "0.01", "-rounds", "20", "-limit", "2s")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	daemon := 0
	for deadline := time.Now().Add(time.Minute); daemon == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no daemon is started")
		}
		daemon = find(t, filepath.Join("mnt", "tmpfs", "loopback")+"\x00", tmp)
	}
	// Not before it serves, which the command waits for.
	for deadline := time.Now().Add(time.Minute); ; {
		mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", daemon))
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("it does not mount: %v", err)
		}
		if bytes.Contains(mounts, []byte("mnt/tmpfs/loopback ")) {
			break
		}
	}
	if err := syscall.Kill(daemon, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(out.String(), "too long") {
		t.Errorf("it ends with %v and\n%s", err, &out)
	}
	nothingLeft(t, tmp)
}

// find returns the process whose arguments contain all words, or 0.
func find(t *testing.T, words ...string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		args, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		all := true
		for _, w := range words {
			all = all && bytes.Contains(args, []byte(w))
		}
		if all {
			pid, err := strconv.Atoi(strings.Split(f, "/")[2])
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	return 0
}

// A task that does not end is killed, and the daemon with it.
func TestTaskThatHangsIsEnded(t *testing.T) {
	daemon := exec.Command("sleep", "1000")
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	dir := t.TempDir()
	for _, d := range []string{"fixture", "fixture/few"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i := range fewFiles {
		if err := os.WriteFile(fmt.Sprintf("%s/fixture/few/%d", dir, i), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, err := runTask(ctx, task{Work: "list a small directory", Scale: 1e6, Dir: dir, Back: dir, Name: "w", Daemon: daemon.Process.Pid})
	if err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("it ends with %v", err)
	}
	if err := daemon.Wait(); err == nil {
		t.Error("the daemon was not killed")
	}
}

func TestCPUClock(t *testing.T) {
	before, err := cpuClock(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for {
		now, err := cpuClock(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if now > before {
			break
		}
	}
	if d, err := cpuClock(0); d != 0 || err != nil {
		t.Errorf("without a daemon: %v, %v", d, err)
	}
}

func TestParse(t *testing.T) {
	c, err := parse([]string{"-backing", "tmpfs,/x", "-fs", "lock", "-rounds", "2"})
	if err != nil || len(c.backings) != 2 || c.rounds != 2 {
		t.Errorf("%+v, %v", c, err)
	}
	for name, want := range map[string]bool{lockFS: true, "nolock": true, bindFS: false} {
		if c.systems.match(name) != want || !c.works.match(name) {
			t.Errorf("%s: chosen %v", name, !want)
		}
	}
	for _, args := range [][]string{{"word"}, {"-rounds", "0"}, {"-scale", "0"}, {"-scale", "NaN"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

func TestReport(t *testing.T) {
	res := &result{
		backing: "tmpfs", systems: []string{native, bindFS, lockFS}, cells: map[string]map[string]*cell{},
		works: []work{{name: "w", unit: "B"}, {name: "x", unit: "files"}},
	}
	for system, times := range map[string][]time.Duration{
		native: {3, 1, 2}, bindFS: {4, 40, 1}, lockFS: {80, 8, 8},
	} {
		for _, s := range times {
			res.cell("w", system).samples = append(res.cell("w", system).samples,
				sample{Amount: 2 << 30, Time: s * time.Second, Daemon: time.Second, Kernel: 3 * time.Second})
		}
	}
	res.cell("x", lockFS).err = errors.New("no")
	want := [][]string{
		{"", native, bindFS, lockFS},
		{"w", "1024 MiB/s", "0.50", "0.25"},
		{"x", "-", "-", "failed"},
	}
	if got := res.speeds(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("speeds %q, want %q", got, want)
	}
	if got := res.costs()[1]; got[1] != "2000" {
		t.Errorf("costs %q, want 2000 ms a GiB", got)
	}
	if got := res.behind(); len(got) != 1 || got[0] != "w: 0.25, behind bindfs (0.50)" {
		t.Errorf("behind: %q", got)
	}
	if n := (&report{results: []*result{res}}).failures(); n != 1 {
		t.Errorf("%d failures, want 1", n)
	}
	if svg := res.plot(); strings.Count(svg, "<title>") != 2 {
		t.Errorf("want two dots in\n%s", svg)
	}
}

func TestPlotX(t *testing.T) {
	for ratio, want := range map[float64]float64{0: plotLeft, plotFirst: plotLeft, plotLast: plotLeft + plotWidth, 99: plotLeft + plotWidth} {
		if got := plotX(ratio); got != want {
			t.Errorf("%g is at %g, want %g", ratio, got, want)
		}
	}
}
