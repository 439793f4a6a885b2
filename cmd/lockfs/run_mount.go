package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/lock"
)

// A wait is told of after tellFirst, then after ever longer pauses up to
// tellRarely, as the daemon does in its log.
const (
	tellFirst  = 3 * time.Second
	tellRarely = 10 * time.Minute
)

// open opens the virtual file of each place, whose lock it holds from then on,
// for the command too. The wait ends with the request's limit or with a
// signal: then the process must end, and its opens end with it.
func (r *runRequest) open(places []runPlace, signals <-chan os.Signal) error {
	var limit <-chan time.Time
	if r.wait > 0 {
		limit = time.After(r.wait)
	}
	for _, p := range places {
		opened := make(chan error, 1)
		go func() { opened <- p.open(r.wait == 0) }()
		if err := r.await(p, opened, limit, signals); err != nil {
			return err
		}
	}
	return nil
}

// open opens the virtual file of the place, which then stays open. The
// operation is through the directory's own descriptor: the lock is of what was
// looked at.
func (p runPlace) open(now bool) error {
	flags := unix.O_WRONLY
	if now {
		flags |= unix.O_NONBLOCK
	}
	for {
		_, err := unix.Openat(p.fd, lock.Reserved, flags, 0)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EBUSY):
			return fmt.Errorf("the lock of %s: %w; it is %s", p.path, err, p.holder())
		default:
			return fmt.Errorf("the lock of %s: %w", p.path, err)
		}
	}
}

// holder says in words who holds the lock of the place.
func (p runPlace) holder() string {
	st, err := p.mountStatus()
	if err != nil {
		return "held; who holds it can't be asked: " + err.Error()
	}
	return heldBy(st)
}

// await waits for the lock of the place, and says who holds it.
func (r *runRequest) await(p runPlace, opened <-chan error, limit <-chan time.Time, signals <-chan os.Signal) error {
	began, told := time.Now(), false
	pause := tellFirst
	tell := time.NewTimer(pause)
	defer tell.Stop()
	asked := make(chan string, 1) // the answer may take as long as the lock
	for {
		select {
		case err := <-opened:
			if err == nil && told {
				r.say("got the lock of %s after %v", p.path, time.Since(began).Round(time.Second))
			}
			return err
		case <-tell.C:
			go func() { asked <- p.holder() }()
		case who := <-asked:
			told = true
			r.say("waiting for the lock of %s, %s", p.path, who)
			pause = min(2*pause, tellRarely)
			tell.Reset(pause)
		case <-limit:
			return withCode(r.busy, fmt.Errorf("the lock of %s was not to be had in %v", p.path, r.wait))
		case s := <-signals:
			return interrupted(s)
		}
	}
}
