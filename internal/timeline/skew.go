package timeline

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Skew says that the clocks of two hosts are proved to differ: as logged, a
// lock was taken on one before it was let go on the other.
type Skew struct {
	// Ahead is the host whose clock is ahead of that of Behind. If Unsure, it
	// may be the other way round, and by more.
	Ahead, Behind string
	Unsure        bool
	// Least is what they differ by at least, for all of Times.
	Least time.Duration
	Times int
	// Dir and At are where it shows most.
	Dir *Dir
	At  Span
}

// latency is how much an order of two entries may be wrong though both clocks
// are right: an entry is written some time after the server has answered.
const latency = 20 * time.Millisecond

type hostPair struct{ ahead, behind string }

// skews finds the pairs of hosts whose clocks are proved to differ.
func skews(dirs []*Dir) []Skew {
	found := map[hostPair]*Skew{}
	note := func(d *Dir, ahead, behind string, unsure bool, at Span) {
		if at.Length() <= latency {
			return
		}
		s := found[hostPair{ahead, behind}]
		if s == nil {
			s = &Skew{Ahead: ahead, Behind: behind, Unsure: true}
			found[hostPair{ahead, behind}] = s
		}
		s.Times++
		s.Unsure = s.Unsure && unsure
		if at.Length() > s.Least {
			s.Least, s.Dir, s.At = at.Length(), d, at
		}
	}
	for _, d := range dirs {
		d.outOfTurn(note)
		d.overlaps(note)
	}
	// What is sure of two hosts says more than what is not.
	for p, s := range found {
		if !s.Unsure {
			for _, q := range []hostPair{p, {p.behind, p.ahead}} {
				if o := found[q]; o != nil && o.Unsure {
					delete(found, q)
				}
			}
		}
	}
	return slices.SortedFunc(func(yield func(Skew) bool) {
		for _, s := range found {
			if !yield(*s) {
				return
			}
		}
	}, func(a, b Skew) int {
		return cmp.Or(cmp.Compare(b.Least, a.Least), cmp.Compare(a.Ahead, b.Ahead), cmp.Compare(a.Behind, b.Behind))
	})
}

// outOfTurn finds waits that ended, as logged, before the holder whom they
// waited for had begun to let go.
func (d *Dir) outOfTurn(note func(*Dir, string, string, bool, Span)) {
	holds := map[string]*Hold{}
	for _, h := range d.Holds {
		holds[h.Record] = h
	}
	for _, w := range d.Waits {
		h := holds[w.Behind]
		if h == nil || w.End != Got || h.End != Released || h.Host == w.Host {
			continue
		}
		note(d, h.Host, w.Host, false, Span{w.To, h.Let})
	}
}

// overlaps finds holds of two hosts that were, as logged, held at once. Which
// was first is not certain by that; what is less wrong is taken for it.
func (d *Dir) overlaps(note func(*Dir, string, string, bool, Span)) {
	for i, a := range d.Holds {
		for _, b := range d.Holds[i+1:] {
			if !b.From.Before(a.To) {
				break // all that follow begin later still
			}
			if a.Host == b.Host || a.End != Released || b.End != Released {
				continue
			}
			first := Span{b.From, a.Let}  // if a was before b
			second := Span{a.From, b.Let} // if b was before a
			if first.Length() <= second.Length() {
				note(d, a.Host, b.Host, true, first)
			} else {
				note(d, b.Host, a.Host, true, second)
			}
		}
	}
}

// Overlaps returns the times in which, as logged, two hosts held the lock.
func (d *Dir) Overlaps() []Span {
	found := map[Span]bool{}
	d.overlaps(func(_ *Dir, _, _ string, _ bool, at Span) {
		if at.Length() > latency {
			found[at] = true
		}
	})
	return slices.SortedFunc(maps.Keys(found), func(a, b Span) int { return a.From.Compare(b.From) })
}
