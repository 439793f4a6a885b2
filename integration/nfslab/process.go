package nfslab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Process is a command that runs in a host. Reading reads its standard output,
// writing writes its standard input; its standard error goes to the host's
// console (Host.Log). It ends with Close, at the latest.
type Process struct {
	// PID is its number in the host.
	PID int

	h     *Host
	argv  []string
	stdin *io.PipeWriter
	resp  *http.Response
}

// Start starts a command as Run does, and returns at once. When ctx ends the
// command's process group is killed.
func (h *Host) Start(ctx context.Context, argv ...string) (*Process, error) {
	q, err := json.Marshal(argv)
	if err != nil {
		return nil, err
	}
	in, stdin := io.Pipe()
	resp, err := h.request(ctx, "POST", h.url("/start", url.Values{"argv": {string(q)}}), in)
	if err != nil {
		return nil, errors.Join(err, stdin.Close())
	}
	p := &Process{h: h, argv: argv, stdin: stdin, resp: resp}
	if p.PID, err = strconv.Atoi(resp.Header.Get("Pid")); err != nil {
		return nil, errors.Join(fmt.Errorf("nfslab: %s: starting %q: %w", h.Name, argv, err), p.Close())
	}
	return p, nil
}

func (p *Process) Read(b []byte) (int, error)  { return p.resp.Body.Read(b) }
func (p *Process) Write(b []byte) (int, error) { return p.stdin.Write(b) }

// CloseInput ends the command's input.
func (p *Process) CloseInput() error { return p.stdin.Close() }

// Wait ends the command's input, throws away what is left of its output, and
// returns its exit status as Result has it.
func (p *Process) Wait() (code int, err error) {
	p.stdin.Close()
	defer p.resp.Body.Close()
	if _, err = io.Copy(io.Discard, p.resp.Body); err == nil {
		code, err = strconv.Atoi(p.resp.Trailer.Get("Code"))
	}
	if err != nil {
		err = fmt.Errorf("nfslab: %s: %q: %w", p.h.Name, p.argv, err)
	}
	return code, err
}

// Close kills the command's process group if it still runs.
func (p *Process) Close() error {
	p.stdin.CloseWithError(io.ErrUnexpectedEOF)
	return p.resp.Body.Close()
}
