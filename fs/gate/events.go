package gate

import (
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/lockfs/lockfs/lock"
)

// longWait is how long a wait is before it is a warning.
const longWait = time.Minute

// Logger returns a receiver of a lock manager's events that writes each as one
// entry of log. All entries name things alike: dir, holder, program, pid, user,
// job, mount, elapsed, reason, error; a field that says nothing is left out.
func Logger(log *logrus.Logger) func(lock.Event) {
	return func(e lock.Event) {
		l := entry(log, e.Path, e.Cause)
		if e.Holder != "" {
			l = l.WithField("holder", e.Holder)
		}
		if e.Reason != "" {
			l = l.WithField("reason", e.Reason)
		}
		if e.Elapsed > 0 {
			l = l.WithField("elapsed", e.Elapsed.Round(time.Millisecond).String())
		}
		if e.Err != nil {
			l = l.WithError(e.Err)
		}
		level, text := tell(e)
		l.Log(level, text)
	}
}

// tell returns how bad an event is, and what it says.
func tell(e lock.Event) (logrus.Level, string) {
	switch e.Kind {
	case lock.EventWaiting:
		level := logrus.InfoLevel
		if e.Elapsed >= longWait {
			level = logrus.WarnLevel
		}
		text := "waiting for the lock of " + e.Path
		if e.Holder != "" {
			text += ", held by " + e.Holder
		}
		return level, text
	case lock.EventGot:
		return logrus.InfoLevel, fmt.Sprintf("got the lock of %s after %s", e.Path, e.Elapsed.Round(time.Second))
	case lock.EventGaveUp:
		return logrus.WarnLevel, "gave up waiting for the lock of " + e.Path
	case lock.EventRecovered:
		return logrus.WarnLevel, fmt.Sprintf("recovered the lock of %s from the dead %s", e.Path, e.Holder)
	case lock.EventBroken:
		return logrus.WarnLevel, fmt.Sprintf("broke the lock of %s for an operator", e.Path)
	case lock.EventLost:
		return logrus.ErrorLevel, fmt.Sprintf("the lock of %s was taken away: what is written there under it now fails", e.Path)
	case lock.EventOdd:
		return logrus.ErrorLevel, fmt.Sprintf("the lock directory of %s holds what no lock has, and is left alone", e.Path)
	case lock.EventCloned:
		return logrus.ErrorLevel, fmt.Sprintf("the lock of %s is of another host with this host's machine-id: neither can recover the other's locks; set LOCKFS_HOST_ID to a distinct value on each", e.Path)
	case lock.EventUnreleased:
		return logrus.ErrorLevel, fmt.Sprintf("the lock of %s could not be released, and is tried again", e.Path)
	case lock.EventUnsynced:
		return logrus.ErrorLevel, fmt.Sprintf("what a dead process left unwritten in %s could not be written to the server", e.Path)
	case lock.EventUnswept:
		return logrus.ErrorLevel, fmt.Sprintf("what dead processes of this host left in %s beside the lock could not be removed", e.Path)
	}
	return logrus.WarnLevel, fmt.Sprintf("%s: %s", e.Path, e.Kind)
}

// entry begins an entry about a directory and a caller.
func entry(log *logrus.Logger, dir string, c lock.Cause) *logrus.Entry {
	f := logrus.Fields{"dir": dir}
	for key, v := range map[string]string{"program": c.Program, "user": c.User, "job": c.Job, "mount": c.Mount} {
		if v != "" {
			f[key] = v
		}
	}
	if c.PID != 0 {
		f["pid"] = c.PID
	}
	return log.WithFields(f)
}
