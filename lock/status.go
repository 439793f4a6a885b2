package lock

import "time"

// StatusXattr is the extended attribute of a directory of a lockfs mount that
// holds its Status as JSON.
const StatusXattr = "user.lockfs.status"

// Setting these extended attributes of a directory of a lockfs mount asks its
// daemon to act on the directory's lock: to do what Recover does, whatever the
// value; and to do what Break does with a BreakRequest as JSON. Break is done
// with the rights of who asks, and of nobody else.
const (
	RecoverXattr = "user.lockfs.recover"
	BreakXattr   = "user.lockfs.break"
)

// BreakRequest is the value of BreakXattr: the arguments of Break.
type BreakRequest struct {
	Record string `json:"record"`
	Force  bool   `json:"force,omitempty"`
}

// State says whether a directory is locked.
type State string

// The states of a lock. A stale lock is one whose holder is proved dead.
const (
	Free  State = "free"
	Held  State = "held"
	Stale State = "stale"
	Odd   State = "odd"
)

// Status is all that can be said of the lock of one directory.
type Status struct {
	Path  string `json:"path"`
	State State  `json:"state"`
	// Record is the name in the lock directory that says who holds.
	Record string `json:"record,omitempty"`
	// Host, PID and Boot are the record's.
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	Boot string `json:"boot,omitempty"`
	// Verdict is alive, dead, foreign or unknown; Reason says why.
	Verdict string `json:"verdict,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// SharedMachine: another host has this host's machine identity.
	SharedMachine bool `json:"shared_machine,omitempty"`
	// Copied: the record was written long before it came to where it stands.
	Copied bool `json:"copied,omitempty"`
	// Since and Cause are what the holder wrote down for people.
	Since time.Time `json:"since,omitzero"`
	Cause Cause     `json:"cause,omitzero"`
	// Entries are the names in a lock directory that is Odd.
	Entries []string `json:"entries,omitempty"`
	// Candidates are the names of locks that were built and not published.
	Candidates []string `json:"candidates,omitempty"`
	// Hint says what a person can do next.
	Hint string `json:"hint,omitempty"`
	// Holder and Waiters are what the asked lockfs process knows of its own.
	Holder  *LocalHolder `json:"holder,omitempty"`
	Waiters []Waiter     `json:"waiters,omitempty"`
}

// LocalHolder is the job of this process that holds a lock.
type LocalHolder struct {
	Job   string    `json:"job"`
	Cause Cause     `json:"cause"`
	Since time.Time `json:"since"`
	// Uses counts the holds: open handles and running operations.
	Uses int `json:"uses"`
	// Lost reports that the lock was taken away.
	Lost bool `json:"lost,omitempty"`
}

// Waiter is a job of this process that waits for a lock.
type Waiter struct {
	Job   string    `json:"job"`
	Cause Cause     `json:"cause"`
	Since time.Time `json:"since"`
}

// LocalStatus is a lock that this process holds or waits for.
type LocalStatus struct {
	Path    string       `json:"path"`
	Holder  *LocalHolder `json:"holder,omitempty"`
	Waiters []Waiter     `json:"waiters,omitempty"`
	// Seen is the lock that the waiters were last kept out by, without what
	// its holder wrote down for people; nil if it is this process's own, or
	// not looked at yet.
	Seen *Status `json:"seen,omitempty"`
}
