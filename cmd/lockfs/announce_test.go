package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// announceEnv makes the test binary a daemon that announces itself under the
// name and waits for the end of its input.
const announceEnv = "LOCKFS_TEST_ANNOUNCE"

func TestMain(m *testing.M) {
	if dev := os.Getenv(announceEnv); dev != "" {
		if _, err := net.Listen("unix", endSocket(dev)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("up")
		bufio.NewReader(os.Stdin).ReadString('\n')
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The end of a daemon is seen however it ends, and not before.
func TestAwaitEnd(t *testing.T) {
	for name, end := range map[string]func(cmd *exec.Cmd, in interface{ Close() error }) error{
		"by itself": func(_ *exec.Cmd, in interface{ Close() error }) error { return in.Close() },
		"killed":    func(cmd *exec.Cmd, _ interface{ Close() error }) error { return cmd.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			dev := fmt.Sprintf("test:%d:%s", os.Getpid(), strings.Fields(name)[0])
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), announceEnv+"="+dev)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Kill()
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
				t.Fatalf("the daemon says %q, %v", line, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			daemon, err := findDaemon(ctx, dev)
			if err != nil || daemon == nil {
				t.Fatalf("findDaemon: %v, %v", daemon, err)
			}
			defer daemon.Close()
			impatient, stop := context.WithCancel(ctx)
			stop()
			again, err := findDaemon(ctx, dev)
			if err != nil || again == nil {
				t.Fatalf("findDaemon: %v, %v", again, err)
			}
			if err := awaitEnd(impatient, again); !errors.Is(err, context.Canceled) {
				t.Errorf("an interrupted wait for a daemon that lives: %v", err)
			}
			if err := end(cmd, in); err != nil {
				t.Fatal(err)
			}
			if err := awaitEnd(ctx, daemon); err != nil {
				t.Errorf("awaitEnd: %v", err)
			}
			if d, err := findDaemon(ctx, dev); d != nil || err != nil {
				t.Errorf("findDaemon after the end: %v, %v", d, err)
			}
		})
	}
}
