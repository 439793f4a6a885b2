package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A daemon's end is seen through a socket that it listens on and never accepts
// from: a connection to it is closed by the kernel when the daemon has ended,
// however it ended. Its name is the mount's device number, which no other mount
// of this kernel has, in the abstract name space (unix(7)), where nothing can
// be left behind.

// endSocket returns the name of the socket of the mount with the device number
// dev ("major:minor").
func endSocket(dev string) string { return "@lockfs/mount/" + dev }

// announce listens for those who want to know the end of the daemon of the
// mount at point, which is this process.
func announce(point string) (io.Closer, error) {
	m, err := topMount(point)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, fmt.Errorf("%s is not mounted", point)
	}
	// The kernel gives the number of a mount that is gone to the next one, while
	// the daemon of the former may still be about to end.
	return listenAlone(endSocket(m.dev), announceBound)
}

// announceBound is how long a daemon waits for one that had its number before.
const announceBound = 5 * time.Second

// listenAlone listens on name once nobody else does, for which it waits up to
// bound; the error is then EADDRINUSE.
func listenAlone(name string, bound time.Duration) (io.Closer, error) {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		l, err := net.Listen("unix", name)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Since(began) > bound {
			return l, err
		}
	}
}

// turnBound is how long a mount waits for another one at the same place. It
// takes a moment, unless the file server does not answer.
const turnBound = 30 * time.Second

// turn waits until no other lockfs is about to mount at target, and keeps
// others from it until it is closed: two that find at once that nothing is
// mounted there would both mount.
func turn(target string) (io.Closer, error) {
	ns, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("@lockfs/mounting/%x", sha256.Sum256([]byte(ns+target)))
	l, err := listenAlone(name, turnBound)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, withCode(exitHeld, fmt.Errorf("another lockfs has been about to mount at %s for %v", target, turnBound))
	}
	return l, err
}

// findDaemon returns a connection to the daemon of the mount with the device
// number dev, or nil if it has ended already.
func findDaemon(ctx context.Context, dev string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", endSocket(dev))
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := trusted(conn.(*net.UnixConn)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// trusted returns an error unless root or this user listens at the other end:
// anybody may bind an abstract name.
func trusted(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if cerr != nil {
		return cerr
	}
	if cred.Uid != 0 && int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("user %d listens in the daemon's place", cred.Uid)
	}
	return nil
}

// awaitEnd returns when the daemon has ended, or with ctx's error.
func awaitEnd(ctx context.Context, daemon net.Conn) error {
	stop := context.AfterFunc(ctx, func() { daemon.Close() })
	defer stop()
	_, err := io.Copy(io.Discard, daemon)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, syscall.ECONNRESET) {
		return nil // it ended without having accepted us
	}
	return err
}
