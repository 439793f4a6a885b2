package procid

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The tests that need another process run this binary again, in a role. A
// helper prints one line of JSON when it is ready, and ends when its standard
// input does.
const roleEnv = "PROCID_TEST_ROLE"

// deadline bounds every wait for a state. No test asserts a time.
const deadline = 60 * time.Second

func init() {
	if os.Getenv(roleEnv) != "" {
		runtime.LockOSThread() // main stays on the main thread
	}
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		if err := roles[role](); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// roles are what a helper can be.
var roles = map[string]func() error{
	"live":      roleLive,
	"headless":  roleHeadless,
	"judge":     roleJudge,
	"hidden":    roleHidden,
	"named":     roleNamed,
	"catch":     roleCatch,
	"session":   roleSession,
	"churn":     roleChurn,
	"outermost": roleOutermost,
	"unseen":    roleUnseen,
}

// ready prints what the helper has to say.
func ready(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }

// untilEOF waits until the test has let go.
func untilEOF() { io.Copy(io.Discard, os.Stdin) }

// roleLive says who it is, and lives.
func roleLive() error {
	l, err := Self()
	if err != nil {
		return err
	}
	if err := ready(l.ID()); err != nil {
		return err
	}
	untilEOF()
	return nil
}

// roleHeadless is a process whose main thread ends while another lives.
func roleHeadless() error {
	l, err := Self()
	if err != nil {
		return err
	}
	go func() {
		// Ready once /proc agrees.
		for st, err := hostProc.stat(l.ID().PID); err == nil && st.state != 'Z'; st, err = hostProc.stat(l.ID().PID) {
			time.Sleep(time.Millisecond)
		}
		if ready(l.ID()) != nil {
			os.Exit(1)
		}
		untilEOF()
		os.Exit(0)
	}()
	unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
	return errors.New("the main thread lives")
}

// roleJudge judges the process in JUDGE, as the user in JUDGE_UID.
func roleJudge() error {
	var id ID
	if err := json.Unmarshal([]byte(os.Getenv("JUDGE")), &id); err != nil {
		return err
	}
	l, err := Self()
	if err != nil {
		return err
	}
	if uid, err := strconv.Atoi(os.Getenv("JUDGE_UID")); err == nil {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(uid), syscall.Setuid(uid)); err != nil {
			return err
		}
	}
	return ready(verdictOf{l.ID(), l.Judge(id)})
}

// verdictOf is what a judging helper says.
type verdictOf struct {
	Self ID
	J    Judgement
}

// roleHidden makes its /proc hide others' processes, and has a child of
// root's judged by one of nobody's. It is the first process of a pid
// namespace of its own, since before Linux 5.8 the option is the namespace's.
func roleHidden() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, "hidepid=2"); err != nil {
		return err
	}
	h, err := startHelper(context.Background(), "live")
	if err != nil {
		return err
	}
	defer h.stop()
	var id ID
	if err := h.line(&id); err != nil {
		return err
	}
	id.Start-- // could it be seen, it would count as another process
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	j, err := startHelper(context.Background(), "judge", "JUDGE="+string(b), "JUDGE_UID=65534")
	if err != nil {
		return err
	}
	defer j.stop()
	var v verdictOf
	if err := j.line(&v); err != nil {
		return err
	}
	return ready(v)
}

// roleNamed calls its main thread NAME.
func roleNamed() error {
	name, err := unix.BytePtrFromString(os.Getenv("NAME"))
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0, 0, 0); err != nil {
		return err
	}
	return roleLive()
}

// roleCatch catches every signal that may be caught.
func roleCatch() error {
	signal.Notify(make(chan os.Signal, 64))
	return roleLive()
}

// roleSession begins a session and starts a member of it, which outlives it if
// it is killed: the two share the standard input.
func roleSession() error {
	if _, err := unix.Setsid(); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	member := exec.Command(exe)
	member.Env = append(os.Environ(), roleEnv+"=live")
	member.Stdin = os.Stdin
	out, err := member.StdoutPipe()
	if err != nil {
		return err
	}
	if err := member.Start(); err != nil {
		return err
	}
	var id ID
	if err := json.NewDecoder(out).Decode(&id); err != nil {
		return err
	}
	if err := ready([]int{os.Getpid(), id.PID}); err != nil {
		return err
	}
	return member.Wait()
}

// roleChurn starts and ends processes until the test lets go.
func roleChurn() error {
	done := make(chan struct{})
	go func() { untilEOF(); close(done) }()
	if err := ready(true); err != nil {
		return err
	}
	for {
		select {
		case <-done:
			return nil
		default:
			if err := exec.Command("/bin/true").Run(); err != nil {
				return err
			}
		}
	}
}

