package procid

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The rule of machines and boots, case by case.
func TestJudgeBoot(t *testing.T) {
	self := ID{
		Host: "hosta", Machine: testMachine, Boot: testBoot, Fingerprint: "0123456789abcdef",
		PID: 100, Start: 5000, PIDNS: initialPIDNS, TimeNS: 4026531834,
	}
	const container = 4026532177
	otherBoot := strings.Repeat("ab", 16)
	type verdict struct {
		decided bool
		Verdict
		shared bool
	}
	stay := verdict{}
	dead := verdict{true, Dead, false}
	foreign := verdict{true, Foreign, false}
	shared := verdict{true, Foreign, true}
	invalid := verdict{true, Unknown, false}
	for _, tt := range []struct {
		name string
		edit func(self, other *ID)
		want verdict
		says string
	}{
		{"the same", func(s, o *ID) {}, stay, ""},
		{"another process", func(s, o *ID) { o.PID = 7; o.Start = 1 }, stay, ""},
		{"another container of this boot", func(s, o *ID) { o.PIDNS = container }, stay, ""},
		{"another fingerprint in this boot (renamed since)", func(s, o *ID) { o.Fingerprint = "1123456789abcdef" }, stay, ""},

		{"rebooted", func(s, o *ID) { o.Boot = otherBoot }, dead, "rebooted"},
		{"rebooted, the same pid and start", func(s, o *ID) { o.Boot = otherBoot; o.PID, o.Start = s.PID, s.Start }, dead, "rebooted"},
		{"rebooted and renamed for people", func(s, o *ID) { o.Boot = otherBoot; o.Host = "x" }, dead, "rebooted"},
		{"rebooted, in another time namespace", func(s, o *ID) { o.Boot = otherBoot; o.TimeNS = 1 }, dead, "rebooted"},

		{"another machine", func(s, o *ID) { o.Machine = strings.Repeat("1", 32) }, foreign, "another machine"},
		{"another machine, rebooted", func(s, o *ID) { o.Machine = strings.Repeat("1", 32); o.Boot = otherBoot }, foreign, "another machine"},
		{"another machine with our boot id", func(s, o *ID) { o.Machine = "" }, foreign, "another machine"},

		{"a clone", func(s, o *ID) { o.Boot = otherBoot; o.Fingerprint = "1123456789abcdef" }, shared, EnvHostID},
		{"a clone without fingerprint", func(s, o *ID) { o.Boot = otherBoot; o.Fingerprint = noFingerprint }, shared, "fingerprint"},
		{"no fingerprint here", func(s, o *ID) { o.Boot = otherBoot; s.Fingerprint = noFingerprint }, shared, "no fingerprint"},
		{"no fingerprint on both", func(s, o *ID) { o.Boot = otherBoot; s.Fingerprint, o.Fingerprint = noFingerprint, noFingerprint }, shared, "no fingerprint"},
		{"empty fingerprints", func(s, o *ID) { o.Boot = otherBoot; s.Fingerprint, o.Fingerprint = "", "" }, shared, "fingerprint"},
		{"a container with a boot id of its own", func(s, o *ID) { o.Boot = otherBoot; o.PIDNS = container }, shared, "it was not in the initial"},
		{"seen from such a container", func(s, o *ID) { o.Boot = otherBoot; s.PIDNS = container }, shared, "this process is not in the initial"},
		{"two such containers", func(s, o *ID) { o.Boot = otherBoot; s.PIDNS, o.PIDNS = container, container }, shared, "initial"},
		{"kernels without pid namespaces", func(s, o *ID) { o.Boot = otherBoot; s.PIDNS, o.PIDNS = 0, 0 }, shared, "initial"},

		{"no boot", func(s, o *ID) { o.Boot = "" }, invalid, "names no process"},
		{"no boot id", func(s, o *ID) { o.Boot = strings.ToUpper(otherBoot) }, invalid, "names no process"},
		{"no pid", func(s, o *ID) { o.PID = 0 }, invalid, "names no process"},
		{"no pid in a boot before", func(s, o *ID) { o.PID = -1; o.Boot = otherBoot }, invalid, "names no process"},
		{"a pid that the kernel would cut off", func(s, o *ID) { o.PID = 1<<32 + 100 }, invalid, "names no process"},
	} {
		s, o := self, self
		tt.edit(&s, &o)
		j, decided := judgeBoot(s, o)
		if got := (verdict{decided, j.Verdict, j.SharedMachine}); got != tt.want || !strings.Contains(j.Reason, tt.says) || decided == (j.Reason == "") {
			t.Errorf("%s: %+v %q, want %+v %q", tt.name, got, j.Reason, tt.want, tt.says)
		}
		if j.Stale() != (tt.want.Verdict == Dead) {
			t.Errorf("%s: stale: %v", tt.name, j.Stale())
		}
	}
	if j := (Judgement{}); j.Stale() {
		t.Error("the zero judgement is stale")
	}
}

