package gate

import (
	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// host is what a gate asks about the threads of this host: package procid.
type host interface {
	look(tid int) view
	find(tid int) (procid.Thread, error)
	alive(t procid.Thread) bool
	endsWait(tid int) bool
	hasOpen(tid int, dev, ino uint64) bool
}

// view is one look at a thread: procid.View.
type view interface {
	Job(p procid.JobPolicy, uid uint32) (procid.Job, error)
	Program() (name string, pid int, err error)
	Alone() bool
}

type thisHost struct{}

func (thisHost) look(tid int) view                     { return procid.Look(tid) }
func (thisHost) find(tid int) (procid.Thread, error)   { return procid.FindThread(tid) }
func (thisHost) alive(t procid.Thread) bool            { return t.Alive() }
func (thisHost) endsWait(tid int) bool                 { return procid.EndsWait(tid) }
func (thisHost) hasOpen(tid int, dev, ino uint64) bool { return procid.HasOpen(tid, dev, ino) }

// requests asks for the locks of places in the caller's name.
func (g *Gate) requests(c Caller, places []lock.Place) []lock.Request {
	v := g.view(c)
	job, cause := g.describe(c, v)
	alone := v.Alone()
	reqs := make([]lock.Request, len(places))
	for i, p := range places {
		reqs[i] = lock.Request{Place: p, Job: job, Cause: cause, Alone: alone}
	}
	return reqs
}

// Cause says who the caller is.
func (g *Gate) Cause(c Caller) lock.Cause {
	_, cause := g.describe(c, g.view(c))
	return cause
}

// view is the look at the caller that there has been, or a new one.
func (g *Gate) view(c Caller) view {
	if c.View != nil {
		return *c.View
	}
	return g.host.look(c.TID)
}

// describe says of which job the caller is, and who he is for people. One that
// can't be seen is a job of its own, of no known program.
func (g *Gate) describe(c Caller, v view) (procid.Job, lock.Cause) {
	job, err := v.Job(g.jobs, c.Cred.UID)
	if err != nil {
		g.log.WithError(err).Debug("a caller is a job of its own")
	}
	cause := lock.Cause{User: g.users.name(c.Cred.UID), Job: job.String(), Mount: g.mount}
	if cause.Program, cause.PID, err = v.Program(); err != nil {
		g.log.WithError(err).Debug("a caller's program is not known")
	}
	return job, cause
}
