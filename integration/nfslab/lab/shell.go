package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/integration/nfslab"
)

// leave is Ctrl-], the key that ends a shell.
const leave = 0x1d

// shell joins the terminal and the host's console until the key is typed or the
// console ends. The shell in the host goes on.
func shell(h *nfslab.Host) (err error) {
	console, err := net.Dial("unix", h.Console())
	if err != nil {
		return err
	}
	defer console.Close()
	back, err := raw(0)
	if err != nil {
		return fmt.Errorf("a shell wants a terminal: %w", err)
	}
	defer func() { err = errors.Join(err, back()) }()
	fmt.Print("Ctrl-] leaves\r\n")
	go io.Copy(os.Stdout, console) // ends with the connection
	if _, err := console.Write([]byte("\r")); err != nil {
		return err
	}
	var b [256]byte
	for {
		n, err := os.Stdin.Read(b[:])
		for i, c := range b[:n] {
			if c == leave {
				n, err = i, io.EOF
				break
			}
		}
		if _, werr := console.Write(b[:n]); werr != nil {
			return werr
		}
		if errors.Is(err, io.EOF) {
			fmt.Print("\r\n")
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// raw has the terminal hand over every key as it is, and returns what undoes it
// (termios(3), cfmakeraw).
func raw(fd int) (back func() error, err error) {
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	t := *old
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &t); err != nil {
		return nil, err
	}
	return func() error { return unix.IoctlSetTermios(fd, unix.TCSETS, old) }, nil
}
