package lock

import "errors"

// sweep discards the candidates that dead processes of this host left in d,
// and those that this one did when it could not finish.
func (h *holder) sweep(d Dir) error { return h.discardAll(d, h.abandoned) }

// abandoned reports whether nobody answers for a candidate of this host.
func (h *holder) abandoned(r record) bool {
	if h.mine(r) {
		return h.leftOver(r)
	}
	return h.judge(r.holder).Stale()
}

// discardAll discards every candidate in d whose record which picks.
func (h *holder) discardAll(d Dir, which func(record) bool) error {
	names, err := d.List("")
	if err != nil {
		return err
	}
	var failed error
	for _, name := range names {
		r, beside, ok := parseCandidate(name)
		if !ok || !which(r) {
			continue
		}
		if beside {
			err = d.Unlink(name)
		} else {
			err = h.discard(d, name)
		}
		if err != nil && !absent(err) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// discard removes another's candidate. It takes it away from its owner first,
// by a rename to a name of one's own: emptied in place it could be published
// by a taker who then believes that he holds.
func (h *holder) discard(d Dir, name string) error {
	r := h.newRecord()
	defer drop(r)
	grave := r.candidate()
	if err := d.Rename(name, grave); err != nil && !absent(err) {
		return err
	}
	// What its owner was still adding may come while it is emptied.
	var err error
	for range rebuilds {
		names, lerr := d.List(grave)
		if lerr != nil {
			return lerr
		}
		for _, n := range names {
			if err := d.Unlink(grave + "/" + n); err != nil && !absent(err) {
				return err
			}
		}
		if err = d.Rmdir(grave); !held(err) {
			return err
		}
	}
	return err
}
