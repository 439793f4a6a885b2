package procid

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// want fails unless l judges id so.
func want(t *testing.T, l *Local, id ID, v Verdict, says string) {
	t.Helper()
	if j := l.Judge(id); j.Verdict != v || !strings.Contains(j.Reason, says) {
		t.Errorf("%+v, want %d %q", j, v, says)
	}
}

// A process from its start to its reaping.
func TestJudgeLife(t *testing.T) {
	l := self(t)
	want(t, l, l.ID(), Alive, "lives")
	var id ID
	h := start(t, &id, "live")
	want(t, l, id, Alive, "lives")
	if err := h.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "stopped", func() bool { st, err := hostProc.stat(id.PID); return err == nil && st.state == 'T' })
	want(t, l, id, Alive, "lives")
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "dead before it is reaped", func() bool { return l.Judge(id).Stale() })
	want(t, l, id, Dead, "not yet reaped")
	h.stop()
	want(t, l, id, Dead, "no process")
}

// A main thread that ended is no end of its process.
func TestJudgeHeadless(t *testing.T) {
	l := self(t)
	var id ID
	h := start(t, &id, "headless")
	want(t, l, id, Alive, "the main thread of process")
	if _, err := FindThread(id.PID); !errors.Is(err, ErrUnseen) {
		t.Errorf("its main thread: %v", err)
	}
	h.in.Close()
	eventually(t, "dead", func() bool { return l.Judge(id).Stale() })
	h.stop()
}

// A number that the kernel gave to another since.
func TestJudgeReused(t *testing.T) {
	l := self(t)
	var id ID
	start(t, &id, "live")
	for _, s := range []uint64{0, 1, id.Start - 1, id.Start + 1} {
		old := id
		old.Start = s
		want(t, l, old, Dead, "another one now")
	}
	own := l.ID()
	own.Start--
	want(t, l, own, Dead, "another one now")

	tasks, err := os.ReadDir(hostProc.path(id.PID, "task"))
	if err != nil || len(tasks) < 2 {
		t.Fatalf("the helper's threads: %v, %v", tasks, err)
	}
	for _, task := range tasks[1:] {
		thread := id
		if err := json.Unmarshal([]byte(task.Name()), &thread.PID); err != nil {
			t.Fatal(err)
		}
		want(t, l, thread, Dead, "is a thread of process")
	}
}

// Another pid namespace, from within and without, with a /proc of its own and
// not.
func TestJudgeOtherNamespace(t *testing.T) {
	l := self(t)
	for _, args := range []string{"-fp --mount-proc --kill-child", "-fp --kill-child"} {
		t.Run(args, func(t *testing.T) {
			wrap := needUnshare(t, args)
			var in ID
			h := start(t, &in, "live", wrap)
			if in.PIDNS == l.ID().PIDNS || in.PID != 1 {
				t.Fatalf("%+v is not in a namespace of its own", in)
			}
			if j := l.Judge(in); j.Verdict != Unknown {
				t.Errorf("seen from without: %+v", j)
			}
			for name, id := range map[string]ID{"without": l.ID(), "another": in} {
				b, err := json.Marshal(id)
				if err != nil {
					t.Fatal(err)
				}
				var v verdictOf
				start(t, &v, "judge", wrap, "JUDGE="+string(b))
				if v.J.Verdict != Unknown {
					t.Errorf("%s, seen from within: %+v", name, v.J)
				}
			}
			h.stop()
			// Whether it is seen that all have ended depends on who may read
			// whose links here.
			j := l.Judge(in)
			switch {
			case j.Verdict == Dead && strings.Contains(j.Reason, "no process of its pid namespace is left"):
			case j.Verdict == Unknown && !strings.Contains(j.Reason, "is in it"):
				t.Logf("not seen here: %s", j.Reason)
			default:
				t.Errorf("after its end: %+v", j)
			}
		})
	}
}

// A pid namespace that has ended is seen from the outermost, whatever else
// comes and goes there; one that lives is never taken for ended.
func TestJudgeNamespaceEnded(t *testing.T) {
	wrap := needUnshare(t, "-fp --mount-proc --kill-child")
	var j Judgement
	start(t, &j, "outermost", wrap)
	if j.Verdict != Dead || !strings.Contains(j.Reason, "no process of its pid namespace is left") {
		t.Errorf("%+v", j)
	}
}

