package timeline

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Entry is one line of a daemon's log.
type Entry struct {
	// Time is what the host's clock said.
	Time time.Time
	// Host is the host's name, and PID the daemon's; 0 if the line does not say.
	Host string
	PID  int
	// Fields are what the daemon has logged, by logrus's names.
	Fields map[string]string
}

// maxLine is how long a line may be, in bytes: a path has at most 4096, and
// each field is limited too.
const maxLine = 1 << 20

// Read reads a daemon's log. Lines that are no entry of it are passed over, as
// a log can hold a panic or other programs' lines too. host is the name for
// entries that bear none.
func Read(r io.Reader, host string) ([]Entry, error) {
	var entries []Entry
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 64<<10), maxLine)
	var daemon daemon
	for sc.Scan() {
		e, ok := parseLine(sc.Text())
		if !ok {
			continue
		}
		daemon.complete(&e, host)
		entries = append(entries, e)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("after %d entries: %w", len(entries), err)
	}
	return entries, nil
}

// daemon is who has written the last lines of a log.
type daemon struct {
	host string
	pid  int
}

// complete says who has written the entry, which is told by the entry that
// its daemon begins with, by the name of a record of its own, or by the journal.
func (d *daemon) complete(e *Entry, host string) {
	if e.Fields["msg"] == mounted {
		d.host = e.Fields["host"]
		d.pid, _ = strconv.Atoi(e.Fields["pid"]) // else none is known
	}
	if h, pid, ok := ofRecord(e.Fields["record"]); ok {
		d.host, d.pid = h, pid
	}
	if e.PID == 0 {
		e.PID = d.pid
	}
	switch {
	case d.host != "" && (e.Host == "" || d.pid == e.PID):
		e.Host = d.host
	case e.Host == "":
		e.Host = host
	}
}

// mounted is the message that a daemon's log begins with, and unmounted the
// one that it ends with if the daemon was not killed.
const (
	mounted   = "mounted"
	unmounted = "unmounted"
)

// ofRecord returns the host and the process in a record's short name
// ("alpha,41,00c0ffee00c0ffee").
func ofRecord(record string) (host string, pid int, ok bool) {
	f := strings.Split(record, ",")
	if len(f) != 3 {
		return "", 0, false
	}
	pid, err := strconv.Atoi(f[1])
	return f[0], pid, err == nil
}

// parseLine reads a line in any of the forms, and reports whether it is one.
func parseLine(line string) (Entry, bool) {
	if strings.HasPrefix(line, "{") {
		return parseJSON(line)
	}
	if strings.HasPrefix(line, "time=") {
		return parseMessage(line, Entry{})
	}
	return parseShort(line)
}

// parseMessage reads what the daemon has written; e has what is known of it
// already.
func parseMessage(text string, e Entry) (Entry, bool) {
	if strings.HasPrefix(text, "{") {
		inner, ok := parseJSON(text)
		e.Fields = inner.Fields
		if e.Time.IsZero() {
			e.Time = inner.Time
		}
		return e, ok && !e.Time.IsZero()
	}
	fields, ok := parseText(text)
	if !ok {
		return Entry{}, false
	}
	e.Fields = fields
	if e.Time.IsZero() {
		var err error
		if e.Time, err = time.Parse(time.RFC3339, fields["time"]); err != nil {
			return Entry{}, false
		}
	}
	return e, fields["msg"] != ""
}

// parseJSON reads an entry in JSON: the daemon's own, or the journal's around it.
func parseJSON(line string) (Entry, bool) {
	var raw map[string]any
	if json.Unmarshal([]byte(line), &raw) != nil {
		return Entry{}, false
	}
	fields := map[string]string{}
	for k, v := range raw {
		switch v := v.(type) {
		case string:
			fields[k] = v
		case float64:
			fields[k] = strconv.FormatFloat(v, 'f', -1, 64)
		}
	}
	if message, ok := fields["MESSAGE"]; ok {
		us, err := strconv.ParseInt(fields["__REALTIME_TIMESTAMP"], 10, 64)
		if err != nil {
			return Entry{}, false
		}
		pid, _ := strconv.Atoi(fields["_PID"]) // else none is known
		return parseMessage(message, Entry{Time: time.UnixMicro(us).UTC(), Host: fields["_HOSTNAME"], PID: pid})
	}
	e := Entry{Fields: fields}
	if t, ok := fields["time"]; ok {
		var err error
		if e.Time, err = time.Parse(time.RFC3339, t); err != nil {
			return Entry{}, false
		}
	}
	return e, fields["msg"] != ""
}

// shortTime is how journalctl -o short-iso and -o short-iso-precise write it;
// a fraction of a second is read without being asked for.
var shortTime = []string{"2006-01-02T15:04:05-0700", time.RFC3339}

// parseShort reads "TIME HOST lockfs[PID]: MESSAGE".
func parseShort(line string) (Entry, bool) {
	head, message, found := strings.Cut(line, "]: ")
	words := strings.Fields(head)
	if !found || len(words) != 3 {
		return Entry{}, false
	}
	_, pid, found := strings.Cut(words[2], "[")
	if !found {
		return Entry{}, false
	}
	e := Entry{Host: words[1]}
	var err error
	if e.PID, err = strconv.Atoi(pid); err != nil {
		return Entry{}, false
	}
	for _, layout := range shortTime {
		if e.Time, err = time.Parse(layout, words[0]); err == nil {
			return parseMessage(message, e)
		}
	}
	return Entry{}, false
}

// parseText reads logrus's text: words KEY=VALUE, a value with odd bytes in it
// quoted as Go does. It reports whether the whole line is so.
func parseText(s string) (map[string]string, bool) {
	fields := map[string]string{}
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimLeft(s, " ") {
		key, rest, found := strings.Cut(s, "=")
		if !found || key == "" || strings.ContainsAny(key, " \"") {
			return nil, false
		}
		if !strings.HasPrefix(rest, `"`) {
			fields[key], s, _ = strings.Cut(rest, " ")
			continue
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil, false
		}
		if fields[key], err = strconv.Unquote(quoted); err != nil {
			return nil, false
		}
		s = rest[len(quoted):]
	}
	return fields, len(fields) > 0
}
