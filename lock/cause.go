package lock

import (
	"encoding/json"
	"time"
)

// Cause is who made the manager take a lock. It is for people only.
type Cause struct {
	Program string `json:"program,omitempty"`
	PID     int    `json:"pid,omitempty"`
	User    string `json:"user,omitempty"`
	// Job is the job in words.
	Job string `json:"job,omitempty"`
	// Mount is the mountpoint or command the take came through.
	Mount string `json:"mount,omitempty"`
}

// note is the target of a record: what a person may want to know beyond who
// holds. Nothing is ever decided by it.
type note struct {
	Cause
	Since time.Time `json:"since,omitzero"`
}

// maxField keeps a note below the shortest limit of a symbolic link's target
// among the file systems that are exported (XFS: 1024 bytes).
const maxField = 120

func (n note) String() string {
	for _, s := range []*string{&n.Program, &n.User, &n.Job, &n.Mount} {
		*s = (*s)[:min(len(*s), maxField)]
	}
	n.Since = n.Since.UTC().Truncate(time.Second)
	text, err := json.Marshal(n)
	if err != nil || len(text) > 1000 {
		return "{}"
	}
	return string(text)
}

func parseNote(target string) note {
	var n note
	if json.Unmarshal([]byte(target), &n) != nil {
		return note{}
	}
	return n
}
