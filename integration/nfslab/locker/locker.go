// Package locker lets a test work package lock's Manager in a process of
// another host: Serve serves one there (command lockerd), Client calls it from
// here, over whatever carries bytes. A call is answered when the Manager has
// answered; any number of calls may be under way.
package locker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/internal/cred"
	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// Request is one call. Which fields count stands at the method.
type Request struct {
	// Path is the directory whose lock is meant.
	Path string
	// Job is the number of the job that acts: different ones wait for each
	// other.
	Job uint32
	// Wait is lock.Request's.
	Wait time.Duration
	// Hold is what Take returned.
	Hold int
	// N counts.
	N int
	// Record names the one to break.
	Record string
}

// Reply is the answer to a call.
type Reply struct {
	// Hold names the hold that was taken.
	Hold int
	// Elapsed is how long the call took there.
	Elapsed time.Duration
	// Err is the error's text, Errno its number; both zero if all went well.
	Err   string
	Errno unix.Errno
	// Freed is lock.Recover's.
	Freed  bool
	Status lock.Status
	Events []Event
	// ID is the identity of the process.
	ID procid.ID
}

// Event is a lock.Event that can be sent.
type Event struct {
	Kind                      lock.EventKind
	Path, Holder, Reason, Err string
	Elapsed                   time.Duration
}

// Locker has the methods that can be called, by package net/rpc's rules.
type Locker struct {
	self    *procid.Local
	manager *lock.Manager

	mu     sync.Mutex
	events []Event
	holds  map[int]*lock.Hold
	next   int
	places map[string]place
}

type place struct {
	lock.Place
	fd int
}

// Serve serves a new Locker until the peer's input ends. It then closes the
// Manager.
func Serve(peer io.ReadWriteCloser) error {
	self, err := procid.Self()
	if err != nil {
		return err
	}
	l := &Locker{self: self, holds: map[int]*lock.Hold{}, places: map[string]place{}}
	l.manager = lock.NewManager(lock.Config{Self: self, Events: l.note})
	s := rpc.NewServer()
	if err := s.Register(l); err != nil {
		return err
	}
	s.ServeCodec(jsonrpc.NewServerCodec(peer))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return l.manager.Close(ctx)
}

