package procid

// View is one look at a thread. All that it tells is of that moment, and costs
// no second look at the same thing.
type View struct {
	proc procfs
	tid  int
	// text is the thread's status, or err is why there is none: an ErrUnseen.
	text status
	err  error
}

// Look looks at the thread tid of this host. One that can't be seen makes a
// View too, which says so when it is asked.
func Look(tid int) View {
	p, err := ourProc()
	if err != nil {
		return View{tid: tid, err: unseen(tid, err)}
	}
	return p.look(tid)
}

func (p procfs) look(tid int) View {
	text, err := p.thread(tid)
	return View{proc: p, tid: tid, text: text, err: err}
}

// Program returns the name (comm) and the process id of the thread, or
// ErrUnseen.
func (v View) Program() (name string, pid int, err error) {
	if v.err != nil {
		return "", 0, v.err
	}
	return v.text.program()
}

// Alone reports whether the thread is the only one of its process. One that
// can't be seen is not known to be.
func (v View) Alone() bool {
	if v.err != nil {
		return false
	}
	n, err := v.text.number("Threads")
	return err == nil && n == 1
}

// Groups returns the supplementary groups of the thread, as the user namespace
// of this process numbers them, or ErrUnseen.
func (v View) Groups() ([]uint32, error) {
	if v.err != nil {
		return nil, v.err
	}
	return v.text.numbers("Groups")
}

// Job returns the job of the thread, as JobOf does.
func (v View) Job(p JobPolicy, uid uint32) (Job, error) {
	if j, ok := unlookedJob(p, uid); ok {
		return j, nil
	}
	j, err := v.job(p)
	if err != nil {
		return Job{name: "unseen caller", birth: unseenCallers.Add(1)}, err
	}
	return j, nil
}
