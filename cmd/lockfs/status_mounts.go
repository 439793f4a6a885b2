package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	lockfs "github.com/lockfs/lockfs/fs"
	"github.com/lockfs/lockfs/lock"
)

// askBound is how long a daemon may take to tell what it knows by itself.
const askBound = 5 * time.Second

// The states of a mount.
const (
	mountServed = "served"
	mountDead   = "dead"
	mountSilent = "silent"
)

// mountView is what is shown of a mount.
type mountView struct {
	Mount  string `json:"mount"`
	Source string `json:"source,omitempty"`
	State  string `json:"state"`
	// Reason is why a mount is silent.
	Reason  string    `json:"reason,omitempty"`
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Holds   int       `json:"holds"`
	Waiters int       `json:"waiters"`
}

// mountAnswer is what a mount's daemon tells.
type mountAnswer struct {
	view  mountView
	locks []lock.Status
}

// served returns the mounts of lockfs, each once: where a mount is to be seen
// at several places, the first of them at which nothing covers it.
func served(ms []mountEntry) []mountEntry {
	top := map[string]int{}
	for i, m := range ms {
		top[m.point] = i
	}
	var found []mountEntry
	seen := map[string]bool{}
	for i, m := range ms {
		if m.ours() && m.root == "/" && top[m.point] == i && !seen[m.dev] {
			seen[m.dev] = true
			found = append(found, m)
		}
	}
	return found
}

// askMounts asks the daemons of all mounts at once. One that does not answer
// in time is silent; what waits for it ends with this process.
func askMounts(ms []mountEntry) []mountAnswer {
	answers := make([]mountAnswer, len(ms))
	var all sync.WaitGroup
	for i, m := range ms {
		all.Go(func() {
			got := make(chan mountAnswer, 1)
			go func() { got <- askMount(m) }()
			select {
			case answers[i] = <-got:
			case <-time.After(askBound):
				answers[i] = silent(m, fmt.Errorf("its daemon does not answer within %v", askBound))
			}
		})
	}
	all.Wait()
	return answers
}

func silent(m mountEntry, err error) mountAnswer {
	return mountAnswer{view: mountView{Mount: m.point, State: mountSilent, Reason: err.Error()}}
}

// askMount asks the daemon of a mount what it knows by itself.
func askMount(m mountEntry) mountAnswer {
	st, err := readMount(m)
	switch {
	case errors.Is(err, unix.ENOTCONN):
		return mountAnswer{view: mountView{Mount: m.point, State: mountDead}}
	case errors.Is(err, os.ErrPermission):
		return silent(m, errors.New("only root, and the user whose mount it is, may ask it"))
	case err != nil:
		return silent(m, err)
	}
	a := mountAnswer{view: mountView{
		Mount: m.point, Source: st.Source, State: mountServed, Host: st.Host, PID: st.PID, Since: st.Since,
	}}
	for _, l := range st.Locks {
		if l.Holder != nil {
			a.view.Holds++
		}
		a.view.Waiters += len(l.Waiters)
		a.locks = append(a.locks, localLock(l, st, m.point))
	}
	return a
}

// readMount reads a mount's own file.
func readMount(m mountEntry) (st lockfs.MountStatus, err error) {
	f, err := os.Open(filepath.Join(m.point, lockfs.MountFile))
	if err != nil {
		return st, err
	}
	defer f.Close()
	var fst unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &fst); err != nil {
		return st, err
	}
	if dev := fmt.Sprintf("%d:%d", unix.Major(fst.Dev), unix.Minor(fst.Dev)); dev != m.dev {
		return st, errors.New("another mount covers it")
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return st, err
	}
	return st, json.Unmarshal(text, &st)
}

// localLock is a lock that a mount's daemon holds or waits for, as a status.
func localLock(l lock.LocalStatus, m lockfs.MountStatus, point string) lock.Status {
	var st lock.Status
	switch {
	case l.Holder != nil:
		st = lock.Status{
			State: lock.Held, Host: m.Host, PID: m.PID, Verdict: "alive", Reason: "this mount holds it",
			Since: l.Holder.Since, Cause: l.Holder.Cause,
		}
	case l.Seen != nil:
		st = *l.Seen
	default:
		st = lock.Status{State: lock.Free, Reason: "the mount has not looked at it yet"}
	}
	st.Advise(under(l.Path, m.Source, point))
	st.Holder, st.Waiters = l.Holder, l.Waiters
	return st
}
