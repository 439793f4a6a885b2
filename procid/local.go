package procid

// Local is this process, on this machine, in this boot: who it is, and the
// judge of others.
type Local struct{}

// Self reads the identity of the calling process. Its error says what an
// administrator must do (a missing or useless machine-id).
func Self() (*Local, error) { return nil, nil }

// ID returns the identity of the process.
func (l *Local) ID() ID { return ID{} }

// Judge says whether the process id is alive, seen from here.
func (l *Local) Judge(id ID) Judgement { return Judgement{} }