// What the record decides, nobody is looked for.
func TestJudgeForeign(t *testing.T) {
	l := machineFiles().local(t)
	l.open = func(int) (int, error) { t.Error("a process was looked for"); return -1, unix.ESRCH }
	id := l.ID()
	id.Boot, id.Fingerprint = strings.Repeat("ab", 16), "0123456789abcdef"
	if j := l.Judge(id); j.Verdict != Foreign || !j.SharedMachine {
		t.Errorf("%+v", j)
	}
}

// No identity but a whole one of a former boot is dead by its record alone.
func FuzzJudgeBoot(f *testing.F) {
	f.Add(testMachine, testBoot, "0123456789abcdef", 1, uint64(1), uint64(initialPIDNS))
	f.Add(testMachine, strings.Repeat("ab", 16), "0123456789abcdef", 1, uint64(1), uint64(initialPIDNS))
	f.Fuzz(func(t *testing.T, machine, boot, fp string, pid int, start, ns uint64) {
		self := ID{Machine: testMachine, Boot: testBoot, Fingerprint: "0123456789abcdef", PID: 1, PIDNS: initialPIDNS}
		j, ok := judgeBoot(self, ID{Machine: machine, Boot: boot, Fingerprint: fp, PID: pid, Start: start, PIDNS: ns})
		if ok && j.Stale() && (machine != self.Machine || boot == self.Boot || fp != self.Fingerprint || ns != initialPIDNS || !isHex(boot, 32)) {
			t.Errorf("%+v", j)
		}
		if !ok && (machine != self.Machine || boot != self.Boot) {
			t.Error("undecided")
		}
	})
}

// A process of this boot and namespace, by what the kernel answers.
func TestJudgeProcess(t *testing.T) {
	type answers struct {
		open  error
		ended bool
		poll  error
		stat  string // of process 200
		more  []string
	}
	running := func(start uint64) string { return statText(200, "a) Z 1 (b", 'S', 9, 1, start) }
	for _, tt := range []struct {
		name string
		a    answers
		edit func(*ID)
		want Verdict
		says string
	}{
		{"lives", answers{stat: running(7000)}, nil, Alive, "lives"},
		{"stopped", answers{stat: statText(200, "sh", 'T', 9, 1, 7000)}, nil, Alive, "lives"},
		{"in D", answers{stat: statText(200, "sh", 'D', 9, 1, 7000)}, nil, Alive, "lives"},
		{"a dead main thread", answers{stat: statText(200, "sh", 'Z', 9, 3, 7000)}, nil, Alive, "another of its 3 threads lives"},
		{"gone", answers{open: unix.ESRCH}, nil, Dead, "no process 200"},
		{"zombie", answers{ended: true, stat: statText(200, "sh", 'Z', 9, 1, 7000)}, nil, Dead, "not yet reaped"},
		{"ends while looked at", answers{ended: true, stat: running(7000)}, nil, Dead, "just ended"},
		{"reaped while looked at", answers{ended: true}, nil, Dead, "just ended"},
		{"its pid is another's", answers{stat: running(7001)}, nil, Dead, "another one now"},
		{"another's, started before", answers{stat: running(6999)}, nil, Dead, "another one now"},
		{"another's, which ended", answers{ended: true, stat: statText(200, "sh", 'Z', 9, 1, 7001)}, nil, Dead, "another one now"},

		{"not permitted", answers{open: unix.EPERM, stat: running(7001)}, nil, Unknown, "pidfd_open"},
		{"an old kernel", answers{open: unix.ENOSYS, stat: running(7001)}, nil, Unknown, "pidfd_open"},
		{"no descriptors left", answers{open: unix.EMFILE}, nil, Unknown, "pidfd_open"},
		{"cannot be watched", answers{poll: unix.ENOMEM, stat: running(7000)}, nil, Unknown, "poll"},
		{"hidden", answers{}, nil, Unknown, "not whether it is the same"},
		{"unparsable", answers{stat: "200 (sh"}, nil, Unknown, "proc_pid_stat"},
		{"another's stat", answers{stat: strings.Replace(running(7001), "200", "201", 1)}, nil, Unknown, "proc_pid_stat"},

		{"another time namespace", answers{stat: running(107000)}, func(id *ID) { id.TimeNS++ }, Unknown, "time namespace"},
		{"another time namespace, gone", answers{open: unix.ESRCH}, func(id *ID) { id.TimeNS++ }, Dead, "no process"},
		{"another time namespace, zombie", answers{ended: true, stat: statText(200, "sh", 'Z', 9, 1, 107000)}, func(id *ID) { id.TimeNS++ }, Dead, "not yet reaped"},

		{"a thread of another", answers{open: unix.EINVAL, more: []string{"proc/200/status", statusText("sh", 199, "")}}, nil, Dead, "200 is a thread of process 199"},
		{"the same by a newer kernel", answers{open: unix.ENOENT, more: []string{"proc/200/status", statusText("sh", 199, "")}}, nil, Dead, "200 is a thread of process 199"},
		{"no thread after all", answers{open: unix.EINVAL, more: []string{"proc/200/status", statusText("sh", 200, "")}}, nil, Unknown, "pidfd_open"},
		{"a thread whose process is unreadable", answers{open: unix.EINVAL, more: []string{"proc/200/status", "Name:\tsh\n"}}, nil, Unknown, "proc_pid_status"},
		{"a hidden thread", answers{open: unix.EINVAL}, nil, Unknown, "no such file"},

		{"a /proc of another namespace", answers{open: unix.ESRCH, more: []string{"proc/self", "-> 4711", "proc/4711/stat", statText(4711, "lockfs", 'S', 1, 1, 5000), "proc/4711/ns/pid", "-> pid:[4026531836]", "proc/4711/ns/time", "-> time:[4026531834]"}}, nil, Unknown, "another pid namespace"},
	} {
		f := machineFiles().with(tt.a.more...).with("proc/200/stat", tt.a.stat)
		l := f.local(t)
		opened := -1
		l.open = func(pid int) (int, error) {
			if pid != 200 {
				t.Errorf("%s: process %d was opened", tt.name, pid)
			}
			if tt.a.open != nil {
				return -1, tt.a.open
			}
			var err error
			opened, err = unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			return opened, err
		}
		l.ended = func(fd int) (bool, error) {
			if fd != opened {
				t.Errorf("%s: descriptor %d was asked, not %d", tt.name, fd, opened)
			}
			return tt.a.ended, tt.a.poll
		}
		id := l.ID()
		id.PID, id.Start, id.Host, id.Fingerprint = 200, 7000, "x", "y"
		if tt.edit != nil {
			tt.edit(&id)
		}
		if j := l.Judge(id); j.Verdict != tt.want || !strings.Contains(j.Reason, tt.says) || j.SharedMachine {
			t.Errorf("%s: %+v, want %d %q", tt.name, j, tt.want, tt.says)
		}
	}
}

