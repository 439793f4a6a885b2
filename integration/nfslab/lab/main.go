// Command lab runs a laboratory of NFS hosts to look around in by hand: a server,
// clients that have its export mounted on /mnt, and a shell on each. lockfs, as
// the tree has it now, is in every client's /bin.
//
//	go run ./integration/nfslab/lab [-clients N] [-reexport] [-version 4.2] ...
//
// What it reads is "HOST COMMAND", a shell's; "shell HOST", which is left by
// Ctrl-]; and cut, join, pause, resume, off, on HOST; nfsd (restarts it); exit.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lockfs/lockfs/integration/nfslab"
)

func main() {
	var c nfslab.Config
	flag.IntVar(&c.Clients, "clients", 2, "how many clients")
	flag.BoolVar(&c.Reexport, "reexport", false, "put a re-exporter between server and clients")
	flag.BoolVar(&c.Cloned, "cloned", false, "give all clients one machine-id")
	flag.BoolVar(&c.Tools, "tools", false, "give all hosts real programs in /usr/bin")
	flag.StringVar(&c.Kernel, "kernel", "6.1", "the kernel's series: 6.1 or 6.12")
	flag.StringVar(&c.Version, "version", "4.2", "the NFS `version`: 4.2, 4.1, 4.0, 3")
	flag.StringVar(&c.Options, "o", "hard", "mount `options`")
	flag.StringVar(&c.Export.FS, "fs", "ext4", "what is exported: ext4, xfs or tmpfs")
	flag.BoolVar(&c.Export.RootSquash, "root-squash", false, "make root nobody")
	flag.Parse()
	if err := run(c); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run(c nfslab.Config) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	fmt.Println("starting; the first time, the guests are made")
	lab, err := nfslab.Start(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	dir, err := os.MkdirTemp("", "lab-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	lockfs := filepath.Join(dir, "lockfs")
	if err := nfslab.Build(ctx, lockfs, "github.com/lockfs/lockfs/cmd/lockfs"); err != nil {
		return err
	}
	for _, h := range lab.Hosts() {
		fmt.Printf("%-9s %-11s shell: socat -,raw,echo=0,escape=0x1d unix-connect:%s\n", h.Name, h.IP, h.Console())
		if strings.HasPrefix(h.Name, "c") {
			if err := h.Put(ctx, lockfs, "/bin/lockfs", 0o755); err != nil {
				return err
			}
		}
	}
	return serve(ctx, lab)
}

// serve does what the lines of the standard input say until they end, or ctx.
func serve(ctx context.Context, lab *nfslab.Lab) error {
	in := &input{lines: make(chan string), next: make(chan struct{})}
	go in.read()
	for {
		fmt.Print("lab> ")
		in.next <- struct{}{}
		select {
		case <-ctx.Done():
			fmt.Println()
			return nil
		case line, ok := <-in.lines:
			if !ok || line == "exit" {
				return nil
			}
			if err := do(ctx, lab, line); err != nil {
				fmt.Println(err)
			}
		}
	}
}

// input reads lines, each only when it is asked for: between them the terminal
// is a shell's.
type input struct {
	lines chan string
	next  chan struct{}
}

func (in *input) read() {
	defer close(in.lines)
	r := bufio.NewReader(os.Stdin)
	for range in.next {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		in.lines <- strings.TrimSpace(line)
	}
}

func do(ctx context.Context, lab *nfslab.Lab, line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case verb == "":
		return nil
	case verb == "nfsd":
		return lab.RestartNFSD(ctx)
	}
	if h := host(lab, verb); h != nil && rest != "" {
		r, err := h.Run(ctx, "sh", "-c", rest)
		fmt.Print(r.Stdout, r.Stderr)
		if r.Code != 0 {
			fmt.Println("status", r.Code)
		}
		return err
	}
	h := host(lab, rest)
	actions := map[string]func() error{
		"shell": func() error { return shell(h) },
		"cut":   func() error { return h.Cut() }, "join": func() error { return h.Join() },
		"pause": func() error { return h.Pause() }, "resume": func() error { return h.Resume() },
		"off": func() error { return h.PowerOff() }, "on": func() error { return h.Boot(ctx) },
	}
	f := actions[verb]
	if f == nil || h == nil {
		return fmt.Errorf("HOST COMMAND, or shell, cut, join, pause, resume, off, on HOST, nfsd, exit; hosts: %s", names(lab))
	}
	return f()
}

func host(lab *nfslab.Lab, name string) *nfslab.Host {
	for _, h := range lab.Hosts() {
		if h.Name == name {
			return h
		}
	}
	return nil
}

func names(lab *nfslab.Lab) string {
	var all []string
	for _, h := range lab.Hosts() {
		all = append(all, h.Name)
	}
	return strings.Join(all, ", ")
}
