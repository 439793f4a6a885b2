package nfslab_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lockfs/lockfs/integration/nfslab"
	"github.com/lockfs/lockfs/lock"
)

// daemonLog is where the daemons of a client write what they have to tell. It
// is in memory: new after each power-off.
const daemonLog = "/run/lockfs.log"

// overlay is lockfs mounted on a client.
type overlay struct {
	*client
	from, to string
	options  string // for -o
	daemon   *nfslab.Process
	owner    *testing.T // ends the daemon, at the latest
}

// overlay puts lockfs into the host and mounts the tree from at to.
func (c *client) overlay(from, to string) *overlay {
	c.w.t.Helper()
	o := &overlay{client: c, from: from, to: to, options: "rw", owner: c.w.t}
	o.mount()
	return o
}

// mount starts a daemon, and returns when it serves.
func (o *overlay) mount() {
	o.w.t.Helper()
	o.put("cmd/lockfs")
	var err error
	o.daemon, err = o.Start(o.w.ctx, "sh", "-c", `mkdir -p "$2" 2>/dev/null; exec lockfs mount --foreground -o "$3" "$1" "$2" 2>>`+daemonLog, "sh", o.from, o.to, o.options)
	if err != nil {
		o.w.t.Fatal(err)
	}
	daemon := o.daemon
	o.owner.Cleanup(func() { daemon.Close() })
	// Not by /proc/mounts, where the mount of a dead daemon stands too.
	until(o.w.t, "lockfs is mounted on "+o.Name, func() bool {
		return sh(o.w.t, o.Host, "grep -c 'msg=mounted .*pid="+itoa(daemon.PID)+" ' "+daemonLog+" || true") == "1"
	})
}

// die kills the daemon, as kill -9 does, and waits for its end.
func (o *overlay) die() {
	o.w.t.Helper()
	sh(o.w.t, o.Host, "kill -9 "+itoa(o.daemon.PID))
	if code, err := o.daemon.Wait(); err != nil || code != 128+9 {
		o.w.t.Fatalf("%s: the killed daemon: status %d, %v", o.Name, code, err)
	}
}

// unmount ends the daemon as an administrator does, and expects it to succeed.
func (o *overlay) unmount() {
	o.w.t.Helper()
	sh(o.w.t, o.Host, "kill -TERM "+itoa(o.daemon.PID))
	if code, err := o.daemon.Wait(); err != nil || code != 0 {
		o.w.t.Errorf("%s: lockfs mount: status %d, %v: %s", o.Name, code, err, o.log())
	}
}

// log is all that the daemons of the host have told since its last boot.
func (o *overlay) log() string {
	o.w.t.Helper()
	return sh(o.w.t, o.Host, "cat "+daemonLog)
}

// told waits until a daemon of the host has told this.
func (o *overlay) told(text string) {
	o.w.t.Helper()
	until(o.w.t, o.Name+" tells: "+text, func() bool { return strings.Contains(o.log(), text) })
}

// status is that of the directory d of the mount.
func (o *overlay) status(d string) (s lock.Status) {
	o.w.t.Helper()
	text := sh(o.w.t, o.Host, "lockfs status --json "+o.to+"/"+d)
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		o.w.t.Fatalf("%s: status of %s: %v: %s", o.Name, d, err, text)
	}
	return s
}

// run runs a script in the directory d of the mount.
func (o *overlay) run(d, script string) nfslab.Result {
	o.w.t.Helper()
	return o.background(d, script)()
}

// background is run of what goes on meanwhile; the function that it returns
// waits for the end.
func (o *overlay) background(d, script string) (result func() nfslab.Result) {
	ended := make(chan struct{})
	var r nfslab.Result
	var err error
	go func() {
		defer close(ended)
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		r, err = o.Run(ctx, "sh", "-c", "cd "+o.to+"/"+d+" || exit\n"+script)
	}()
	return func() nfslab.Result {
		o.w.t.Helper()
		<-ended
		if err != nil {
			o.w.t.Fatal(err)
		}
		return r
	}
}

