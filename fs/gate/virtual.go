package gate

import (
	"context"
	"maps"
	"slices"
	"sync"
	"syscall"

	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// descriptor is an open virtual file of a lock, and the job that holds the
// lock through it.
type descriptor struct {
	dev, ino uint64
	job      procid.Job
}

// OpenVirtual is Open for the virtual file D/.lockfs itself, which has this
// device and inode number to those who open it. Until the hold is ended by
// done, which is called at the file's RELEASE in place of the hold's own
// Release, a caller who would have to wait for the lock and has this file open
// himself is of the job that holds it: a command that was started with the
// descriptor may be of another session. On an error done is nil.
func (g *Gate) OpenVirtual(ctx context.Context, c Caller, d Dir, dev, ino uint64) (h *lock.Hold, done func(), no syscall.Errno) {
	h, job, no := g.open(ctx, c, d)
	if no != 0 {
		return nil, nil, no
	}
	key, desc := d.Place(c.Cred).Key, descriptor{dev, ino, job}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.virtual[key] == nil {
		g.virtual[key] = make(map[descriptor]int)
	}
	g.virtual[key][desc]++
	return h, sync.OnceFunc(func() {
		g.unregister(key, desc)
		g.locks.release(h)
	}), 0
}

func (g *Gate) unregister(key lock.Key, desc descriptor) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.virtual[key]
	if m[desc]--; m[desc] == 0 {
		delete(m, desc)
	}
	if len(m) == 0 {
		delete(g.virtual, key)
	}
}

// adopt gives the requests of the thread tid the job of a virtual file that
// it has open. If it has one of one directory only, both requests are of that
// job, since two jobs cannot wait together. It reports whether it has changed
// a job.
func (g *Gate) adopt(tid int, reqs []lock.Request) bool {
	var changed bool
	jobs := make([]*procid.Job, len(reqs))
	for i, r := range reqs {
		jobs[i] = g.jobByDescriptor(tid, r.Place.Key)
	}
	for i := range reqs {
		j := jobs[i]
		if j == nil {
			j = jobs[len(jobs)-1-i]
		}
		if j != nil && *j != reqs[i].Job {
			reqs[i].Job, changed = *j, true
			reqs[i].Cause.Job = j.String()
		}
	}
	return changed
}

// jobByDescriptor returns the job that holds the directory's lock through a
// virtual file which the thread tid has open, or nil.
func (g *Gate) jobByDescriptor(tid int, k lock.Key) *procid.Job {
	g.mu.Lock()
	open := slices.Collect(maps.Keys(g.virtual[k]))
	g.mu.Unlock()
	for _, d := range open {
		if g.host.hasOpen(tid, d.dev, d.ino) {
			return &d.job
		}
	}
	return nil
}
