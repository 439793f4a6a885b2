package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"

	lockfs "github.com/lockfs/lockfs/fs"
)

// statusEvery is how often a service manager is told how many locks there are.
const statusEvery = 5 * time.Second

// notifier tells a service manager, where there is one (sd_notify(3)), that the
// mount serves and what it does. It sends no keep-alive for a watchdog: whether
// the file system answers can't be asked by the process that serves it, and a
// file server that is down is no reason to kill who waits for it.
type notifier struct {
	log  *logrus.Entry
	stop chan struct{}
	done chan struct{}
}

// notify tells that the server serves, and its state from then on.
func notify(server *lockfs.Server, log *logrus.Entry) *notifier {
	n := &notifier{log, make(chan struct{}), make(chan struct{})}
	last := statusLine(server.Counts())
	managed := n.send(daemon.SdNotifyReady, "STATUS="+last)
	go func() {
		defer close(n.done)
		if !managed {
			return
		}
		tick := time.NewTicker(statusEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if line := statusLine(server.Counts()); line != last {
					last = line
					n.send("STATUS=" + line)
				}
			case <-n.stop:
				return
			}
		}
	}()
	return n
}

// ending tells that the mount ends, and ends the notifier.
func (n *notifier) ending() {
	close(n.stop)
	<-n.done
	n.send(daemon.SdNotifyStopping, "STATUS=flushing files and releasing locks")
}

// send sends a message, and reports whether there is somebody to read it.
func (n *notifier) send(lines ...string) bool {
	sent, err := daemon.SdNotify(false, strings.Join(lines, "\n"))
	if err != nil {
		n.log.WithError(err).Warn("the service manager could not be told")
	}
	return sent
}

// statusLine says how many locks a mount has.
func statusLine(held, waiting int) string {
	plural := func(n int, one, more string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, more)
	}
	return plural(held, "directory is locked", "directories are locked") + ", " + plural(waiting, "operation waits", "operations wait")
}
