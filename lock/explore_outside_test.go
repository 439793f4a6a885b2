package lock

// What outsiders do to a lock directory: cleaners, operators with rm, backups,
// people who copy trees, servers and tools that leave files of their own.

// removes empties or removes the lock, or a candidate, in place. Whoever it
// belongs to is not safe any more, and must notice at its next check.
func removes(x *explorer, w *world, yield func(string, *world)) {
	for i := range int(w.tree.n) {
		e := &w.tree.ents[i]
		if e.file || e.n == 0 && e.name.kind == nLock {
			continue
		}
		for _, whole := range []bool{false, true} {
			if e.n == 0 && !whole {
				continue
			}
			after := *w
			a := &after.tree.ents[i]
			for _, k := range a.kids[:a.n] {
				if k.bears() {
					after.recs[k.rec].taken = true
				}
			}
			if a.name.bears() {
				after.recs[a.name.rec].taken = true
			}
			what := "empties the lock, or a candidate"
			a.n, a.kids = 0, [maxKids]tok{}
			if whole {
				what = "removes the lock, or a candidate"
				after.tree.del(i)
			}
			yield(what, &after)
		}
	}
}

// restores puts back a lock that was let go (cp -a, a snapshot, rsync).
func restores(x *explorer, w *world, yield func(string, *world)) {
	if l := w.tree.lock(); l != nil && l.n > 0 {
		return
	}
	for _, c := range w.past[:w.npast] {
		after := *w
		if after.tree.lock() == nil {
			after.tree.add(ent{name: tok{kind: nLock}})
		}
		l := after.tree.lock()
		l.n, l.kids = c.n, c.kids
		for _, k := range c.kids[:c.n] {
			if k.bears() {
				after.recs[k.rec].taken = true
			}
		}
		yield("restores a lock of before", &after)
	}
}

// litters puts what is no record into the lock, or a file in its place.
func litters(x *explorer, w *world, yield func(string, *world)) {
	after := *w
	l := after.tree.lock()
	if l == nil {
		after.tree.add(ent{name: tok{kind: nLock}, file: true})
		yield("puts a file in the place of the lock", &after)
		after = *w
		after.tree.add(ent{name: tok{kind: nLock}})
		l = after.tree.lock()
	}
	if !l.file && l.find(tok{kind: nJunk}) < 0 {
		l.add(tok{kind: nJunk})
		yield("puts a file into the lock", &after)
	}
}

// looks keeps a removed record open for a while, as NFS does: it stays under
// a name of the client's.
func looks(x *explorer, w *world, yield func(string, *world)) {
	l := w.tree.lock()
	if l == nil || l.file {
		return
	}
	after := *w
	l = after.tree.lock()
	if i := l.find(tok{kind: nSilly}); i >= 0 {
		l.del(i)
		yield("has looked: .nfs goes", &after)
	} else {
		l.add(tok{kind: nSilly})
		yield("looks at a record: .nfs comes", &after)
	}
}
