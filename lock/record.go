package lock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockfs/lockfs/procid"
)

// The names of format v1. All that begin with Reserved are lockfs's.
const (
	// Reserved is what every name of lockfs begins with.
	Reserved = ".lockfs"

	lockName        = Reserved
	candidatePrefix = Reserved + "."
	besidePrefix    = candidatePrefix + "r."

	format      = "v1"
	maxHostName = 63
)

var (
	errMalformed   = errors.New("the name is no record")
	errNewerFormat = errors.New("the record is of a format that this lockfs does not know")
)

// record says who holds a lock. Its name is the whole truth: two records are
// equal if and only if their names are.
type record struct {
	holder procid.ID
	nonce  uint64
}

// name is the record as a file name: at most 240 bytes, so that it fits into
// NAME_MAX with either prefix before it.
func (r record) name() string {
	id := r.holder
	return fmt.Sprintf("%s,%s,%s,%s,%d,%d,%d,%d,%s,%016x", format, hostForName(id.Host), id.Machine, id.Boot,
		id.PID, id.Start, id.PIDNS, id.TimeNS, id.Fingerprint, r.nonce)
}

// id tells the record from every other one, and is shorter than its name: the
// host, the process and the nonce.
func (r record) id() string {
	return fmt.Sprintf("%s,%d,%016x", hostForName(r.holder.Host), r.holder.PID, r.nonce)
}

func (r record) candidate() string { return candidatePrefix + r.name() }

func (r record) inLock() string { return lockName + "/" + r.name() }

// hostForName keeps of a host name what every file system and terminal shows
// as it is. It is for people only.
func hostForName(host string) string {
	host = strings.Map(func(c rune) rune {
		if isHostByte(byte(c)) && c < 0x80 {
			return c
		}
		return '_'
	}, host)
	if host == "" {
		return "_"
	}
	return host[:min(len(host), maxHostName)]
}

func isHostByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '-' || c == '_'
}

// looksLikeRecord reports whether the name is of this or another format.
func looksLikeRecord(name string) bool {
	version, _, ok := strings.Cut(name, ",")
	return ok && len(version) > 1 && version[0] == 'v' && strings.Trim(version[1:], "0123456789") == ""
}

// parseRecord reads a name strictly: what name() would not write is
// errMalformed or errNewerFormat.
func parseRecord(name string) (record, error) {
	if looksLikeRecord(name) && !strings.HasPrefix(name, format+",") {
		return record{}, errNewerFormat
	}
	f := strings.Split(name, ",")
	if len(f) != 10 || f[0] != format {
		return record{}, errMalformed
	}
	host := f[1]
	if host == "" || len(host) > maxHostName {
		return record{}, errMalformed
	}
	for i := range len(host) {
		if !isHostByte(host[i]) {
			return record{}, errMalformed
		}
	}
	p := recordParser{ok: true}
	r := record{
		holder: procid.ID{
			Host: host, Machine: p.hex(f[2], 32), Boot: p.hex(f[3], 32),
			PID: int(p.number(f[4], 31)), Start: p.number(f[5], 64),
			PIDNS: p.number(f[6], 64), TimeNS: p.number(f[7], 64), Fingerprint: p.hex(f[8], 16),
		},
	}
	nonce, err := strconv.ParseUint(p.hex(f[9], 16), 16, 64)
	if !p.ok || err != nil || r.holder.PID == 0 {
		return record{}, errMalformed
	}
	r.nonce = nonce
	return r, nil
}

// recordParser reads the fields of a record; ok says whether all were well.
type recordParser struct{ ok bool }

func (p *recordParser) hex(s string, length int) string {
	if len(s) != length || strings.Trim(s, "0123456789abcdef") != "" {
		p.ok = false
	}
	return s
}

func (p *recordParser) number(s string, bits int) uint64 {
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil || strconv.FormatUint(n, 10) != s {
		p.ok = false
	}
	return n
}

// parseCandidate returns the record that a candidate's name bears, whether it
// is the candidate itself or the record that is made beside it.
func parseCandidate(name string) (r record, beside, ok bool) {
	if rest, found := strings.CutPrefix(name, besidePrefix); found {
		r, err := parseRecord(rest)
		return r, true, err == nil
	}
	if rest, found := strings.CutPrefix(name, candidatePrefix); found {
		r, err := parseRecord(rest)
		return r, false, err == nil
	}
	return record{}, false, false
}

// isCandidate reports whether the name is one that a candidate, or what was to
// become one, may bear.
func isCandidate(name string) bool {
	return strings.HasPrefix(name, candidatePrefix) && name != CardsName
}

// String names the holder for people.
func (r record) String() string {
	return fmt.Sprintf("process %d of host %s", r.holder.PID, r.holder.Host)
}