// Start times of another time namespace differ by its offset.
func TestJudgeOtherTime(t *testing.T) {
	wrap := needUnshare(t, "-fT --boottime 1000 --kill-child")
	var id ID
	h := start(t, &id, "live")
	b, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	var v verdictOf
	start(t, &v, "judge", wrap, "JUDGE="+string(b))
	if v.Self.TimeNS == id.TimeNS || v.Self.Start < 100000 {
		t.Fatalf("%+v is not in a time namespace of its own", v.Self)
	}
	if v.J.Verdict != Unknown || !strings.Contains(v.J.Reason, "time namespace") {
		t.Errorf("lives: %+v", v.J)
	}
	// The other way round, and after the end.
	var late ID
	start(t, &late, "live", wrap)
	if late.PIDNS == id.PIDNS {
		want(t, self(t), late, Unknown, "time namespace")
	}
	h.stop()
	start(t, &v, "judge", wrap, "JUDGE="+string(b))
	if v.J.Verdict != Dead {
		t.Errorf("ended: %+v", v.J)
	}
}

// hidepid=2 and another user's process: hidden is not gone.
func TestJudgeHidden(t *testing.T) {
	wrap := needUnshare(t, "-fpm --propagation private --kill-child")
	var v verdictOf
	start(t, &v, "hidden", wrap)
	if v.J.Verdict != Unknown || !strings.Contains(v.J.Reason, "no such file") {
		t.Errorf("%+v", v.J)
	}
}

// A process of root's judged by nobody where /proc hides nothing.
func TestJudgeAsNobody(t *testing.T) {
	if os.Geteuid() != 0 {
		skip(t, "needs root: run it under sudo")
	}
	var id ID
	start(t, &id, "live")
	for _, tt := range []struct {
		start uint64
		want  Verdict
	}{{id.Start, Alive}, {id.Start - 1, Dead}} {
		id.Start = tt.start
		b, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		var v verdictOf
		start(t, &v, "judge", "JUDGE="+string(b), "JUDGE_UID=65534")
		if v.J.Verdict != tt.want {
			t.Errorf("%+v, want %d", v.J, tt.want)
		}
	}
}

// The descriptors of judging are given back.
func TestJudgeLeaksNothing(t *testing.T) {
	l := self(t)
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	var id ID
	start(t, &id, "live")
	l.Judge(id)
	before := count()
	for range 100 {
		l.Judge(id)
	}
	// Others of the runtime's may come or go; a hundred of ours would show.
	if after := count(); after > before+50 {
		t.Errorf("%d descriptors, and %d after it", before, after)
	}
}

// Names that no program should have.
func TestProgramNames(t *testing.T) {
	for _, name := range []string{"a) R 1 (b", "x\nTgid:\t1", `a\nb`, " b ", ")"} {
		var id ID
		start(t, &id, "named", "NAME="+name)
		got, pid, err := Look(id.PID).Program()
		if err != nil || got != name || pid != id.PID {
			t.Errorf("%q: %q, %d, %v", name, got, pid, err)
		}
		if st, err := hostProc.stat(id.PID); err != nil || st.start != id.Start {
			t.Errorf("%q: %+v, %v; started at %d", name, st, err, id.Start)
		}
	}
}

// The thread that asks, and others of its process.
func TestThreads(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := unix.Gettid()
	th, err := FindThread(tid)
	if err != nil || th.TID != tid || !th.Alive() {
		t.Fatalf("%+v, %v", th, err)
	}
	if Look(tid).Alone() {
		t.Error("a thread of a Go program is alone")
	}
	if _, pid, err := Look(tid).Program(); err != nil || pid != os.Getpid() {
		t.Errorf("pid %d, %v", pid, err)
	}
	if EndsWait(tid) {
		t.Error("a signal ends the wait of nobody who waits")
	}
	gs, err := Look(tid).Groups()
	own, oerr := os.Getgroups()
	if err != nil || oerr != nil || len(gs) != len(own) {
		t.Errorf("%v, %v; want %v, %v", gs, err, own, oerr)
	}
	// A thread that has ended: its number may not be given anew at once.
	ended := make(chan Thread)
	go func() {
		runtime.LockOSThread() // and never unlocks: the thread ends with it
		th, err := FindThread(unix.Gettid())
		if err != nil {
			t.Error(err)
		}
		ended <- th
	}()
	if th := <-ended; th.TID != os.Getpid() { // the main thread never ends so
		eventually(t, "the thread has ended", func() bool { return !th.Alive() })
		if !EndsWait(th.TID) {
			t.Error("a thread that has ended waits on")
		}
		if _, _, err := Look(th.TID).Program(); !errors.Is(err, ErrUnseen) {
			t.Errorf("its program: %v", err)
		}
	}
	if Look(0).Alone() {
		t.Error("what can't be seen is alone")
	}
	if _, _, err := Look(0).Program(); !errors.Is(err, ErrUnseen) {
		t.Errorf("thread 0: %v", err)
	}
	if _, err := Look(0).Groups(); !errors.Is(err, ErrUnseen) {
		t.Errorf("thread 0: %v", err)
	}
	if !EndsWait(0) || HasOpen(0, 0, 0) {
		t.Error("thread 0 waits on, or has something open")
	}
}

