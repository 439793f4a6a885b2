package gate

import (
	"maps"
	"slices"
	"time"

	"github.com/lockfs/lockfs/lock"
)

// reapEvery is how often the reaper looks.
const reapEvery = time.Second

// reap drops the tickets of threads that have died or that do not return. It
// ends with the last ticket, or with the gate.
func (g *Gate) reap() {
	tick := time.NewTicker(reapEvery)
	defer tick.Stop()
	for {
		select {
		case <-g.closing.Done():
			return
		case <-tick.C:
		}
		if !g.sweep() {
			return
		}
	}
}

// sweep is one look of the reaper. It reports whether there must be another.
func (g *Gate) sweep() bool {
	g.mu.Lock()
	tickets := slices.Collect(maps.Values(g.tickets))
	g.mu.Unlock()
	dead := make(map[*ticket]bool)
	for _, t := range tickets {
		dead[t] = !g.host.alive(t.thread)
	}
	var holds []*lock.Hold
	g.mu.Lock()
	now := time.Now()
	for _, t := range tickets {
		switch late := !now.Before(t.until); {
		case !g.standing(t), t.state == waiting: // the wait ends it
		case dead[t], late && t.state == spent:
			holds = append(holds, g.drop(t)...)
		case late:
			holds = append(holds, g.spend(t)...)
		}
	}
	g.reaping = len(g.tickets) > 0
	more := g.reaping
	g.mu.Unlock()
	g.release(holds)
	return more
}
