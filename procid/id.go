package procid

// ID names one process among all processes of all machines and all boots.
// Two IDs are of the same process if and only if all fields but Host are
// equal. The zero ID names no process.
type ID struct {
	// Host is the host name, for people. It decides nothing.
	Host string
	// Machine is the machine's identity: 32 lower-case hex digits, from
	// machine-id(5) or from LOCKFS_HOST_ID.
	Machine string
	// Boot is the boot's identity: 32 lower-case hex digits, from
	// /proc/sys/kernel/random/boot_id (random(4)) without its dashes.
	Boot string
	// Fingerprint is what this machine's reboot keeps and a clone of it
	// lacks: 16 lower-case hex digits.
	Fingerprint string
	// PID is the thread group id in the pid namespace PIDNS.
	PID int
	// Start is field 22 of proc_pid_stat(5): clock ticks between the boot
	// and the start of the process, in the time namespace TimeNS.
	Start uint64
	// PIDNS and TimeNS are the inode numbers of the namespaces
	// (namespaces(7)); 0 where the kernel has no such namespace.
	PIDNS, TimeNS uint64
}

// Verdict is what can be said of a process from here.
type Verdict uint8

const (
	// Unknown: a process of this machine that may not or cannot be judged
	// from here. It counts as alive.
	Unknown Verdict = iota
	// Alive: the process lives.
	Alive
	// Dead: the process has ended, and nothing of it can act any more.
	Dead
	// Foreign: a process of another machine, or one that cannot be told
	// from it. It counts as alive.
	Foreign
)

// Judgement is a verdict with its reason.
type Judgement struct {
	Verdict Verdict
	// Reason says in words, without a final stop, what the verdict rests on.
	Reason string
	// SharedMachine reports that the process claims this machine's identity
	// but is another host's (a cloned or shared machine-id): worth a loud
	// warning, since two such hosts can never recover from each other.
	SharedMachine bool
}

// Stale reports whether a lock held by the judged process may be recovered.
func (j Judgement) Stale() bool { return j.Verdict == Dead }

// JobPolicy says which processes are of the same job.
type JobPolicy uint8

const (
	// BySession: one job is one session of setsid(2). The default: cron,
	// systemd, sshd and interactive shells each give a job a session.
	BySession JobPolicy = iota
	// ByCgroup: one job is one control group (cgroups(7)).
	ByCgroup
	// ByProcess: one job is one process (thread group).
	ByProcess
	// ByUser: one job is all that runs under one user id.
	ByUser
	// ByMount: all callers are one job.
	ByMount
)

// Job is the identity of a job: comparable, and printable. The zero Job is
// nobody's. Two callers are of the same job if and only if their Jobs are
// equal.
type Job struct {
	// name says the policy and the id, as people read it.
	name string
	// birth tells apart two jobs to which the kernel gave one id, one after
	// the other: see JobOf.
	birth uint64
}
