package nfslab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Result is what a command did.
type Result struct {
	Stdout, Stderr string
	// Code is its exit status, 128+n if signal n ended it.
	Code int
}

// agents is the client of every host's agent. A connection each request: one
// that was kept could be of the host before its last power-off.
var agents = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (h *Host) url(path string, query url.Values) string {
	return fmt.Sprintf("http://127.0.0.1:%d%s?%s", h.port, path, query.Encode())
}

// do sends a request to the host's agent and returns the response's body;
// status 200 or an error.
func (h *Host) do(ctx context.Context, method, url string, body io.Reader) (io.ReadCloser, error) {
	resp, err := h.request(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// request is do with the whole response.
func (h *Host) request(ctx context.Context, method, url string, body io.Reader) (*http.Response, error) {
	if !h.On() {
		return nil, fmt.Errorf("nfslab: %s is off", h.Name)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	gone := h.gone
	go func() { // a request must not outlive the host
		select {
		case <-gone:
			cancel(fmt.Errorf("nfslab: %s lost its power", h.Name))
		case <-ctx.Done():
		}
	}()
	fail := func(err error) (*http.Response, error) {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, fmt.Errorf("nfslab: %s: %s: %w", h.Name, method, err)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return fail(err)
	}
	resp, err := agents.Do(req)
	if err != nil {
		return fail(err)
	}
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
		resp.Body.Close()
		if err == nil {
			err = fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(text))
		}
		return fail(err)
	}
	resp.Body = answer{resp.Body, func() { cancel(nil) }}
	return resp, nil
}

// answer is a response's body; closing it ends what watches the request.
type answer struct {
	io.ReadCloser
	done func()
}

func (a answer) Close() error {
	defer a.done()
	return a.ReadCloser.Close()
}

// await waits until the host's agent tells a state that is wanted. A state that
// says "failed" and the end of the host are errors.
func (h *Host) await(ctx context.Context, wanted func(state string) bool) error {
	state, last := "", error(nil)
	for {
		state, last = h.state(ctx)
		if last == nil && wanted(state) {
			return nil
		}
		if strings.HasPrefix(state, "failed") {
			return fmt.Errorf("nfslab: %s: %s\n%s", h.Name, state, h.Log())
		}
		select {
		case <-h.gone:
			return fmt.Errorf("nfslab: %s ended while it booted\n%s", h.Name, h.Log())
		case <-ctx.Done():
			return fmt.Errorf("nfslab: %s is not up (%q, %v): %w\n%s", h.Name, state, last, context.Cause(ctx), h.Log())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// state asks the agent once.
func (h *Host) state(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := h.do(ctx, "GET", h.url("/state", nil), nil)
	if err != nil {
		return "", err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	name, state, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if name != h.Name {
		return "", fmt.Errorf("nfslab: port %d answers for %q", h.port, name)
	}
	return state, nil
}

// Run runs a command in the host, as root, in a session of its own, with no
// input, and returns when it and whoever holds its output has ended. A status
// other than 0 is no error. When ctx ends the command's process group is
// killed, as far as it can be, and the error is ctx's.
func (h *Host) Run(ctx context.Context, argv ...string) (Result, error) {
	q, err := json.Marshal(argv)
	if err != nil {
		return Result{}, err
	}
	body, err := h.do(ctx, "POST", h.url("/run", nil), bytes.NewReader(q))
	if err != nil {
		return Result{}, fmt.Errorf("%w (running %q)", err, argv)
	}
	defer body.Close()
	var r struct {
		Result
		Err string
	}
	if err := json.NewDecoder(body).Decode(&r); err != nil {
		return Result{}, fmt.Errorf("nfslab: %s: running %q: %w", h.Name, argv, err)
	}
	if r.Err != "" {
		return Result{}, fmt.Errorf("nfslab: %s: running %q: %s", h.Name, argv, r.Err)
	}
	return r.Result, nil
}

// Call makes system calls in the host as the agent's call does, which no shell
// can, and returns what it says of each.
func (h *Host) Call(ctx context.Context, args ...string) ([]string, error) {
	q, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	body, err := h.do(ctx, "POST", h.url("/call", nil), bytes.NewReader(q))
	if err != nil {
		return nil, fmt.Errorf("%w (calling %q)", err, args)
	}
	defer body.Close()
	var answers []string
	if err := json.NewDecoder(body).Decode(&answers); err != nil {
		return nil, fmt.Errorf("nfslab: %s: calling %q: %w", h.Name, args, err)
	}
	return answers, nil
}

// Sh is Run of a shell's script; a status other than 0 is an error here, which
// tells what the script said. It returns the script's standard output.
func (h *Host) Sh(ctx context.Context, script string) (string, error) {
	r, err := h.Run(ctx, "sh", "-c", script)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("nfslab: %s: status %d of %q: %s%s", h.Name, r.Code, script, r.Stdout, r.Stderr)
	}
	return r.Stdout, err
}

// Put copies a file of this machine into the host, whole or not at all.
func (h *Host) Put(ctx context.Context, local, remote string, mode fs.FileMode) error {
	f, err := os.Open(local)
	if err != nil {
		return err
	}
	defer f.Close()
	body, err := h.do(ctx, "PUT", h.url("/file", url.Values{"path": {remote}, "mode": {strconv.FormatUint(uint64(mode.Perm()), 8)}}), f)
	if err != nil {
		return err
	}
	return body.Close()
}

// Get returns a file of the host.
func (h *Host) Get(ctx context.Context, remote string) ([]byte, error) {
	body, err := h.do(ctx, "GET", h.url("/file", url.Values{"path": {remote}}), nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// Mount mounts the export of a server or re-exporter on a directory, made if
// need be, by a version and with options as those of Config. A plain umount
// undoes it.
func (h *Host) Mount(ctx context.Context, from *Host, version, options, dir string) error {
	path := "/"
	if version == "3" {
		path = "/export"
	}
	r, err := h.Run(ctx, "sh", "-c", `. /lib/lab.sh; mkdir -p "$5" && agent mount nfs "$2:$4" "$5" "$(options $1 $2 $3)"`,
		"sh", version, from.IP, options, path, dir)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("nfslab: %s: mount %s of %s: %s", h.Name, version, from.Name, r.Stderr)
	}
	return err
}
