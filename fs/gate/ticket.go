package gate

import (
	"slices"
	"syscall"
	"time"

	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

const (
	// returnTime is how long a thread that was sent around may take to come
	// to Attributes, and from there to its operation: the walk of one path.
	// A walk that ended otherwise leaves a reservation that keeps other jobs
	// waiting for as long.
	returnTime = 10 * time.Second
	// memory is how long it is remembered beyond that that the thread has had
	// its ESTALE, since a walk through a server that does not answer lasts as
	// long as that does.
	memory = 10 * time.Minute
)

// state says how far a thread that was sent around has come.
type state uint8

const (
	pending  state = iota // not yet in Attributes
	waiting               // in Attributes
	reserved              // has been there, and has the lock
	spent                 // has taken too long: neither waits nor has a lock
)

// ticket is a thread that was sent around and whose operation has not arrived
// again. A thread makes one system call at a time, so it has one ticket at most.
// All but thread is guarded by the gate's mutex.
type ticket struct {
	thread procid.Thread
	state  state
	// reqs are those of the operation, in its order; nil once spent.
	reqs []lock.Request
	// holds are those of a reservation.
	holds []*lock.Hold
	// until is when the state ends, unless it is waiting.
	until time.Time
}

// Pending reports whether a thread that was sent around waits for the lock of
// the directory or may be about to: the directory's attributes must have no
// validity in the kernel, so that it asks for them.
func (g *Gate) Pending(k lock.Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.expected[k] > 0
}

// sendAround makes a ticket and answers ESTALE. An ESTALE of the server's own
// (busy is false then) is remembered too, since the kernel repeats the
// operation just the same.
func (g *Gate) sendAround(thread procid.Thread, reqs []lock.Request, busy bool) syscall.Errno {
	t := &ticket{thread: thread, reqs: reqs, until: time.Now().Add(returnTime)}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return syscall.ENOTCONN
	}
	g.tickets[thread.TID] = t
	for _, r := range t.reqs {
		g.expected[r.Place.Key]++
	}
	if !busy {
		g.spend(t)
	}
	if !g.reaping {
		g.reaping = true
		g.running.Go(g.reap)
	}
	return syscall.ESTALE
}

// Around answers ESTALE to an operation that Open has given hold for, and whose
// path leads elsewhere by now. hold is the gate's from now on: it is reserved for
// what the kernel's second walk finds there, since a second ESTALE would go to
// the program.
func (g *Gate) Around(c Caller, d Dir, hold *lock.Hold) syscall.Errno {
	holds := []*lock.Hold{hold}
	defer func() { g.release(holds) }()
	thread, err := g.host.find(c.TID)
	if err != nil {
		return syscall.ESTALE
	}
	no := g.sendAround(thread, g.requests(c, []lock.Place{d.Place(c.Cred)}), true)
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tickets[c.TID]; no == syscall.ESTALE && t != nil && t.state == pending {
		t.state, t.holds, holds = reserved, holds, nil
	}
	return no
}

// spend turns t into a mere memory. It returns the holds to be released. The
// mutex is held.
func (g *Gate) spend(t *ticket) []*lock.Hold {
	for _, r := range t.reqs {
		k := r.Place.Key
		if g.expected[k]--; g.expected[k] == 0 {
			delete(g.expected, k)
		}
	}
	holds := t.holds
	t.state, t.reqs, t.holds, t.until = spent, nil, nil, time.Now().Add(memory)
	return holds
}

// drop forgets t. It returns the holds to be released. The mutex is held.
func (g *Gate) drop(t *ticket) []*lock.Hold {
	delete(g.tickets, t.thread.TID)
	return g.spend(t)
}

// standing reports whether t has not been dropped. The mutex is held.
func (g *Gate) standing(t *ticket) bool { return g.tickets[t.thread.TID] == t }

// arrive takes in the ticket of a thread whose operation arrives. It returns
// the holds that are reserved for the operation, if any, or whether the thread
// has had an ESTALE already. An operation in other directories than the
// ticket's is taken for the same one, arrived where the path leads by now: at
// worst a new one is not sent around. A reservation that it does not use is
// released.
func (g *Gate) arrive(tid int, places []lock.Place) (holds []*lock.Hold, again bool) {
	g.mu.Lock()
	t := g.tickets[tid]
	if t == nil {
		g.mu.Unlock()
		return nil, false
	}
	fits := t.state == reserved && slices.EqualFunc(t.reqs, places,
		func(r lock.Request, p lock.Place) bool { return r.Place.Key == p.Key })
	holds = g.drop(t)
	g.mu.Unlock()
	thread, err := g.host.find(tid)
	again = err == nil && thread == t.thread
	if again && fits && !slices.ContainsFunc(holds, g.locks.lost) {
		return holds, true
	}
	g.release(holds)
	return nil, again
}

// peek returns the ticket of the thread tid if it is to wait in Attributes.
func (g *Gate) peek(tid int) *ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tickets[tid]; t != nil && t.state == pending {
		return t
	}
	return nil
}

// begin makes t a waiting one and returns what to ask for, or nil if there is
// nothing to wait for in the directory at place. It counts as enter does.
func (g *Gate) begin(t *ticket, place lock.Place) []lock.Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(t.reqs, func(r lock.Request) bool { return r.Place.Key == place.Key })
	if i < 0 || t.state != pending || !g.standing(t) {
		return nil
	}
	t.state = waiting
	t.reqs[i].Place = place
	g.running.Add(1)
	return slices.Clone(t.reqs)
}

// reserve keeps holds for the thread of t.
func (g *Gate) reserve(t *ticket, holds []*lock.Hold) syscall.Errno {
	g.mu.Lock()
	no := syscall.Errno(0)
	switch {
	case g.closed:
		no = syscall.ENOTCONN
	case g.standing(t):
		t.state, t.holds, t.until = reserved, holds, time.Now().Add(returnTime)
		holds = nil
	}
	g.mu.Unlock()
	g.release(holds)
	return no
}

// forget drops the ticket of a wait that failed.
func (g *Gate) forget(t *ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.standing(t) {
		g.drop(t) // waiting: without holds
	}
}

func (g *Gate) release(holds []*lock.Hold) {
	for _, h := range holds {
		g.locks.release(h)
	}
}
