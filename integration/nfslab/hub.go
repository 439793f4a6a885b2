package nfslab

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
)

// hub is the network between the hosts: each has a unix socket of its own, to
// which its QEMU connects ("-netdev stream": frames behind their length, 4
// bytes, big-endian). A frame goes to its receiver, or to all, unless they are
// cut off; like a switch with a full queue it drops what a host does not take in
// time.
type hub struct {
	mu    sync.Mutex
	ports map[string]*port
	tasks sync.WaitGroup
}

// port is the cable of one host.
type port struct {
	mac      net.HardwareAddr
	listener net.Listener
	queue    chan []byte
	conn     net.Conn // of the host's present QEMU, if it runs
	cut      bool
}

// queued is how many frames wait for a host, of 1500 bytes as a rule.
const queued = 4096

// maxFrame is more than any frame that QEMU sends.
const maxFrame = 1 << 17

func newHub() *hub { return &hub{ports: map[string]*port{}} }

// plug makes a host's port; QEMU finds it at the path.
func (h *hub) plug(name, path string, mac net.HardwareAddr) error {
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	p := &port{mac: mac, listener: l, queue: make(chan []byte, queued)}
	h.mu.Lock()
	h.ports[name] = p
	h.mu.Unlock()
	h.tasks.Add(1)
	go func() {
		defer h.tasks.Done()
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			h.serve(p, conn)
		}
	}()
	return nil
}

// serve carries frames for one run of a host's QEMU, until it ends.
func (h *hub) serve(p *port, conn net.Conn) {
	h.mu.Lock()
	p.conn = conn
	h.mu.Unlock()
	gone := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case frame := <-p.queue:
				if _, err := conn.Write(frame); err != nil {
					return // the reader sees the end too
				}
			case <-gone:
				return
			}
		}
	})
	h.read(p, bufio.NewReaderSize(conn, maxFrame))
	h.mu.Lock()
	p.conn = nil
	h.mu.Unlock()
	close(gone)
	conn.Close()
	writer.Wait()
	// What was meant for a host that lost its power is lost.
	for len(p.queue) > 0 {
		<-p.queue
	}
}

func (h *hub) read(p *port, r io.Reader) {
	for {
		var head [4]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(head[:])
		if n < 14 || n > maxFrame {
			return // no frame: QEMU is out of step
		}
		frame := make([]byte, 4+n)
		copy(frame, head[:])
		if _, err := io.ReadFull(r, frame[4:]); err != nil {
			return
		}
		h.forward(p, frame)
	}
}

func (h *hub) forward(from *port, frame []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if from.cut {
		return
	}
	receiver := frame[4:10]
	all := receiver[0]&1 != 0 // broadcast and multicast
	for _, to := range h.ports {
		if to == from || to.cut || to.conn == nil || !all && !bytes.Equal(receiver, to.mac) {
			continue
		}
		select {
		case to.queue <- frame:
		default:
		}
	}
}

// setCut pulls a host's cable or plugs it in again.
func (h *hub) setCut(name string, cut bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.ports[name]
	if p == nil {
		return fmt.Errorf("nfslab: no host %s", name)
	}
	p.cut = cut
	return nil
}

// close ends the network and waits until nothing of it runs.
func (h *hub) close() {
	h.mu.Lock()
	for _, p := range h.ports {
		p.listener.Close()
		if p.conn != nil {
			p.conn.Close()
		}
	}
	h.mu.Unlock()
	h.tasks.Wait()
}
