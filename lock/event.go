package lock

import "time"

// EventKind says what an [Event] tells.
type EventKind string

// What a manager tells of.
const (
	// EventWaiting: a job has been waiting for Elapsed.
	EventWaiting EventKind = "waiting"
	// EventGot: a wait that was told of has ended with the lock.
	EventGot EventKind = "got"
	// EventGaveUp: a wait that was told of has ended without it; Err says why.
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

// Event is something that people should know of.
type Event struct {
	Kind EventKind
	Path string
	// Cause is whose take or wait it is.
	Cause Cause
	// Holder says in words who holds, held or took the lock.
	Holder string
	// Reason says in words why the holder was, or was not, recovered.
	Reason string
	// Elapsed is how long a wait has lasted.
	Elapsed time.Duration
	Err     error
}
