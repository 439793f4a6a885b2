package main

import (
	"fmt"
	"io"
	"log/syslog"
	"net"
	"strings"
	"sync"
	"testing"
)

// stuck is a writer that takes nothing until it is let go.
type stuck struct {
	mu   sync.Mutex
	text strings.Builder
	go_  chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.go_
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

// Who logs goes on though the log takes nothing; what is lost is told.
func TestQueue(t *testing.T) {
	s := &stuck{go_: make(chan struct{})}
	q := newQueue(s)
	const n = queueLength + 100
	for i := range n {
		fmt.Fprintf(q, "line %d\n", i)
	}
	lost := q.lost.Load()
	if lost < n-queueLength-1 || lost > n-queueLength {
		t.Errorf("%d lines are lost", lost)
	}
	close(s.go_)
	q.flush()
	io.WriteString(q, "last\n")
	q.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	told, text := fmt.Sprintf("%d lines of the log are lost", lost), s.text.String()
	if !strings.Contains(text, told) || !strings.Contains(text, "line 1\nline 2\n") || !strings.HasSuffix(text, "\nlast\n") {
		t.Errorf("it should tell that %s, and end with the last line: %.100q...", told, text)
	}
}

// Each line arrives at syslog by itself, with its level.
func TestToSyslog(t *testing.T) {
	dir := t.TempDir()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: dir + "/log", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	w, err := syslog.Dial("unixgram", dir+"/log", syslog.LOG_DAEMON|syslog.LOG_INFO, "lockfs")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := (toSyslog{w}).Write([]byte("<4>a warning\n<6>an event\nno level\n")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1000)
	for _, want := range [][2]string{{"<28>", "a warning"}, {"<30>", "an event"}, {"<30>", "no level"}} { // daemon is 3<<3
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(buf[:n]); !strings.HasPrefix(got, want[0]) || !strings.Contains(got, want[1]) {
			t.Errorf("syslog got %q, want %q", got, want)
		}
	}
}
