package gate

import (
	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// host is what a gate asks about the threads of this host: package procid.
type host interface {
	jobOf(p procid.JobPolicy, tid int, uid uint32) (procid.Job, error)
	program(tid int) (name string, pid int, err error)
	alone(tid int) bool
	find(tid int) (procid.Thread, error)
	alive(t procid.Thread) bool
	endsWait(tid int) bool
	hasOpen(tid int, dev, ino uint64) bool
}

type thisHost struct{}

func (thisHost) jobOf(p procid.JobPolicy, tid int, uid uint32) (procid.Job, error) {
	return procid.JobOf(p, tid, uid)
}
func (thisHost) program(tid int) (string, int, error)  { return procid.Program(tid) }
func (thisHost) alone(tid int) bool                    { return procid.Alone(tid) }
func (thisHost) find(tid int) (procid.Thread, error)   { return procid.FindThread(tid) }
func (thisHost) alive(t procid.Thread) bool            { return t.Alive() }
func (thisHost) endsWait(tid int) bool                 { return procid.EndsWait(tid) }
func (thisHost) hasOpen(tid int, dev, ino uint64) bool { return procid.HasOpen(tid, dev, ino) }

// requests asks for the locks of places in the caller's name.
func (g *Gate) requests(c Caller, places []lock.Place) []lock.Request {
	job, cause := g.describe(c)
	alone := g.host.alone(c.TID)
	reqs := make([]lock.Request, len(places))
	for i, p := range places {
		reqs[i] = lock.Request{Place: p, Job: job, Cause: cause, Alone: alone}
	}
	return reqs
}

// Cause says who the caller is.
func (g *Gate) Cause(c Caller) lock.Cause {
	_, cause := g.describe(c)
	return cause
}

// describe says of which job the caller is, and who he is for people. One that
// can't be seen is a job of its own, of no known program.
func (g *Gate) describe(c Caller) (procid.Job, lock.Cause) {
	job, err := g.host.jobOf(g.jobs, c.TID, c.Cred.UID)
	if err != nil {
		g.log.WithError(err).Debug("a caller is a job of its own")
	}
	cause := lock.Cause{User: g.users.name(c.Cred.UID), Job: job.String(), Mount: g.mount}
	if cause.Program, cause.PID, err = g.host.program(c.TID); err != nil {
		g.log.WithError(err).Debug("a caller's program is not known")
	}
	return job, cause
}
