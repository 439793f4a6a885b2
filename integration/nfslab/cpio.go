package nfslab

import (
	"bufio"
	"fmt"
	"io"
)

// cpioWriter writes an archive in the "newc" format, which the kernel unpacks
// as its first root file system (Documentation/driver-api/early-userspace/
// buffer-format.rst). All files are root's. The first error sticks; close
// returns it.
type cpioWriter struct {
	w   *bufio.Writer
	ino int
	n   int64
	err error
}

func newCPIO(w io.Writer) *cpioWriter { return &cpioWriter{w: bufio.NewWriterSize(w, 1<<20)} }

const (
	cpioDir     = 0o040000
	cpioRegular = 0o100000
	cpioSymlink = 0o120000
	cpioChar    = 0o020000
)

// add writes one entry. mode is st_mode; major and minor are those of a device.
func (c *cpioWriter) add(name string, mode uint32, major, minor int, data []byte) {
	c.ino++
	nlink := 1
	if mode&0o170000 == cpioDir {
		nlink = 2
	}
	c.write(fmt.Appendf(nil, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		c.ino, mode, 0, 0, nlink, 0, len(data), 0, 0, major, minor, len(name)+1, 0, name))
	c.pad()
	c.write(data)
	c.pad()
}

func (c *cpioWriter) dir(name string)                  { c.add(name, cpioDir|0o755, 0, 0, nil) }
func (c *cpioWriter) file(name string, data []byte)    { c.add(name, cpioRegular|0o644, 0, 0, data) }
func (c *cpioWriter) program(name string, data []byte) { c.add(name, cpioRegular|0o755, 0, 0, data) }
func (c *cpioWriter) symlink(name, target string) {
	c.add(name, cpioSymlink|0o777, 0, 0, []byte(target))
}
func (c *cpioWriter) char(name string, major, minor int) {
	c.add(name, cpioChar|0o600, major, minor, nil)
}

// close ends the archive.
func (c *cpioWriter) close() error {
	c.ino = -1 // the trailer's is 0
	c.add("TRAILER!!!", 0, 0, 0, nil)
	if err := c.w.Flush(); c.err == nil {
		c.err = err
	}
	return c.err
}

func (c *cpioWriter) write(b []byte) {
	if c.err != nil {
		return
	}
	n, err := c.w.Write(b)
	c.n += int64(n)
	c.err = err
}

func (c *cpioWriter) pad() { c.write(make([]byte, (4-c.n%4)%4)) }