// must is run of what must succeed; it returns what was printed.
func (o *overlay) must(d, script string) string {
	o.w.t.Helper()
	r := o.run(d, script)
	if r.Code != 0 {
		o.w.t.Fatalf("%s: status %d of %q in %s: %s%s", o.Name, r.Code, script, d, r.Stdout, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout)
}

// writing is a shell, in a session of its own, that has a file open for
// writing, or waits for that.
type writing struct {
	o     *overlay
	p     *nfslab.Process
	lines chan string // closed at its end
}

// opening starts a shell that opens the file for appending.
func (o *overlay) opening(d, file string) *writing {
	o.w.t.Helper()
	p, err := o.Start(o.w.ctx, "sh", "-c", `cd "$1" && exec 3>>"$2" && echo open || exit
while read -r line; do
	if echo "$line" >&3; then echo written; else echo failed; fi
done 2>&1
exec 3>&-`, "sh", o.to+"/"+d, file)
	if err != nil {
		o.w.t.Fatal(err)
	}
	w := &writing{o: o, p: p, lines: make(chan string, 16)}
	go func() {
		defer close(w.lines)
		s := bufio.NewScanner(p)
		for s.Scan() {
			w.lines <- s.Text()
		}
	}()
	o.w.t.Cleanup(func() { p.Close() })
	return w
}

// holding starts a shell that has the file open for writing.
func (o *overlay) holding(d, file string) *writing {
	o.w.t.Helper()
	w := o.opening(d, file)
	w.opened()
	return w
}

// waiting starts a shell that waits for the lock of d, which another holds.
func (o *overlay) waiting(d, file string) *writing {
	o.w.t.Helper()
	w := o.opening(d, file)
	until(o.w.t, o.Name+" waits for the lock of "+d, func() bool { return len(o.status(d).Waiters) > 0 })
	return w
}

// line returns what the shell says next; "" if it has ended.
func (w *writing) line() string {
	w.o.w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	select {
	case line := <-w.lines:
		return line
	case <-ctx.Done():
		w.o.w.t.Fatalf("%s: the writer says nothing", w.o.Name)
		panic("unreachable")
	}
}

// opened waits until the file is open.
func (w *writing) opened() {
	w.o.w.t.Helper()
	if got := w.line(); got != "open" {
		w.o.w.t.Fatalf("%s: the writer says %q, not that the file is open: %s", w.o.Name, got, w.o.log())
	}
}

// waits reports whether the file is not open yet.
func (w *writing) waits() bool { return len(w.lines) == 0 }

// write writes a line to the file and reports what came of it: "" is success.
func (w *writing) write(text string) (failure string) {
	w.o.w.t.Helper()
	if _, err := fmt.Fprintln(w.p, text); err != nil {
		w.o.w.t.Fatal(err)
	}
	for {
		switch line := w.line(); line {
		case "written":
			return ""
		case "failed", "":
			return failure + line
		default: // what the shell says of the error
			failure += line
		}
	}
}

// writes is write of what must succeed.
func (w *writing) writes(text string) {
	w.o.w.t.Helper()
	if failure := w.write(text); failure != "" {
		w.o.w.t.Fatalf("%s: write: %s: %s", w.o.Name, failure, w.o.log())
	}
}

// fenced writes until that fails, as it must once the lock was taken away: with
// EIO.
func (w *writing) fenced() {
	w.o.w.t.Helper()
	failure := ""
	until(w.o.w.t, w.o.Name+" can't write any more", func() bool {
		failure = w.write("late")
		return failure != ""
	})
	// As dash and busybox say it.
	if !strings.Contains(failure, "I/O error") && !strings.Contains(failure, "Input/output error") {
		w.o.w.t.Errorf("%s: a write without the lock: %s, want EIO", w.o.Name, failure)
	}
}

// close closes the file and waits for the shell's end.
func (w *writing) close() {
	w.o.w.t.Helper()
	if code, err := w.p.Wait(); err != nil || code != 0 {
		w.o.w.t.Errorf("%s: the writer: status %d, %v", w.o.Name, code, err)
	}
}
