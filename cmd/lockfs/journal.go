package main

import (
	"errors"
	"fmt"
	"log/syslog"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/sirupsen/logrus"
)

// journalSocket is where systemd-journald takes streams of lines.
const journalSocket = "/run/systemd/journal/stdout"

// openJournal returns a stream to the system's journal, as systemd-cat(1) has
// it: whatever is written there, a dying program's trace too, is logged line by
// line. A line's level may stand before it ("<4>", sd-daemon(3)).
func openJournal() (*os.File, error) {
	conn, err := net.Dial("unix", journalSocket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// The identifier, no unit, the level of a line that has none, and whether
	// levels are read and lines forwarded (stdout_stream_line in journald-stream.c).
	if _, err := fmt.Fprintf(conn, "lockfs\n\n%d\n1\n0\n0\n0\n", syslog.LOG_INFO); err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn).File()
}

// isJournal reports whether f is the stream to the journal that a service
// manager has given this process (JOURNAL_STREAM of systemd.exec(5)).
func isJournal(f *os.File) bool {
	st, err := f.Stat()
	if err != nil {
		return false
	}
	sys := st.Sys().(*syscall.Stat_t)
	return os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", sys.Dev, sys.Ino)
}

// forJournal has the log written as the journal reads it: each line with its
// level before it, and without the time, which the journal knows.
func forJournal(log *logrus.Logger) {
	if f, ok := log.Formatter.(*logrus.TextFormatter); ok {
		f.DisableTimestamp = true
	}
	log.SetFormatter(levelled{log.Formatter})
}

// levelled is a format with the level of sd-daemon(3) before each line.
type levelled struct{ logrus.Formatter }

func (l levelled) Format(e *logrus.Entry) ([]byte, error) {
	text, err := l.Formatter.Format(e)
	if err != nil {
		return nil, err
	}
	prefix := fmt.Sprintf("<%d>", severity(e.Level))
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString(prefix)
		b.WriteString(line)
	}
	return []byte(b.String()), nil
}

// toSyslog writes lines with a level before them (levelled) to syslog.
type toSyslog struct{ w *syslog.Writer }

func (s toSyslog) Write(b []byte) (int, error) {
	var failed error
	for line := range strings.Lines(string(b)) {
		level, text, ok := strings.Cut(strings.TrimPrefix(line, "<"), ">")
		write := s.w.Info
		if ok {
			write = map[string]func(string) error{"2": s.w.Crit, "3": s.w.Err, "4": s.w.Warning, "7": s.w.Debug}[level]
		} else {
			text = line // the queue's own
		}
		if write == nil {
			write = s.w.Info
		}
		failed = errors.Join(failed, write(text))
	}
	return len(b), failed
}

// severity is the level as syslog(3) has it.
func severity(l logrus.Level) syslog.Priority {
	switch l {
	case logrus.PanicLevel, logrus.FatalLevel:
		return syslog.LOG_CRIT
	case logrus.ErrorLevel:
		return syslog.LOG_ERR
	case logrus.WarnLevel:
		return syslog.LOG_WARNING
	case logrus.InfoLevel:
		return syslog.LOG_INFO
	default:
		return syslog.LOG_DEBUG
	}
}