// A process of another pid namespace of this boot.
func TestJudgeNamespace(t *testing.T) {
	const container, elsewhere = 4026532177, "-> pid:[4026532999]"
	for _, tt := range []struct {
		name  string
		files []string
		opts  string // of the /proc; "-" for no mountinfo
		edit  func(self, other *ID)
		want  Verdict
		says  string
	}{
		{"nobody left", []string{"proc/200/ns/pid", elsewhere}, "rw", nil, Dead, "no process of its pid namespace is left"},
		{"somebody left", []string{"proc/200/ns/pid", "-> pid:[4026532177]"}, "rw", nil, Unknown, "process 200 is in it"},
		{"somebody unreadable", []string{"proc/200/ns/pid", "-> x"}, "rw", nil, Unknown, "cannot be seen"},
		{"a process without the link", []string{"proc/200/stat", "x"}, "rw", nil, Unknown, "cannot be seen"},
		{"hidepid=2", nil, "rw,gid=7,hidepid=2", nil, Unknown, "hidepid=2"},
		{"hidepid by name", nil, "rw,hidepid=ptraceable", nil, Unknown, "hidepid=ptraceable"},
		{"no mountinfo", nil, "-", nil, Unknown, "no such file"},
		{"not from another container", nil, "rw", func(s, o *ID) { s.PIDNS = 4026532999 }, Unknown, "another pid namespace of this boot"},
		{"no namespace", nil, "rw", func(s, o *ID) { o.PIDNS = 0 }, Unknown, "not known"},
		{"its pid is ours", nil, "rw", func(s, o *ID) { o.PID, o.Start = s.PID, s.Start }, Dead, "no process of its pid"},
	} {
		f := machineFiles().with(tt.files...)
		l := f.local(t)
		root := string(l.proc)
		if tt.opts != "-" {
			if err := os.WriteFile(filepath.Join(root, "100/mountinfo"), []byte(mountinfoOf(t, root, tt.opts)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		id := l.ID()
		id.PIDNS, id.PID, id.Start = container, 200, 7000
		if tt.edit != nil {
			tt.edit(&l.id, &id)
		}
		if j := l.Judge(id); j.Verdict != tt.want || !strings.Contains(j.Reason, tt.says) {
			t.Errorf("%s: %+v, want %d %q", tt.name, j, tt.want, tt.says)
		}
	}
}

// A process that ends between the listing and the look at it is no doubt.
func TestVanished(t *testing.T) {
	l := machineFiles().local(t)
	if !l.vanished(4711) || l.vanished(100) {
		t.Errorf("vanished: %v, %v; want true, false", l.vanished(4711), l.vanished(100))
	}
	if _, err := l.proc.namespace(4711, "pid"); !gone(err) {
		t.Errorf("%v is not gone", err)
	}
	if gone(errors.New("x")) || gone(unix.EACCES) || !gone(unix.ESRCH) {
		t.Error("gone")
	}
}

// A /proc that cannot be listed.
func TestJudgeNamespaceErrors(t *testing.T) {
	l := machineFiles().local(t)
	l.proc = procfs(filepath.Join(t.TempDir(), "none"))
	id := l.ID()
	id.PIDNS = 4026532177
	if j := l.judgeNamespace(id); j.Verdict != Unknown {
		t.Errorf("%+v", j)
	}
	if _, err := l.proc.pids(); err == nil {
		t.Error("no error")
	}
}
