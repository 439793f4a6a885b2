package procid

// ParseJobPolicy reads session, cgroup, process, user or mount.
func ParseJobPolicy(s string) (JobPolicy, error) { return 0, nil }

// String returns the policy's name as ParseJobPolicy reads it.
func (p JobPolicy) String() string { return "" }

// JobOf returns the job, by policy p, of the thread tid, whose file system
// user is uid. A thread that can't be seen is a job of its own: each call then
// returns another Job, with ErrUnseen.
func JobOf(p JobPolicy, tid int, uid uint32) (Job, error) { return Job{}, nil }

// String describes the job for people: "session 1234".
func (j Job) String() string { return j.key }
