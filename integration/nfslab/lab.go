package nfslab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Lab is a running lab. Its hosts' methods may be called at once; those of one
// host that change its state (Boot, PowerOff) not.
type Lab struct {
	// Server exports /export. A power-off is survived by what is on its disk.
	Server *Host
	// Reexport mounts the server's export on /export and exports it again; nil
	// if there is none.
	Reexport *Host
	// Clients are c1, c2, ...: each has the export mounted on /mnt.
	Clients []*Host

	config Config
	image  image
	tools  string // the disk of tools; "" if there is none
	dir    string // of sockets, consoles and disks; locked while the lab runs
	unlock func()
	hub    *hub
	close  func() error
}

// Start starts a lab and returns when every client has mounted the export. ctx
// bounds the start, not the lab's life. Close ends the lab.
func Start(ctx context.Context, config Config) (*Lab, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	img, err := buildImage(ctx, config.Kernel)
	if err != nil {
		return nil, err
	}
	l := &Lab{config: config, image: img, hub: newHub()}
	if config.Tools {
		if l.tools, err = buildTools(ctx); err != nil {
			return nil, err
		}
	}
	l.close = sync.OnceValue(l.end)
	if l.dir, l.unlock, err = newDir(); err != nil {
		return nil, err
	}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// newDir makes a lab's directory, and removes those of labs whose process was
// killed. It is of the system's temporary ones: a socket's path must be short.
func newDir() (dir string, unlock func(), err error) {
	cache, err := cacheDir()
	if err != nil {
		return "", nil, err
	}
	done, err := lockFile(filepath.Join(cache, "lock"), unix.LOCK_EX)
	if err != nil {
		return "", nil, err
	}
	defer done()
	old, err := filepath.Glob(filepath.Join(os.TempDir(), "nfslab-*"))
	if err != nil {
		return "", nil, err
	}
	for _, d := range old {
		// Another user's is his, and what is no directory is no lab's.
		err := removeUnused(d, inUse)
		if err != nil && !errors.Is(err, os.ErrPermission) && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return "", nil, err
		}
	}
	if dir, err = os.MkdirTemp("", "nfslab-"); err != nil {
		return "", nil, err
	}
	unlock, err = lockFile(filepath.Join(dir, inUse), unix.LOCK_EX)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, unlock, nil
}

func (l *Lab) start(ctx context.Context) error {
	l.Server = l.newHost("server", "server", 1)
	nearest := l.Server
	if l.config.Reexport {
		l.Reexport = l.newHost("reexport", "reexport", 2)
		l.Reexport.server = l.Server.IP
		nearest = l.Reexport
	}
	for i := range l.config.Clients {
		c := l.newHost(fmt.Sprintf("c%d", i+1), "client", 11+i)
		c.server = nearest.IP
		if l.config.Cloned && i > 0 {
			c.MachineID = l.Clients[0].MachineID
		}
		l.Clients = append(l.Clients, c)
	}
	for _, h := range l.Hosts() {
		if err := l.hub.plug(h.Name, h.path("lan"), h.mac()); err != nil {
			return err
		}
		if h.role != "client" {
			if err := makeDisk(ctx, l.image, h.path("disk"), h.diskType()); err != nil {
				return err
			}
		}
	}
	// The others wait in vain for one that failed.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return each(l.Hosts(), func(h *Host) error {
		err := h.Boot(ctx)
		if err != nil && context.Cause(ctx) == nil {
			cancel(fmt.Errorf("%s failed", h.Name))
		}
		return err
	})
}

// Hosts returns all hosts: server, re-exporter, clients.
func (l *Lab) Hosts() []*Host {
	var all []*Host
	for _, h := range append([]*Host{l.Server, l.Reexport}, l.Clients...) {
		if h != nil {
			all = append(all, h)
		}
	}
	return all
}

// each calls f for every host at once and returns what failed.
func each(hosts []*Host, f func(*Host) error) error {
	errs := make([]error, len(hosts))
	var tasks sync.WaitGroup
	for i, h := range hosts {
		tasks.Go(func() { errs[i] = f(h) })
	}
	tasks.Wait()
	return errors.Join(errs...)
}

// Close ends the lab, whatever state its hosts are in. Nothing of it is left.
// It may be called again.
func (l *Lab) Close() error { return l.close() }

func (l *Lab) end() error {
	err := each(l.Hosts(), func(h *Host) error { return h.PowerOff() })
	l.hub.close()
	err = errors.Join(err, os.RemoveAll(l.dir))
	l.unlock()
	return err
}

// RestartNFSD stops the server's nfsd, which forgets what it had in memory, and
// starts it again, as after a reboot: for the lease time it is in its grace
// period, in which clients reclaim their opens and locks.
func (l *Lab) RestartNFSD(ctx context.Context) error {
	r, err := l.Server.Run(ctx, "sh", "-c", ". /lib/lab.sh; nfsd_stop; nfsd_start")
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("nfslab: restart of nfsd: status %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	return err
}

func randomID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
