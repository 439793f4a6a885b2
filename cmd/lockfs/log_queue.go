package main

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// queueLength is how many lines of the log may wait to be written.
const queueLength = 10_000

// flushBound is how long the end of the daemon waits for its last lines.
const flushBound = 2 * time.Second

// queue is where a daemon logs to. Who logs never waits: a journal, a terminal
// or a disk that takes nothing more must not keep a lock from being released.
// What does not fit into the queue then is lost, and that is told.
type queue struct {
	to    io.Writer
	items chan queued
	lost  atomic.Int64
}

// queued is a line, or for flush a channel that is closed in its turn.
type queued struct {
	line []byte
	done chan struct{}
}

// newQueue returns a queue to w, which is served as long as the process lives.
func newQueue(w io.Writer) *queue {
	q := &queue{to: w, items: make(chan queued, queueLength)}
	go func() {
		for i := range q.items {
			if i.done != nil {
				close(i.done)
				continue
			}
			if n := q.lost.Swap(0); n > 0 {
				fmt.Fprintf(q.to, "%d lines of the log are lost: they were not taken in time\n", n)
			}
			q.to.Write(i.line) // there is nobody to tell that the log fails
		}
	}()
	return q
}

// Write never fails.
func (q *queue) Write(line []byte) (int, error) {
	select {
	case q.items <- queued{line: bytes.Clone(line)}:
	default:
		q.lost.Add(1)
	}
	return len(line), nil
}

// flush returns when what was written before has been passed on, or after
// flushBound.
func (q *queue) flush() {
	timeout := time.After(flushBound)
	done := make(chan struct{})
	select {
	case q.items <- queued{done: done}:
	case <-timeout:
		return
	}
	select {
	case <-done:
	case <-timeout:
	}
}
