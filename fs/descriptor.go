package fs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// descriptor is a file descriptor with several users: it is closed by the last
// of them, so that its number is never another file's while somebody uses it.
type descriptor struct {
	fd   int
	uses atomic.Int64
	// closed is told, once, what close(2) has answered; nil for nobody.
	closed func(error)
	once   sync.Once
}

// newDescriptor owns fd, for its first user, who ends by close.
func newDescriptor(fd int) *descriptor {
	d := &descriptor{fd: fd}
	d.uses.Store(1)
	return d
}

// acquire adds a user; false if the descriptor is closed.
func (d *descriptor) acquire() bool {
	for {
		n := d.uses.Load()
		if n == 0 {
			return false
		}
		if d.uses.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release ends a use.
func (d *descriptor) release() {
	if d.uses.Add(-1) > 0 {
		return
	}
	err := unix.Close(d.fd)
	if d.closed != nil {
		d.closed(err)
	}
}

// close ends the first use. A second call does nothing.
func (d *descriptor) close() { d.once.Do(d.release) }

// use calls f while the descriptor is sure to be open, else returns ENOTCONN:
// it is closed before its last user only when the mount ends.
func (d *descriptor) use(f func(fd int) error) error {
	if !d.acquire() {
		return unix.ENOTCONN
	}
	defer d.release()
	return f(d.fd)
}
