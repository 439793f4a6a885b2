package lock

// Cause is who made the manager take a lock. It is for people only.
type Cause struct {
	Program string
	PID     int
	User    string
	// Job is the job in words.
	Job string
	// Mount is the mountpoint or command the take came through.
	Mount string
}
