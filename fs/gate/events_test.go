package gate

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/lockfs/lockfs/lock"
)

func TestLogger(t *testing.T) {
	cause := lock.Cause{Program: "cp", PID: 12, User: "ann", Job: "session 7", Mount: "/m"}
	all := logrus.Fields{"dir": "/d", "program": "cp", "pid": 12, "user": "ann", "job": "session 7", "mount": "/m"}
	for _, tt := range []struct {
		kind  lock.EventKind
		after time.Duration
		level logrus.Level
		text  string
	}{
		{lock.EventTook, time.Millisecond, logrus.DebugLevel, "took the lock of /d"},
		{lock.EventHeld, 5 * time.Second, logrus.InfoLevel, "the lock of /d is in use for 5s"},
		{lock.EventReleased, time.Second, logrus.DebugLevel, "released the lock of /d after 1s"},
		{lock.EventReleased, time.Minute, logrus.InfoLevel, "released the lock of /d after 1m0s"},
		{lock.EventGot, time.Second, logrus.DebugLevel, "got the lock of /d after 1s"},
		{lock.EventGaveUp, time.Second, logrus.DebugLevel, "gave up waiting for the lock of /d"},
		{lock.EventWaiting, 5 * time.Second, logrus.InfoLevel, "waiting for the lock of /d, held by host b pid 3"},
		{lock.EventWaiting, time.Hour, logrus.WarnLevel, "waiting for the lock of /d, held by host b pid 3"},
		{lock.EventGot, time.Minute, logrus.InfoLevel, "got the lock of /d after 1m0s"},
		{lock.EventGaveUp, time.Minute, logrus.WarnLevel, "gave up waiting for the lock of /d"},
		{lock.EventRecovered, 0, logrus.WarnLevel, "recovered the lock of /d from the dead host b pid 3"},
		{lock.EventLost, 0, logrus.ErrorLevel, "the lock of /d was taken away"},
		{lock.EventOdd, 0, logrus.ErrorLevel, "holds what no lock has"},
		{lock.EventCloned, 0, logrus.ErrorLevel, "LOCKFS_HOST_ID"},
		{lock.EventUnreleased, 0, logrus.ErrorLevel, "could not be released"},
		{lock.EventUnswept, 0, logrus.ErrorLevel, "could not be removed"},
		{lock.EventUnsynced, 0, logrus.ErrorLevel, "could not be written"},
		{"new", 0, logrus.WarnLevel, "/d: new"},
	} {
		log, hook := logtest.NewNullLogger()
		log.SetLevel(logrus.DebugLevel)
		err := errors.New("no space")
		Logger(log)(lock.Event{Kind: tt.kind, Path: "/d", Cause: cause, Record: "a,2,01", Holder: "host b pid 3", HolderRecord: "b,3,02",
			Reason: "why", Elapsed: tt.after, Server: time.Millisecond, Err: err})
		if len(hook.Entries) != 1 {
			t.Fatalf("%s: %d entries", tt.kind, len(hook.Entries))
		}
		e := hook.Entries[0]
		if e.Level != tt.level || !strings.Contains(e.Message, tt.text) {
			t.Errorf("%s: %v %q", tt.kind, e.Level, e.Message)
		}
		want := logrus.Fields{"event": string(tt.kind), "record": "a,2,01", "holder_record": "b,3,02", "server": "1ms", "holder": "host b pid 3", "reason": "why", "error": err}
		if tt.after != 0 {
			want["elapsed"] = tt.after.String()
		}
		for k, v := range all {
			want[k] = v
		}
		if len(e.Data) != len(want) {
			t.Errorf("%s: fields %v", tt.kind, e.Data)
		}
		for k, v := range want {
			if e.Data[k] != v {
				t.Errorf("%s: %s is %v, want %v", tt.kind, k, e.Data[k], v)
			}
		}
	}
	// What says nothing is left out, and what is not asked for is not told.
	log, hook := logtest.NewNullLogger()
	Logger(log)(lock.Event{Kind: lock.EventTook, Path: "/d"})
	if len(hook.Entries) != 0 {
		t.Errorf("told of a take at the info level: %v", hook.LastEntry())
	}
	Logger(log)(lock.Event{Kind: lock.EventOdd, Path: "/d"})
	if d := hook.LastEntry().Data; len(d) != 2 || d["dir"] != "/d" || d["event"] != "odd" {
		t.Errorf("fields %v", d)
	}
}

// The errno alone does not explain these.
func TestAnswersAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, hook := logtest.NewNullLogger()
		w := newWorld(t, Config{Log: log, Mount: "/m"})
		other := w.locks.hold(d1, job(2))
		c := caller(1)
		c.Once = true
		_, no := w.Alter(t.Context(), new(c), d1)
		w.want("alter", no, syscall.EBUSY)
		e := hook.LastEntry()
		if e == nil || e.Level != logrus.WarnLevel || e.Data["dir"] != "/d1" || e.Data["mount"] != "/m" || e.Data["program"] != "prog" {
			t.Errorf("%+v", e)
		}
		w.drop(other)
		w.locks.fail = func(lock.Request) error { return lock.ErrDeadlock }
		hook.Reset()
		_, _, no = w.AlterBoth(t.Context(), new(c), d1, d2)
		w.want("both", no, syscall.EDEADLK)
		if len(hook.Entries) != 2 {
			t.Errorf("%d entries", len(hook.Entries))
		}
		w.empty()
	})
}

func TestUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		answer := make(chan string)
		u := newUsers(func(uint32) string { calls++; return <-answer })
		start := time.Now()
		for range 3 { // only the first waits, and not for long
			if got := u.name(5); got != "5" {
				t.Errorf("%q", got)
			}
		}
		if d := time.Since(start); d != userPatience {
			t.Errorf("waited %v", d)
		}
		answer <- "eve"
		synctest.Wait()
		if got := u.name(5); got != "eve" || calls != 1 {
			t.Errorf("%q after %d calls", got, calls)
		}
		go func() { answer <- "bob" }()
		if got := u.name(6); got != "bob" {
			t.Errorf("%q", got)
		}
	})
	if got := lookupUser(1<<32 - 7); got != "4294967289" {
		t.Errorf("nobody's name: %q", got)
	}
	if _, err := os.Stat("/etc/passwd"); err == nil {
		if got := lookupUser(0); got != "root" {
			t.Errorf("root's name: %q", got)
		}
	}
}
