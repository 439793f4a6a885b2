package procid

import (
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"
)

// readFile is os.ReadFile for the files of /proc. They are read at every
// operation of a mount, and the poller, which os asks to watch each file that
// it opens, and the kernel, which refuses, cost more than the text.
func readFile(name string) ([]byte, error) {
	fd, err := retry(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	n := 0
	for {
		if n == len(*buf) {
			*buf = append(*buf, make([]byte, n)...)
		}
		more, err := retry(func() (int, error) { return unix.Read(fd, (*buf)[n:]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if more == 0 {
			return append([]byte(nil), (*buf)[:n]...), nil
		}
		n += more
	}
}

// buffers hold a text of nearly every file there.
var buffers = sync.Pool{New: func() any { b := make([]byte, 4096); return &b }}

// retry calls f until no signal interrupts it.
func retry(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != unix.EINTR {
			return n, err
		}
	}
}
