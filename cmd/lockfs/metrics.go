package main

import (
	"context"
	"fmt"
	"net"

	"github.com/sirupsen/logrus"

	lockfs "github.com/lockfs/lockfs/fs"
	"github.com/lockfs/lockfs/internal/metrics"
)

// meter tells a monitoring system what a mount does. A nil meter is off.
type meter struct {
	metrics    *metrics.Metrics
	operations lockfs.Operations
	target     string
	listener   net.Listener
}

// newMeter listens at address for who asks about the mount at target; nil if
// it is empty.
func newMeter(address, target string) (*meter, error) {
	if address == "" {
		return nil, nil
	}
	l, err := metrics.Listen(address)
	if err != nil {
		return nil, withCode(exitCreate, fmt.Errorf("metrics=%s: %w", address, err))
	}
	return &meter{metrics: metrics.New(target), target: target, listener: l}, nil
}

// add has the options of a mount tell the meter.
func (m *meter) add(o *lockfs.Options) {
	if m == nil {
		return
	}
	o.Events, o.Operations = m.metrics.Event, &m.operations
}

// serve answers until the mount has ended.
func (m *meter) serve(server *lockfs.Server, log *logrus.Entry) {
	if m == nil {
		return
	}
	m.metrics.Watch(m.target, metrics.Source{
		Locks: server.Locks, Kinds: m.operations.Kinds, Errors: m.operations.Errors,
	})
	ctx, end := context.WithCancel(context.Background())
	go func() { server.Wait(); end() }()
	go func() {
		if err := m.metrics.Serve(ctx, m.listener); err != nil {
			log.WithError(err).Error("metrics are not told any more")
		}
	}()
}

// close ends a meter whose mount was not made.
func (m *meter) close() {
	if m != nil {
		m.listener.Close()
	}
}
