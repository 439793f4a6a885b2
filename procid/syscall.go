package procid

import (
	"errors"
	"strconv"
	"strings"
)

// Call is a system call that a thread is in.
type Call struct {
	// Number is one of unix.SYS_*, for a program of this machine's own kind.
	Number int
	Args   [6]uint64
}

// errNoCall: the thread is in no system call, or its call can't be read.
var errNoCall = errors.New("it is seen in no system call")

// CallOf returns the system call that the thread tid is in, or ErrUnseen. It
// needs the rights of a debugger of the thread (proc_pid_syscall(5)).
func CallOf(tid int) (Call, error) {
	p, err := ourProc()
	if err != nil {
		return Call{}, unseen(tid, err)
	}
	if tid <= 0 {
		return Call{}, unseen(tid, errNoTID)
	}
	text, err := readFile(p.path(tid, "syscall"))
	if err != nil {
		return Call{}, unseen(tid, err)
	}
	c, ok := parseCall(string(text))
	if !ok {
		return Call{}, unseen(tid, errNoCall)
	}
	return c, nil
}

// parseCall reads "number arg0 ... arg5 sp pc". "running" and "-1 sp pc" are
// no call.
func parseCall(text string) (Call, bool) {
	var c Call
	f := strings.Fields(text)
	if len(f) != 1+len(c.Args)+2 {
		return Call{}, false
	}
	var err error
	if c.Number, err = strconv.Atoi(f[0]); err != nil || c.Number < 0 {
		return Call{}, false
	}
	for i := range c.Args {
		if c.Args[i], err = strconv.ParseUint(f[1+i], 0, 64); err != nil {
			return Call{}, false
		}
	}
	return c, true
}
