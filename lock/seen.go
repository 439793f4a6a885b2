package lock

// Seen tells the manager of a name of lockfs's own that was seen in a
// directory. If a dead process of this host has left it there, whoever sees it
// cleans up: the lock is freed, and candidates are discarded, in the
// background.
func (m *Manager) Seen(p Place, name string) {
	if name != lockName {
		if r, _, ok := parseCandidate(name); !ok || !m.holder.abandoned(r) {
			return
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	// Who holds the lock or waits for it looks himself.
	if m.closed || m.cleaning[p.Key] || name == lockName && m.entries[p.Key] != nil {
		return
	}
	m.cleaning[p.Key] = true
	m.workers.Go(func() {
		err := m.cleanUp(p)
		m.mu.Lock()
		delete(m.cleaning, p.Key)
		m.mu.Unlock()
		if err != nil {
			m.events(Event{Kind: EventUnswept, Path: p.Path, Err: err})
		}
	})
}

// cleanUp frees the lock at the place if it is stale, removes what is left of
// one, and discards the candidates of dead processes of this host.
func (m *Manager) cleanUp(p Place) (err error) {
	d, err := p.Open()
	if err != nil {
		return err
	}
	defer func() {
		if cerr := d.Close(); err == nil {
			err = cerr
		}
	}()
	s, err := m.holder.look(d)
	if err != nil {
		return err
	}
	if s.state == Stale {
		rec, next, err := m.recoverStale(Request{Place: p}, d, s)
		if next == unfreed {
			m.finishFreeing(Request{Place: p}, d, rec, err)
		}
		return err
	}
	if s.empty {
		// Somebody has died in the middle of a release, or is about to go on.
		if err := m.holder.removeEmpty(d); err != nil {
			return err
		}
	}
	return m.holder.sweep(d)
}
