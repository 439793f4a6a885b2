package procid

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// stat is what is used of proc_pid_stat(5).
type stat struct {
	comm    string // field 2, without its parentheses
	state   byte   // field 3
	session int    // field 6; 0 if its leader is of an outer pid namespace
	threads int    // field 20
	start   uint64 // field 22: clock ticks since the boot
}

// ended reports whether the thread has ended and is only not yet reaped.
func (s stat) ended() bool { return s.state == 'Z' || s.state == 'X' }

var errStat = errors.New("not of the form of proc_pid_stat(5)")

// parseStat reads the stat file of the process or thread pid. The program
// chooses comm freely, spaces, newlines and parentheses included, so
// everything behind it is counted from the last parenthesis.
func parseStat(b []byte, pid int) (stat, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return stat{}, errStat
	}
	if got, err := strconv.Atoi(string(bytes.TrimSpace(b[:open]))); err != nil || got != pid {
		return stat{}, fmt.Errorf("%w: it is of %q, not of %d", errStat, b[:open], pid)
	}
	f := bytes.Fields(b[end+1:]) // f[0] is field 3
	if len(f) < 20 || len(f[0]) != 1 {
		return stat{}, errStat
	}
	s := stat{comm: string(b[open+1 : end]), state: f[0][0]}
	var err [3]error
	s.session, err[0] = strconv.Atoi(string(f[3]))
	s.threads, err[1] = strconv.Atoi(string(f[17]))
	s.start, err[2] = strconv.ParseUint(string(f[19]), 10, 64)
	if e := errors.Join(err[:]...); e != nil {
		return stat{}, fmt.Errorf("%w: %w", errStat, e)
	}
	return s, nil
}
