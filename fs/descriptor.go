package fs

import (
	"sync"

	"golang.org/x/sys/unix"
)

// descriptor is a file descriptor with several users: once its owner has closed
// it there are no new ones, and the last ends it, so that its number is never
// another file's while somebody uses it.
type descriptor struct {
	fd int
	// closed is told, once, what close(2) has answered; nil for nobody.
	closed func(error)

	mu     sync.Mutex
	uses   int
	ending bool
}

func newDescriptor(fd int) *descriptor { return &descriptor{fd: fd} }

// acquire adds a user; false if the descriptor is closed.
func (d *descriptor) acquire() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending {
		return false
	}
	d.uses++
	return true
}

// release ends a use.
func (d *descriptor) release() {
	d.mu.Lock()
	d.uses--
	last := d.ending && d.uses == 0
	d.mu.Unlock()
	if last {
		d.end()
	}
}

// close is called by the owner. A second call does nothing.
func (d *descriptor) close() {
	d.mu.Lock()
	last := !d.ending && d.uses == 0
	d.ending = true
	d.mu.Unlock()
	if last {
		d.end()
	}
}

func (d *descriptor) end() {
	err := unix.Close(d.fd)
	if d.closed != nil {
		d.closed(err)
	}
}

// use calls f while the descriptor is sure to be open, else returns ENOTCONN:
// it is closed before its last user only when the mount ends.
func (d *descriptor) use(f func(fd int) error) error {
	if !d.acquire() {
		return unix.ENOTCONN
	}
	defer d.release()
	return f(d.fd)
}