// roleOutermost takes its pid namespace, all of which it may read, for the
// initial one, and judges a process of one within it amid others that come and
// go.
func roleOutermost() error {
	l, err := Self()
	if err != nil {
		return err
	}
	l.id.PIDNS = initialPIDNS
	churn, err := startHelper(context.Background(), "churn")
	if err != nil {
		return err
	}
	defer churn.stop()
	h, err := startHelper(context.Background(), "live", "WRAP=unshare -fp --mount-proc --kill-child")
	if err != nil {
		return err
	}
	defer h.stop()
	var id ID
	if err := h.line(&id); err != nil {
		return err
	}
	for range 200 {
		// One that vanishes in the look at it may make a doubt, but no death.
		if j := l.Judge(id); j.Verdict != Unknown {
			return fmt.Errorf("while it lives: %+v", j)
		}
	}
	if err := h.stop(); err != nil {
		return err
	}
	var j Judgement
	for end := time.Now().Add(deadline); j.Verdict != Dead; j = l.Judge(id) {
		if time.Now().After(end) {
			return fmt.Errorf("after its end: %+v", j)
		}
	}
	return ready(j)
}

// roleUnseen asks for itself in a /proc of an outer pid namespace.
func roleUnseen() error {
	tid := unix.Gettid()
	_, find := FindThread(tid)
	_, _, prog := Look(tid).Program()
	_, groups := Look(tid).Groups()
	j1, job1 := JobOf(BySession, tid, 0)
	j2, job2 := JobOf(BySession, tid, 0)
	for _, err := range []error{find, prog, groups, job1, job2} {
		if !errors.Is(err, ErrUnseen) {
			return fmt.Errorf("%v; want ErrUnseen", err)
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(0, &st); err != nil {
		return err
	}
	if j1 == j2 || !EndsWait(tid) || HasOpen(tid, st.Dev, st.Ino) || !(Thread{TID: tid, Start: 1}).Alive() {
		return fmt.Errorf("jobs %v, %v; EndsWait %v, HasOpen %v", j1, j2, EndsWait(tid), HasOpen(tid, st.Dev, st.Ino))
	}
	return ready(true)
}

// helper is a running helper process.
type helper struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs *strings.Builder
	once sync.Once
	err  error
}

// startHelper starts a helper in a role; env may hold "WRAP=cmd args", which
// runs the helper as its last argument.
func startHelper(ctx context.Context, role string, env ...string) (*helper, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	argv := []string{exe}
	for _, e := range env {
		if w, ok := strings.CutPrefix(e, "WRAP="); ok {
			argv = append(strings.Fields(w), argv...)
		}
	}
	h := &helper{errs: new(strings.Builder)}
	h.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	// The race detector would have every helper sleep for a second at its end.
	h.cmd.Env = append(append(os.Environ(), roleEnv+"="+role, "GORACE=atexit_sleep_ms=0"), env...)
	h.cmd.Stderr = h.errs
	h.cmd.WaitDelay = deadline
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.out = bufio.NewReader(out)
	return h, h.cmd.Start()
}

// line reads what the helper says when it is ready.
func (h *helper) line(v any) error {
	b, err := h.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the helper: %w, %v, %s", err, h.stop(), h.errs)
	}
	return json.Unmarshal(b, v)
}

// stop lets the helper end, and reaps it.
func (h *helper) stop() error {
	h.once.Do(func() {
		h.in.Close()
		h.err = h.cmd.Wait()
	})
	return h.err
}

// start starts a helper for the test and reads its line into v.
func start(t *testing.T, v any, role string, env ...string) *helper {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*deadline)
	h, err := startHelper(ctx, role, env...)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { h.stop(); cancel() })
	if err := h.line(v); err != nil {
		t.Fatal(err)
	}
	return h
}

// eventually fails unless f comes true before the deadline.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", deadline, what)
		}
	}
}

// skip skips a test that lacks what msg says, and fails it where nothing may
// be lacking.
func skip(t *testing.T, msg string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(msg)
	}
	t.Skip(msg)
}

// needUnshare skips a test that makes namespaces, unless unshare(1) can make
// these.
func needUnshare(t *testing.T, args string) string {
	t.Helper()
	wrap := "unshare " + args
	if out, err := exec.Command("sh", "-c", wrap+" true").CombinedOutput(); err != nil {
		skip(t, fmt.Sprintf("needs root and util-linux's %q: %v, %s", wrap, err, out))
	}
	return "WRAP=" + wrap
}

// self returns the test's own identity.
func self(t *testing.T) *Local {
	t.Helper()
	l, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	return l
}
