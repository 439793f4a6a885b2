package procid

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// policies are the names of the policies, by their values.
var policies = [...]string{BySession: "session", ByCgroup: "cgroup", ByProcess: "process", ByUser: "user", ByMount: "mount"}

// ParseJobPolicy reads session, cgroup, process, user or mount.
func ParseJobPolicy(s string) (JobPolicy, error) {
	if i := slices.Index(policies[:], s); i >= 0 {
		return JobPolicy(i), nil
	}
	return 0, fmt.Errorf("procid: no job policy %q: it is one of %s", s, strings.Join(policies[:], ", "))
}

// String returns the policy's name as ParseJobPolicy reads it.
func (p JobPolicy) String() string {
	if int(p) < len(policies) {
		return policies[p]
	}
	return "JobPolicy(" + strconv.Itoa(int(p)) + ")"
}

// JobOf returns the job, by policy p, of the thread tid, whose file system
// user is uid. A thread that can't be seen is a job of its own: each call then
// returns another Job, with ErrUnseen. By user and by mount nothing needs to
// be seen, and there is no error.
//
// A session is named by its id and its autogroup (sched(7)), which setsid(2)
// makes anew and every child inherits. The id alone names it among those that
// live, since the kernel keeps the number while a process of the session is
// left, and so the leader, which may end before the others, is not asked. But
// a hold can outlive the session, with a descriptor handed to another: the
// autogroup then keeps a later session of the same number from sharing it. A
// kernel without autogroups leaves that gap.
//
// A process whose session was begun in an outer pid namespace, which is 0 for
// all such sessions, is a job by itself.
func JobOf(p JobPolicy, tid int, uid uint32) (Job, error) {
	if j, ok := unlookedJob(p, uid); ok {
		return j, nil
	}
	return Look(tid).Job(p, uid)
}

// unlookedJob returns the job if the policy needs no look at the thread.
func unlookedJob(p JobPolicy, uid uint32) (Job, bool) {
	switch p {
	case ByUser:
		return Job{name: fmt.Sprintf("user %d", uid)}, true
	case ByMount:
		return Job{name: "mount"}, true
	}
	return Job{}, false
}

// unseenCallers numbers the jobs of callers that can't be seen.
var unseenCallers atomic.Uint64

// job looks the thread's job up by one of the policies that need it. Every
// error is an ErrUnseen.
func (v View) job(policy JobPolicy) (Job, error) {
	if v.err != nil {
		return Job{}, v.err
	}
	p, tid, text := v.proc, v.tid, v.text
	var err error
	var j Job
	switch policy {
	case BySession:
		j, err = p.sessionJob(tid, text)
	case ByCgroup:
		j, err = p.cgroupJob(tid)
	case ByProcess:
		j, err = p.processJob(text)
	default:
		err = errors.New(policy.String() + " is no policy")
	}
	if err != nil {
		return Job{}, unseen(tid, err)
	}
	return j, nil
}

func (p procfs) sessionJob(tid int, text status) (Job, error) {
	st, err := p.stat(tid)
	if err != nil {
		return Job{}, err
	}
	if st.session == 0 {
		return p.processJob(text)
	}
	group, err := p.autogroup(tid)
	if err != nil {
		return Job{}, err
	}
	return Job{name: fmt.Sprintf("session %d", st.session), birth: group}, nil
}

// autogroup returns the number of a thread's autogroup, counted from 1 through
// the whole boot (kernel/sched/autogroup.c), or 0 if it has none.
func (p procfs) autogroup(tid int) (uint64, error) {
	b, err := readFile(p.path(tid, "autogroup"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil // not configured; sessionJob has just seen the thread
	}
	if err != nil {
		return 0, err
	}
	return parseAutogroup(string(b))
}

// parseAutogroup reads "/autogroup-123 nice 0", or nothing at all.
func parseAutogroup(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(s, "/autogroup-"), " ")
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("autogroup: %w", err)
	}
	return n, nil
}

func (p procfs) processJob(text status) (Job, error) {
	pid, err := text.number("Tgid")
	if err != nil {
		return Job{}, err
	}
	st, err := p.stat(pid)
	if err != nil {
		return Job{}, err
	}
	return Job{name: fmt.Sprintf("process %d", pid), birth: st.start}, nil
}

func (p procfs) cgroupJob(tid int) (Job, error) {
	b, err := readFile(p.path(tid, "cgroup"))
	if err != nil {
		return Job{}, err
	}
	group, err := parseCgroup(string(b))
	if err != nil {
		return Job{}, err
	}
	return Job{name: "cgroup " + group}, nil
}

// parseCgroup returns the control group of the text of /proc/<pid>/cgroup
// (cgroups(7)): the path in the one hierarchy of version 2, or all lines where
// version 1 has some of its own.
func parseCgroup(s string) (string, error) {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	if path, ok := strings.CutPrefix(lines[0], "0::/"); ok && len(lines) == 1 {
		return "/" + path, nil
	}
	if slices.ContainsFunc(lines, func(l string) bool { return strings.Count(l, ":") < 2 }) {
		return "", fmt.Errorf("%q is no list of control groups", s)
	}
	return strings.Join(lines, " "), nil
}

// String describes the job for people: "session 1234".
func (j Job) String() string { return j.name }
