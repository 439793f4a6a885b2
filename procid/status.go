package procid

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// status is the text of proc_pid_status(5).
type status []byte

var errStatus = errors.New("not of the form of proc_pid_status(5)")

// field returns the value behind "key:". The last line of that name counts:
// only the first, Name, is the program's to choose, and should a kernel not
// escape its newlines, what they feign stands before the true lines.
func (s status) field(key string) (string, bool) {
	v, found := "", false
	for line := range bytes.Lines(s) {
		if k, val, ok := bytes.Cut(line, []byte(":")); ok && string(k) == key {
			v, found = strings.TrimSpace(string(val)), true
		}
	}
	return v, found
}

// number returns a field that is a decimal number.
func (s status) number(key string) (int, error) {
	v, _ := s.field(key)
	n, err := strconv.Atoi(v)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", errStatus, key, err)
	}
	return n, nil
}

// numbers returns a field that is a list of ids.
func (s status) numbers(key string) ([]uint32, error) {
	v, ok := s.field(key)
	if !ok {
		return nil, fmt.Errorf("%w: no %s", errStatus, key)
	}
	var out []uint32
	for _, f := range strings.Fields(v) {
		n, err := strconv.ParseUint(f, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errStatus, key, err)
		}
		out = append(out, uint32(n))
	}
	return out, nil
}

// unescape undoes what the kernel does to the Name line
// (proc_task_name in fs/proc/array.c).
var unescape = strings.NewReplacer(`\\`, `\`, `\n`, "\n")

// name returns the thread's comm.
func (s status) name() (string, error) {
	// Trimmed by hand: a comm may begin and end in spaces.
	line, _, _ := bytes.Cut(s, []byte("\n"))
	v, ok := bytes.CutPrefix(line, []byte("Name:\t"))
	if !ok {
		return "", fmt.Errorf("%w: no Name", errStatus)
	}
	return unescape.Replace(string(v)), nil
}
