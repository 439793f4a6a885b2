package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// cell is one piece of work on one file system.
type cell struct {
	samples []sample
	err     error // of the first that failed
}

// median returns the sample of middle speed.
func (c cell) median() (sample, bool) {
	if c.err != nil || len(c.samples) == 0 {
		return sample{}, false
	}
	s := slices.SortedFunc(slices.Values(c.samples), func(a, b sample) int { return cmp.Compare(a.rate(), b.rate()) })
	return s[(len(s)-1)/2], true
}

// result is what was measured on one backing.
type result struct {
	backing string
	systems []string // native first
	works   []work
	cells   map[string]map[string]*cell // by work and file system
	peak    map[string]int64            // the daemons' memory, in bytes
	took    time.Duration
}

// cell returns the cell of a work and a file system.
func (r *result) cell(work, system string) *cell {
	if r.cells[work] == nil {
		r.cells[work] = map[string]*cell{}
	}
	if r.cells[work][system] == nil {
		r.cells[work][system] = new(cell)
	}
	return r.cells[work][system]
}

// ratio is the speed of a file system in proportion to native's.
func (r *result) ratio(work, system string) (float64, bool) {
	a, ok := r.cell(work, system).median()
	b, bok := r.cell(work, native).median()
	if !ok || !bok {
		return 0, false
	}
	return a.rate() / b.rate(), true
}

// measureOn does all work on all systems over the backing: each piece of work
// on each file system in turn, and that again for each round, so that what
// disturbs the machine meanwhile disturbs all alike. Nothing begins after the
// deadline.
func measureOn(c config, b *backing, systems []system, deadline time.Time, note func(string, ...any)) (res *result, err error) {
	began := time.Now()
	res = &result{backing: b.name, cells: map[string]map[string]*cell{}, peak: map[string]int64{}}
	defer func() { err = errors.Join(err, removeFixture(b.dir)) }()
	if err := makeFixture(b.dir, c.scale); err != nil {
		return nil, fmt.Errorf("the fixture: %w", err)
	}
	var all []*served
	defer func() {
		for _, v := range all {
			err = errors.Join(err, v.end())
		}
	}()
	for _, s := range systems {
		v, err := s.serve(b, c.tmp)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
		res.systems = append(res.systems, s.name)
	}
	var late []string
	for _, w := range works() {
		if !c.works.match(w.name) {
			continue
		}
		if time.Now().After(deadline) {
			late = append(late, w.name)
			continue
		}
		if w.needs != "" {
			if _, err := exec.LookPath(w.needs); err != nil {
				note("%s is left out: %v (apt-get install %s)", w.name, err, w.needs)
				continue
			}
		}
		res.works = append(res.works, w)
		fmt.Fprintf(os.Stderr, "%s: %s\n", b.name, w.name)
		for round := range c.rounds {
			for i := range all {
				// Who goes first goes last in the next round.
				v := all[(i+round)%len(all)]
				if v.readOnly && !w.reads {
					continue
				}
				if cell := res.cell(w.name, v.name); cell.err == nil {
					cell.add(c, b, w, v)
				}
			}
		}
	}
	if late != nil {
		note("%s: left out, since the budget of %v is spent: %s", b.name, c.budget, strings.Join(late, "; "))
	}
	for _, v := range all {
		var err error
		if res.peak[v.name], err = v.peak(); err != nil {
			note("%s: the memory of %s is not known: %v", b.name, v.name, err)
		}
	}
	res.took = time.Since(began)
	return res, nil
}

// add does the work once more.
func (l *cell) add(c config, b *backing, w work, v *served) {
	ctx, cancel := context.WithTimeout(context.Background(), c.limit)
	defer cancel()
	t := task{
		Work: w.name, Scale: c.scale, Daemon: v.pid(), Dir: v.dir, Back: b.dir,
		Name: fmt.Sprintf("%s.%d.%d", v.name, len(l.samples), time.Now().UnixNano()),
	}
	switch {
	case v.cmd != nil:
		t.Mount = v.dir
	case b.mounted:
		t.Mount = b.dir
	}
	s, err := runTask(ctx, t)
	if err == nil && s.Time <= 0 {
		err = errors.New("it took no time")
	}
	if err != nil {
		l.err = err
		fmt.Fprintf(os.Stderr, "%s: %s on %s: %v\n", b.name, w.name, v.name, err)
		return
	}
	l.samples = append(l.samples, s)
}
