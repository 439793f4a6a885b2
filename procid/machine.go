package procid

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// EnvHostID is the environment variable by which an administrator names a
// machine whose machine-id or hardware does not: any text that no other host
// has and that a reboot keeps.
const EnvHostID = "LOCKFS_HOST_ID"

// ErrMachineID: the machine has no usable identity. The text says what to do.
var ErrMachineID = errors.New("procid: this machine has no usable identity")

// machineID reads machine-id(5) below root.
func machineID(root string) (string, error) {
	name := filepath.Join(root, "etc/machine-id")
	b, err := os.ReadFile(name)
	if err == nil {
		var id string
		if id, err = parseMachineID(string(b)); err == nil {
			return id, nil
		}
	}
	return "", fmt.Errorf("%w: %s: %w; write one with systemd-machine-id-setup or dbus-uuidgen, distinct on every host, or set %s to a text that no other host has",
		ErrMachineID, name, err, EnvHostID)
}

func parseMachineID(s string) (string, error) {
	s = strings.TrimSuffix(s, "\n")
	switch {
	case s == "":
		return "", errors.New("it is empty")
	case s == "uninitialized":
		return "", errors.New("it is not initialized yet")
	}
	id := strings.ToLower(s)
	if !isHex(id, 32) {
		return "", fmt.Errorf("%.40q is not 32 hex digits", s)
	}
	if strings.Trim(id, "0") == "" {
		return "", errors.New("it is all zero")
	}
	return id, nil
}

// parseBootID reads the text of random(4)'s boot_id.
func parseBootID(s string) (string, error) {
	id := strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "-", "")
	if !isHex(id, 32) || strings.Trim(id, "0") == "" {
		return "", fmt.Errorf("%.40q is no boot id", s)
	}
	return id, nil
}

// isHex reports whether s is n lower-case hex digits.
func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

// digest returns the first n hex digits of a hash of parts; use separates the
// hashes of one text for two purposes. No two lists of parts run together.
func digest(n int, use string, parts ...string) string {
	h := sha256.New()
	for _, p := range append([]string{"lockfs", use}, parts...) {
		fmt.Fprintf(h, "%d:%s,", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:n]
}
