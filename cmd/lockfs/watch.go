package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// leastInterval is how often at most a watch asks.
const leastInterval = 100 * time.Millisecond

// What a terminal does when it is told so (xterm's ctlseqs): it shows another
// screen without a cursor, and the first one again as it was.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	toTop       = "\x1b[H"
	eraseLine   = "\x1b[K"
	eraseBelow  = "\x1b[J"
)

// watch shows what q asks for again and again until SIGINT or SIGTERM: in a
// terminal in place, elsewhere one after the other.
func watch(ctx context.Context, w io.Writer, every time.Duration, q query, show func(io.Writer, *view, style) error, raw bool) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	screen := newScreen(w)
	if raw {
		screen = nil // JSON is for programs, wherever it goes
	}
	if screen != nil {
		if err := screen.enter(); err != nil {
			return err
		}
		defer screen.leave()
	}
	for {
		answer := make(chan *view, 1)
		go func() { answer <- q.ask(ctx) }()
		select {
		case v := <-answer:
			if ctx.Err() != nil {
				return nil // what it says then is that it was ended
			}
			if err := showFrame(w, screen, v, every, show, raw); err != nil {
				return err
			}
		case <-ctx.Done(): // though a file server may not answer
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-screen.changed():
		}
	}
}

// showFrame writes an answer to the screen, or to w if there is none.
func showFrame(w io.Writer, screen *screen, v *view, every time.Duration, show func(io.Writer, *view, style) error, raw bool) error {
	var b bytes.Buffer
	s := style{now: time.Now(), color: screen != nil && os.Getenv("NO_COLOR") == ""}
	if !raw {
		fmt.Fprintf(&b, "%s, every %v\n\n", s.now.Format(time.DateTime), every)
	}
	if err := show(&b, v, s); err != nil {
		return err
	}
	failed := v.err()
	switch {
	case failed != nil && raw:
		fmt.Fprintln(os.Stderr, "lockfs:", failed)
	case failed != nil:
		fmt.Fprintf(&b, "\n%v\n", failed)
	}
	if screen != nil {
		return screen.draw(b.String())
	}
	if !raw {
		b.WriteByte('\n') // between two answers
	}
	_, err := w.Write(b.Bytes())
	return err
}

// screen is a terminal.
type screen struct {
	f *os.File
	// signals are what the terminal tells: SIGWINCH and SIGTSTP.
	signals chan os.Signal
	again   chan struct{}
	ended   chan struct{}
}

// newScreen returns the terminal that w is; nil if it is none.
func newScreen(w io.Writer) *screen {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return &screen{f: f, signals: make(chan os.Signal, 2), again: make(chan struct{}, 1), ended: make(chan struct{})}
}

// enter begins to use the terminal. Until leave it is given back while this
// process is stopped (Ctrl-Z).
func (s *screen) enter() error {
	if _, err := s.f.WriteString(enterScreen); err != nil {
		return err
	}
	signal.Notify(s.signals, syscall.SIGWINCH, syscall.SIGTSTP)
	go s.follow()
	return nil
}

// follow gives the terminal back for as long as this process is stopped, and
// has everything drawn again after that, and when the terminal's size changes.
func (s *screen) follow() {
	for {
		select {
		case <-s.ended:
			return
		case sig := <-s.signals:
			if sig == syscall.SIGTSTP {
				s.f.WriteString(leaveScreen) // an error shows at the next draw
				syscall.Kill(os.Getpid(), syscall.SIGSTOP)
				s.f.WriteString(enterScreen)
			}
		}
		select {
		case s.again <- struct{}{}:
		default:
		}
	}
}

// leave gives the terminal back as it was.
func (s *screen) leave() {
	signal.Stop(s.signals)
	close(s.ended)
	s.f.WriteString(leaveScreen)
}

// changed tells of a change after which everything must be drawn again. Without
// a screen there is none.
func (s *screen) changed() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.again
}

// draw shows text in place of what was shown, as much as there is room for.
func (s *screen) draw(text string) error {
	rows, cols := 24, 80
	if size, err := unix.IoctlGetWinsize(int(s.f.Fd()), unix.TIOCGWINSZ); err == nil && size.Row > 0 && size.Col > 0 {
		rows, cols = int(size.Row), int(size.Col)
	}
	_, err := s.f.WriteString(frame(text, rows, cols))
	return err
}

// frame is text for a terminal of that size: lines are cut, and the last one
// says how many there is no room for.
func frame(text string, rows, cols int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > rows {
		lines = append(lines[:rows-1], fmt.Sprintf("... and %d more lines", len(lines)-rows+1))
	}
	for i, l := range lines {
		lines[i] = cut(l, cols) + eraseLine
	}
	return toTop + strings.Join(lines, "\r\n") + eraseBelow
}

// cut cuts a line after cols characters. Sequences that change colors have no
// width, and are kept.
func cut(line string, cols int) string {
	var b strings.Builder
	for n := 0; line != ""; {
		if strings.HasPrefix(line, "\x1b[") {
			if end := strings.IndexByte(line, 'm'); end >= 0 {
				b.WriteString(line[:end+1])
				line = line[end+1:]
				continue
			}
		}
		_, size := utf8.DecodeRuneInString(line)
		if n < cols {
			b.WriteString(line[:size])
		}
		n++
		line = line[size:]
	}
	return b.String()
}
