package lock

// A graph of n states that are known by number. It is what the models of
// this directory and the explorer share: reachability is theirs, cycles are
// judged here.
type graph struct {
	n int
	// next calls yield for every edge from state i: to state j, by the
	// process p (or -1: by nobody that must ever act).
	next func(i int, yield func(j, p int))
}

// cycles calls yield with the states of every strongly connected component
// that has an edge within (so: of everything in which a run can stay for
// ever), among the states that keep holds. The algorithm is Tarjan's, without
// recursion: the graphs have millions of states.
func (g graph) cycles(keep func(i int) bool, yield func(members []int)) {
	type frame struct {
		v    int32
		to   []int32
		next int
	}
	const unseen = 0
	index := make([]int32, g.n) // 1 + the order of discovery
	low := make([]int32, g.n)
	onStack := make([]bool, g.n)
	var stack []int32
	var order int32
	enter := func(v int32) frame {
		order++
		index[v], low[v] = order, order
		stack = append(stack, v)
		onStack[v] = true
		f := frame{v: v}
		g.next(int(v), func(j, _ int) {
			if keep(j) {
				f.to = append(f.to, int32(j))
			}
		})
		return f
	}
	for root := range g.n {
		if index[root] != unseen || !keep(root) {
			continue
		}
		calls := []frame{enter(int32(root))}
		for len(calls) > 0 {
			f := &calls[len(calls)-1]
			if f.next < len(f.to) {
				w := f.to[f.next]
				f.next++
				if index[w] == unseen {
					calls = append(calls, enter(w))
				} else if onStack[w] {
					low[f.v] = min(low[f.v], index[w])
				}
				continue
			}
			if low[f.v] == index[f.v] {
				var members []int
				self := false
				for {
					w := stack[len(stack)-1]
					stack = stack[:len(stack)-1]
					onStack[w] = false
					members = append(members, int(w))
					if w == f.v {
						break
					}
				}
				for _, w := range f.to {
					self = self || w == f.v
				}
				if len(members) > 1 || self {
					yield(members)
				}
			}
			v := f.v
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				up := calls[len(calls)-1].v
				low[up] = min(low[up], low[v])
			}
		}
	}
}

// fair reports whether a run that stays in the members for ever can be fair
// to each of the processes: each acts again and again, or is again and again
// unable to (weak fairness).
func (g graph) fair(members []int, processes int, enabled func(i, p int) bool) bool {
	in := make(map[int]bool, len(members))
	for _, i := range members {
		in[i] = true
	}
	ok := make([]bool, processes)
	for _, i := range members {
		g.next(i, func(j, p int) {
			if p >= 0 && in[j] {
				ok[p] = true
			}
		})
		for p := range processes {
			if !ok[p] && !enabled(i, p) {
				ok[p] = true
			}
		}
	}
	for _, is := range ok {
		if !is {
			return false
		}
	}
	return true
}

// model is a transition system whose states are comparable values.
type model[S comparable] struct {
	start S
	// steps returns what process p can do in s.
	steps     func(s S, p int) []S
	processes int
}

// reach returns every reachable state, the start first and the others by
// their distance from it, and the graph of them.
func (m model[S]) reach() ([]S, graph) {
	states := []S{m.start}
	number := map[S]int{m.start: 0}
	for i := 0; i < len(states); i++ {
		for p := range m.processes {
			for _, t := range m.steps(states[i], p) {
				if _, known := number[t]; !known {
					number[t] = len(states)
					states = append(states, t)
				}
			}
		}
	}
	g := graph{n: len(states), next: func(i int, yield func(j, p int)) {
		for p := range m.processes {
			for _, t := range m.steps(states[i], p) {
				yield(number[t], p)
			}
		}
	}}
	return states, g
}

// againAndAgain reports whether every weakly fair run visits states that
// satisfy good for ever and ever.
func (m model[S]) againAndAgain(good func(S) bool) bool {
	states, g := m.reach()
	bad := func(i int) bool { return !good(states[i]) }
	enabled := func(i, p int) bool { return len(m.steps(states[i], p)) > 0 }
	holds := true
	g.cycles(bad, func(members []int) {
		// Only edges within the bad part count for the run that stays there.
		if g.fair(members, m.processes, enabled) {
			holds = false
		}
	})
	for i := range states { // a run that ends stays where it ends
		stuck := true
		g.next(i, func(_, _ int) { stuck = false })
		if stuck && bad(i) {
			holds = false
		}
	}
	return holds
}
