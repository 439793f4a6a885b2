package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// result is the lab's Result, or why there is none.
type result struct {
	Stdout, Stderr string
	Code           int
	Err            string
}

// run runs a command until it ends or the lab's request does.
func run(w http.ResponseWriter, r *http.Request) {
	var argv []string
	if err := json.NewDecoder(r.Body).Decode(&argv); err != nil || len(argv) == 0 {
		http.Error(w, "no command", http.StatusBadRequest)
		return
	}
	// An answer that nobody waits for may fail.
	json.NewEncoder(w).Encode(runCommand(r.Context(), argv))
}

func runCommand(ctx context.Context, argv []string) result {
	cmd := command(ctx, argv)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	res := result{Stdout: stdout.String(), Stderr: stderr.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		res.Code = exitCode(exit.ProcessState)
	case err != nil:
		res.Err = err.Error()
	}
	return res
}

// command returns a command that is killed, with its process group, when ctx
// ends.
func command(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// A session of its own: to lockfs a session is a job.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = []string{"PATH=" + path, "HOME=/root"}
	cmd.Dir = "/"
	return cmd
}

// exitCode is a shell's: 128+n for a signal.
func exitCode(p *os.ProcessState) int {
	if s := p.Sys().(syscall.WaitStatus); s.Signaled() {
		return 128 + int(s.Signal())
	}
	return p.ExitCode()
}

// start runs a command whose input is the request's body and whose output is
// the response's, both as they come; its other output goes to the console. The
// header Pid says which process it is, the trailer Code how it ended.
func start(w http.ResponseWriter, r *http.Request) {
	var argv []string
	if err := json.Unmarshal([]byte(r.URL.Query().Get("argv")), &argv); err != nil || len(argv) == 0 {
		http.Error(w, "no command", http.StatusBadRequest)
		return
	}
	c := http.NewResponseController(w)
	if err := c.EnableFullDuplex(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	cmd := command(ctx, argv)
	cmd.Stdout = flushed{w, c}
	console, err := os.OpenFile("/dev/console", os.O_WRONLY, 0)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer console.Close()
	cmd.Stderr = console
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Pid", strconv.Itoa(cmd.Process.Pid))
	w.Header().Set("Trailer", "Code")
	w.WriteHeader(http.StatusOK)
	c.Flush()
	go func() { // until the command, or who sends, ends
		if _, err := io.Copy(stdin, r.Body); err != nil && ctx.Err() == nil && !errors.Is(err, syscall.EPIPE) {
			cancel() // the lab is gone
		}
		stdin.Close()
	}()
	cmd.Wait() // how it ended is told
	w.Header().Set("Code", strconv.Itoa(exitCode(cmd.ProcessState)))
}

// flushed sends what is written at once.
type flushed struct {
	io.Writer
	c *http.ResponseController
}

func (f flushed) Write(b []byte) (int, error) {
	n, err := f.Writer.Write(b)
	if err == nil {
		err = f.c.Flush()
	}
	return n, err
}

// path is where commands are looked for: on the disk of tools first, if there
// is one.
const path = "/usr/bin:/bin:/sbin"

// init gives the agent, which a shell's PATH did not reach, one to look up
// commands with.
func init() { os.Setenv("PATH", path) }