// Signals as the kernel keeps them for a process that does not run.
func TestEndsWaitPending(t *testing.T) {
	for _, tt := range []struct {
		role string // "" for sleep(1), which catches nothing
		sig  unix.Signal
		want bool
	}{
		{"", unix.SIGTERM, true}, {"", unix.SIGALRM, true}, {"", unix.SIGPROF, true}, {"", unix.SIGQUIT, true},
		{"", unix.SIGWINCH, false}, {"", unix.SIGCHLD, false}, {"", unix.SIGURG, false}, {"", unix.SIGTSTP, false},
		{"catch", unix.SIGTERM, true}, {"catch", unix.SIGALRM, true}, {"catch", unix.SIGUSR2, true},
		{"catch", unix.SIGWINCH, false}, {"catch", unix.SIGCHLD, false}, {"catch", unix.SIGURG, false}, {"catch", unix.SIGPROF, false}, {"catch", unix.SIGIO, false},
	} {
		cmd := exec.Command("sleep", "600")
		if tt.role != "" {
			var id ID
			cmd = start(t, &id, tt.role).cmd
		} else if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid := cmd.Process.Pid
		if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "stopped", func() bool { st, err := hostProc.stat(pid); return err == nil && st.state == 'T' })
		if EndsWait(pid) {
			t.Errorf("%q: ends before %v", tt.role, tt.sig)
		}
		if err := cmd.Process.Signal(tt.sig); err != nil {
			t.Fatal(err)
		}
		if got := EndsWait(pid); got != tt.want {
			t.Errorf("%q, %v: %v, want %v", tt.role, tt.sig, got, tt.want)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "killed", func() bool { return EndsWait(pid) })
		if tt.role == "" {
			cmd.Wait()
			if !EndsWait(pid) {
				t.Errorf("%q: reaped, and waits on", tt.role)
			}
		}
	}
}

func TestHasOpenReal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if !HasOpen(os.Getpid(), st.Dev, st.Ino) {
		t.Error("an open file is not seen")
	}
	if HasOpen(os.Getpid(), st.Dev+1, st.Ino) || HasOpen(os.Getpid(), st.Dev, st.Ino+1) {
		t.Error("another file is open")
	}
	var id ID
	start(t, &id, "live")
	if HasOpen(id.PID, st.Dev, st.Ino) {
		t.Error("another process has it open")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if HasOpen(os.Getpid(), st.Dev, st.Ino) {
		t.Error("a closed file is open")
	}
}

// A session is one job, also when its leader has ended.
func TestJobSession(t *testing.T) {
	var pids []int
	h := start(t, &pids, "session")
	leader, err := JobOf(BySession, pids[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	own, err := JobOf(BySession, os.Getpid(), 0)
	if err != nil || own == leader {
		t.Errorf("ours %v, %v is another session's", own, err)
	}
	for _, p := range []JobPolicy{BySession, ByProcess, ByCgroup} {
		a, aerr := JobOf(p, pids[0], 0)
		b, berr := JobOf(p, pids[1], 0)
		if aerr != nil || berr != nil || (a == b) != (p != ByProcess) {
			t.Errorf("%v: %v, %v and %v, %v", p, a, aerr, b, berr)
		}
	}
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	h.cmd.Process.Wait() // the member keeps the pipes, which cmd.Wait would wait for
	if _, err := FindThread(pids[0]); !errors.Is(err, ErrUnseen) {
		t.Fatalf("the leader: %v", err)
	}
	if member, err := JobOf(BySession, pids[1], 0); err != nil || member != leader {
		t.Errorf("after the leader's end the member's job is %v, %v, not %v", member, err, leader)
	}
}

func TestJobOf(t *testing.T) {
	for _, p := range []JobPolicy{ByUser, ByMount} {
		a, aerr := JobOf(p, 0, 1000)
		b, berr := JobOf(p, os.Getpid(), 1000)
		c, cerr := JobOf(p, os.Getpid(), 1001)
		if aerr != nil || berr != nil || cerr != nil || a != b || (b == c) != (p == ByMount) || a == (Job{}) {
			t.Errorf("%v: %v, %v, %v", p, a, b, c)
		}
	}
	var jobs []Job
	for _, p := range []JobPolicy{BySession, ByProcess, ByCgroup} {
		for range 2 {
			j, err := JobOf(p, 0, 1000)
			if !errors.Is(err, ErrUnseen) || slices.Contains(jobs, j) || j == (Job{}) {
				t.Errorf("%v: %v, %v, which was %v", p, j, err, jobs)
			}
			jobs = append(jobs, j)
		}
	}
}

// Nothing is told of anybody by the numbers of another pid namespace.
func TestUnseenInForeignProc(t *testing.T) {
	wrap := needUnshare(t, "-fp --kill-child")
	var ok bool
	start(t, &ok, "unseen", wrap)
}
