package procid

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Local is this process, on this machine, in this boot: who it is, and the
// judge of others. It does not change, and may be used by several goroutines.
type Local struct {
	id      ID
	warning string
	proc    procfs
	open    func(pid int) (fd int, err error)    // openPidfd
	ended   func(fd int) (ended bool, err error) // pidfdEnded
}

// Self reads the identity of the calling process. Its error says what an
// administrator must do (a missing or useless machine-id: ErrMachineID).
func Self() (*Local, error) {
	return origin{
		root:      "/",
		hostID:    os.Getenv(EnvHostID),
		hostname:  os.Hostname,
		permanent: permanentAddr,
	}.local(os.Getpid())
}

// origin is where an identity is read from.
type origin struct {
	root      string // of /etc, /proc and /sys
	hostID    string // LOCKFS_HOST_ID
	hostname  func() (string, error)
	permanent func(iface string) (net.HardwareAddr, error)
}

// local reads the identity of the process pid, which is this one.
func (o origin) local(pid int) (*Local, error) {
	proc := procfs(filepath.Join(o.root, "proc"))
	l := &Local{proc: proc, open: openPidfd, ended: pidfdEnded}
	l.id.PID = pid
	var err error
	if l.id.Host, err = o.hostname(); err != nil {
		return nil, fmt.Errorf("procid: host name: %w", err)
	}
	if err := o.machine(l); err != nil {
		return nil, err
	}
	boot, err := os.ReadFile(filepath.Join(string(proc), "sys/kernel/random/boot_id"))
	if err != nil {
		return nil, fmt.Errorf("procid: boot id: %w", err)
	}
	if l.id.Boot, err = parseBootID(string(boot)); err != nil {
		return nil, fmt.Errorf("procid: boot id: %w", err)
	}
	if err := l.readSelf(); err != nil {
		return nil, fmt.Errorf("procid: this process: %w", err)
	}
	return l, nil
}

// machine sets the machine's identity, fingerprint and warning.
func (o origin) machine(l *Local) (err error) {
	if o.hostID != "" {
		if strings.TrimSpace(o.hostID) == "" {
			return fmt.Errorf("%w: %s is blank; set it to a text that no other host has, or unset it", ErrMachineID, EnvHostID)
		}
		l.id.Machine = digest(32, "machine", o.hostID)
		l.id.Fingerprint = digest(16, "host", o.hostID)
		return nil
	}
	if l.id.Machine, err = machineID(o.root); err != nil {
		return err
	}
	l.id.Fingerprint = readHardware(o.root, o.permanent).fingerprint(l.id.Host)
	if l.id.Fingerprint == noFingerprint {
		l.warning = "nothing tells this machine from a clone of it (no readable DMI product uuid, no global hardware address): " +
			"locks left by a crash of the whole machine will not be recovered; set " + EnvHostID + " to a text that no other host has and a reboot keeps"
	}
	return nil
}

// readSelf sets what /proc says of the process. It asks for self, not for the
// pid: where /proc is of an outer pid namespace the two differ, and only Judge
// needs the numbers to agree.
func (l *Local) readSelf() error {
	self, err := os.Readlink(filepath.Join(string(l.proc), "self"))
	if err != nil {
		return err
	}
	var n int
	if _, err := fmt.Sscan(self, &n); err != nil {
		return fmt.Errorf("%s/self is %q: %w", l.proc, self, err)
	}
	st, err := l.proc.stat(n)
	if err != nil {
		return err
	}
	l.id.Start = st.start
	if l.id.PIDNS, err = l.proc.namespace(n, "pid"); errors.Is(err, fs.ErrNotExist) {
		// A kernel without pid namespaces says so twice. Otherwise the link is
		// hidden, and with it which processes share our numbers.
		text, serr := l.proc.status(n)
		if serr != nil {
			return serr
		}
		if _, ok := text.field("NSpid"); ok {
			return err
		}
	} else if err != nil {
		return err
	}
	if l.id.TimeNS, err = l.proc.namespace(n, "time"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ID returns the identity of the process.
func (l *Local) ID() ID { return l.id }

// Warning returns what an administrator should be told of this machine's
// identity, for the log, or "" if all is well.
func (l *Local) Warning() string { return l.warning }
