package lock

import "time"

// EventKind says what an [Event] tells.
type EventKind string

// What a manager tells of.
const (
	// EventTook: this process has taken the lock as Record, for a wait that
	// has lasted Elapsed.
	EventTook EventKind = "took"
	// EventHeld: a lock has been in use for Elapsed. It is told once.
	EventHeld EventKind = "held"
	// EventReleased: the lock that was taken as Record, Elapsed ago, has been
	// released; Server is how long that took.
	EventReleased EventKind = "released"
	// EventWaiting: a job has been waiting for Elapsed.
	EventWaiting EventKind = "waiting"
	// EventGot: a wait has ended with the lock. One of less than [BriefWait]
	// is not told of.
	EventGot EventKind = "got"
	// EventGaveUp: a wait has ended without it; Err says why. One of less than
	// [BriefWait] is not told of.
	EventGaveUp EventKind = "gave up"
	// EventRecovered: the lock of a dead process of this host was recovered.
	EventRecovered EventKind = "recovered"
	// EventBroken: an operator has broken a lock, or cleared what kept it from
	// being taken; Holder is the record, or the name, that was removed.
	EventBroken EventKind = "broken"
	// EventLost: a held lock was taken away.
	EventLost EventKind = "lost"
	// EventOdd: a lock directory holds what no lock has.
	EventOdd EventKind = "odd"
	// EventCloned: another host claims this host's machine identity.
	EventCloned EventKind = "cloned"
	// EventUnreleased: a lock could not be released; it is tried again.
	EventUnreleased EventKind = "unreleased"
	// EventUnverified: whether a lock in use still stands could not be asked.
	EventUnverified EventKind = "unverified"
	// EventUnsynced: what a dead holder left in this host's cache could not
	// be written to the server.
	EventUnsynced EventKind = "unsynced"
	// EventUnswept: candidates that dead processes of this host have left
	// could not be discarded.
	EventUnswept EventKind = "unswept"
)

// BriefWait is how long a wait is at least that its end is told of.
const BriefWait = 50 * time.Millisecond

// Event is something that people may want to know of.
type Event struct {
	Kind EventKind
	Path string
	// Cause is whose take or wait it is.
	Cause Cause
	// Record names this process's own lock: the host, the process and the
	// nonce of its record.
	Record string
	// Holder says in words who holds, held or took the lock; HolderRecord
	// names the record that said so, as Record does.
	Holder, HolderRecord string
	// Reason says in words why the holder was, or was not, recovered.
	Reason string
	// Elapsed is how long a wait has lasted, or a lock been held.
	Elapsed time.Duration
	// Server is how long the file server took for what is told of.
	Server time.Duration
	Err    error
}
