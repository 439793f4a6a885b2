package gate

import (
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/lockfs/lockfs/lock"
)

// longWait is how long a wait is before it is a warning.
const longWait = time.Minute

// brief is how short a hold or a wait is whose end is told at the debug level
// only. A wait that lasts longer was told of while it lasted.
const brief = 3 * time.Second

// Logger returns a receiver of a lock manager's events that writes each as one
// entry of log. All entries name things alike: event (its kind), dir, record,
// holder, holder_record, program, pid, user, job, mount, elapsed, server,
// reason, error; a field that says nothing is left out. At the info level the
// log has what lasts some seconds, at the debug level each take and release.
func Logger(log *logrus.Logger) func(lock.Event) {
	return func(e lock.Event) {
		level, text := tell(e)
		if !log.IsLevelEnabled(level) {
			return
		}
		l := entry(log, e.Path, e.Cause).WithField("event", string(e.Kind))
		for key, v := range map[string]string{"record": e.Record, "holder": e.Holder, "holder_record": e.HolderRecord, "reason": e.Reason} {
			if v != "" {
				l = l.WithField(key, v)
			}
		}
		for key, d := range map[string]time.Duration{"elapsed": e.Elapsed, "server": e.Server} {
			if d > 0 {
				l = l.WithField(key, d.Round(time.Millisecond).String())
			}
		}
		if e.Err != nil {
			l = l.WithError(e.Err)
		}
		l.Log(level, text)
	}
}

// lasting is the level of the end of what has lasted for d.
func lasting(d time.Duration) logrus.Level {
	if d < brief {
		return logrus.DebugLevel
	}
	return logrus.InfoLevel
}

// tell returns how bad an event is, and what it says.
func tell(e lock.Event) (logrus.Level, string) {
	switch e.Kind {
	case lock.EventTook:
		return logrus.DebugLevel, "took the lock of " + e.Path
	case lock.EventHeld:
		return logrus.InfoLevel, fmt.Sprintf("the lock of %s is in use for %s", e.Path, e.Elapsed.Round(time.Second))
	case lock.EventReleased:
		return lasting(e.Elapsed), fmt.Sprintf("released the lock of %s after %s", e.Path, e.Elapsed.Round(time.Millisecond))
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
		return lasting(e.Elapsed), fmt.Sprintf("got the lock of %s after %s", e.Path, e.Elapsed.Round(time.Millisecond))
	case lock.EventGaveUp:
		level := logrus.WarnLevel
		if e.Elapsed < brief {
			level = logrus.DebugLevel
		}
		return level, "gave up waiting for the lock of " + e.Path
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
