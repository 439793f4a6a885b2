package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/lockfs/lockfs/internal/held"
	"github.com/lockfs/lockfs/procid"
)

// notes are a mount's notes of what it holds, for its successor on this host.
// The zero notes are of nobody who keeps any.
type notes struct{ log *held.Log }

func (n *notes) Taken(path string) {
	if n.log != nil {
		n.log.Taken(path)
	}
}

func (n *notes) Released(path string) {
	if n.log != nil {
		n.log.Released(path)
	}
}

// open begins the notes of a mount of source by the process self, and returns
// what is left to be seen to. Without notes a mount is as safe: a lock that is
// left is then freed by the next take of it on this host.
func (n *notes) open(self procid.ID, source string, log *logrus.Logger) (left []string) {
	dir, err := stateDir()
	if err == nil {
		// Apart from those of a host that shares the directory, and of what is
		// no mount of this tree.
		key := sha256.Sum256([]byte(self.Machine + "\x00" + source))
		n.log, left, err = held.Open(filepath.Join(dir, "held", fmt.Sprintf("%.8x", key)), func(err error) {
			log.WithError(err).Warn("what is held can't be noted for the next lockfs of this host")
		})
	}
	if err != nil {
		log.WithError(err).Info("what is held is not noted for the next lockfs of this host: what a crash leaves is freed when it is next needed here")
	}
	return left
}

// close ends the notes.
func (n *notes) close(log *logrus.Entry) {
	if n.log == nil {
		return
	}
	if err := n.log.Close(); err != nil {
		log.WithError(err).Warn("the notes of what is held could not be ended")
	}
}

// stateDir returns where this user's lockfs keeps what outlives a reboot:
// STATE_DIRECTORY (systemd.exec(5)), /var/lib/lockfs for root, and for others
// what the XDG Base Directory Specification says.
func stateDir() (string, error) {
	// Several are separated by colons, the first is the service's own.
	if dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); filepath.IsAbs(dir) {
		return dir, nil
	}
	if os.Geteuid() == 0 {
		return "/var/lib/lockfs", nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "lockfs"), nil
	}
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local/state/lockfs"), nil
	}
	return "", errors.New("neither XDG_STATE_HOME nor HOME is set")
}