func (l *Locker) note(ev lock.Event) {
	e := Event{Kind: ev.Kind, Path: ev.Path, Holder: ev.Holder, Reason: ev.Reason, Elapsed: ev.Elapsed}
	if ev.Err != nil {
		e.Err = ev.Err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// place returns the directory, which is opened once.
func (l *Locker) place(path string) (place, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p, ok := l.places[path]; ok {
		return p, nil
	}
	fd, err := openDir(path)
	if err != nil {
		return place{}, err
	}
	root, err := openDir(filepath.Dir(path))
	if err != nil {
		return place{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return place{}, fmt.Errorf("stat %s: %w", path, err)
	}
	p := place{fd: fd, Place: lock.Place{
		Key: lock.Key{Dev: st.Dev, Ino: st.Ino}, Path: path,
		Open: func() (lock.Dir, error) { return lock.OpenDirIn(root, fd, cred.Own()) },
	}}
	l.places[path] = p
	return p, nil
}

func openDir(path string) (fd int, err error) {
	fd, err = unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	return fd, nil
}

// call times f and puts its error into the reply.
func call(out *Reply, f func() error) error {
	began := time.Now()
	err := f()
	out.Elapsed = time.Since(began)
	if err != nil {
		out.Err, out.Errno = err.Error(), lock.Errno(err)
	}
	return nil
}

// Who tells the process's identity.
func (l *Locker) Who(_ Request, out *Reply) error {
	return call(out, func() error { out.ID = l.self.ID(); return nil })
}

// Take takes the lock of Path for Job within Wait.
func (l *Locker) Take(in Request, out *Reply) error {
	return call(out, func() error {
		h, err := l.take(in)
		if err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.next++
		l.holds[l.next], out.Hold = h, l.next
		return nil
	})
}

func (l *Locker) take(in Request) (*lock.Hold, error) {
	p, err := l.place(in.Path)
	if err != nil {
		return nil, err
	}
	job, err := procid.JobOf(procid.ByUser, os.Getpid(), in.Job)
	if err != nil {
		return nil, err
	}
	return l.manager.Acquire(context.Background(), lock.Request{
		Place: p.Place, Job: job, Wait: in.Wait,
		Cause: lock.Cause{Program: "lockerd", PID: os.Getpid(), User: strconv.Itoa(int(in.Job)), Job: job.String()},
	})
}

// release ends the hold and waits until the server knows.
func (l *Locker) release(path string, h *lock.Hold) error {
	p, err := l.place(path)
	if err != nil {
		return err
	}
	h.Release()
	for {
		if holder, _ := l.manager.Waiting(p.Key); holder == nil || holder.Uses > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := h.Err(); err != nil {
		return err
	}
	return nil
}

func (l *Locker) hold(n int) (*lock.Hold, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.holds[n]; h != nil {
		return h, nil
	}
	return nil, fmt.Errorf("no hold %d", n)
}

// Release ends the Hold on Path; it returns when the server has answered.
func (l *Locker) Release(in Request, out *Reply) error {
	return call(out, func() error {
		h, err := l.hold(in.Hold)
		if err != nil {
			return err
		}
		return l.release(in.Path, h)
	})
}

// Check asks the server whether the Hold stands.
func (l *Locker) Check(in Request, out *Reply) error {
	return call(out, func() error {
		h, err := l.hold(in.Hold)
		if err != nil {
			return err
		}
		return h.Check(context.Background())
	})
}

// Status looks at the lock of Path.
func (l *Locker) Status(in Request, out *Reply) error {
	return l.with(in, out, func(d lock.Dir) (err error) {
		out.Status, err = lock.StatusOf(d, in.Path, l.self.Judge)
		return err
	})
}

// Recover frees the lock of Path if its holder is a dead process of the host.
func (l *Locker) Recover(in Request, out *Reply) error {
	return l.with(in, out, func(d lock.Dir) (err error) {
		out.Freed, err = lock.Recover(d, l.self)
		return err
	})
}

// Break breaks the lock of Path that Record holds.
func (l *Locker) Break(in Request, out *Reply) error {
	return l.with(in, out, func(d lock.Dir) error { return lock.Break(d, in.Path, in.Record, l.self, false) })
}

func (l *Locker) with(in Request, out *Reply, f func(lock.Dir) error) error {
	return call(out, func() error {
		d, err := lock.OpenPath(in.Path, cred.Own())
		if err != nil {
			return err
		}
		return errors.Join(f(d), d.Close())
	})
}

// Events tells what the Manager told since the last such call.
func (l *Locker) Events(_ Request, out *Reply) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	out.Events, l.events = l.events, nil
	return nil
}

// Count takes the lock of Path N times, each time for another of two jobs, and
// adds 1 to the number in its file "count" under it: a number is lost when two
// do so at once, or when the next holder doesn't see what the last one wrote.
func (l *Locker) Count(in Request, out *Reply) error {
	return call(out, func() error {
		p, err := l.place(in.Path)
		if err != nil {
			return err
		}
		file := filepath.Join("/proc/self/fd", strconv.Itoa(p.fd), "count")
		for i := range in.N {
			h, err := l.take(Request{Path: in.Path, Job: in.Job + uint32(i%2), Wait: in.Wait})
			if err != nil {
				return err
			}
			err = increment(file)
			if err := errors.Join(err, l.release(in.Path, h)); err != nil {
				return err
			}
		}
		return nil
	})
}

func increment(file string) error {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	n := 0
	if err == nil {
		if n, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			return err
		}
	}
	return os.WriteFile(file, fmt.Appendln(nil, n+1), 0o666)
}

// Crowd has N jobs wait for the lock of Path until Wait is over. All must be
// told that another holds it.
func (l *Locker) Crowd(in Request, out *Reply) error {
	return call(out, func() error {
		errs := make([]error, in.N)
		var jobs sync.WaitGroup
		for i := range in.N {
			jobs.Go(func() {
				h, err := l.take(Request{Path: in.Path, Job: in.Job + uint32(i), Wait: in.Wait})
				switch {
				case err == nil:
					errs[i] = errors.Join(fmt.Errorf("job %d took the lock", i), l.release(in.Path, h))
				case !errors.Is(err, unix.EBUSY):
					errs[i] = err
				}
			})
		}
		jobs.Wait()
		return errors.Join(errs...)
	})
}

// Client calls a Locker.
type Client struct{ rpc *rpc.Client }

// NewClient returns a client of the Locker that serves the peer.
func NewClient(peer io.ReadWriteCloser) *Client { return &Client{jsonrpc.NewClient(peer)} }

// Close ends the connection, and with it the Locker.
func (c *Client) Close() error { return c.rpc.Close() }

// Call calls a method and waits for the answer. The error is that of the call;
// the method's own is in the reply.
func (c *Client) Call(ctx context.Context, method string, in Request) (Reply, error) {
	var out Reply
	call := c.rpc.Go("Locker."+method, in, &out, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		return out, call.Error
	case <-ctx.Done():
		return Reply{}, fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
}
