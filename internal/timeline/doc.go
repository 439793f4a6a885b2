// Package timeline draws, from the logs of several hosts, who held and who
// waited for the lock of which directory when.
//
// [Read] reads a log, [Tell] makes a [History] of the logs of all hosts, and
// [History.Page] draws it as one HTML page that needs nothing else. It reads
// what fs/gate's Logger writes: text or JSON, as it is or out of the journal
// (journalctl -o json, or -o short-iso-precise).
//
// It imports package lock for the kinds of its events only.
package timeline
