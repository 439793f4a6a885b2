package nfslab

import (
	"fmt"
	"strings"
	"time"
)

// MaxHosts is how many hosts a lab may have, of all roles.
const MaxHosts = 4

// Config says what lab to start. Its zero value is a server and two clients
// that mount an ext4 export by NFSv4.2.
type Config struct {
	// Clients is how many clients there are. 0 means 2.
	Clients int
	// Reexport puts a host between the server and the clients: it mounts the
	// server's export, and the clients mount it from there.
	Reexport bool
	// Cloned gives all clients one machine-id, as copies of one disk have it.
	Cloned bool
	// Tools gives all hosts, in /usr/bin, the real programs where busybox has
	// small ones (coreutils, findutils, tar, sed, gzip, ...), and rsync, sqlite3,
	// git, make and Python 3.
	Tools bool
	// Kernel is the series of Debian's cloud kernel: "6.1" or "6.12".
	// Empty means 6.1.
	Kernel string
	// Version is the NFS version of the mounts: "4.2", "4.1", "4.0" or "3".
	// Empty means 4.2.
	Version string
	// Export is what the server exports, and the re-exporter too.
	Export Export
	// Options are the mount options of the clients besides the version and
	// addresses, as in nfs(5). Empty means "hard".
	Options string
}

// Export says what is exported and how; always with sync.
type Export struct {
	// FS is the file system exported: "ext4", "xfs" or "tmpfs". A tmpfs is
	// empty after the server's power-off. Empty means ext4.
	FS string
	// RootSquash makes root nobody (65534). A directory 0777 is exported then
	// as well as without.
	RootSquash bool
	// Lease is the NFSv4 lease and grace time, in whole seconds; the kernel
	// takes no less than 10 s. 0 means 10 s.
	Lease time.Duration
}

// withDefaults returns c with every empty field set, or says what is wrong.
func (c Config) withDefaults() (Config, error) {
	set := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	set(&c.Kernel, "6.1")
	set(&c.Version, "4.2")
	set(&c.Export.FS, "ext4")
	set(&c.Options, "hard")
	if c.Clients == 0 {
		c.Clients = 2
	}
	if c.Export.Lease == 0 {
		c.Export.Lease = 10 * time.Second
	}
	hosts := 1 + c.Clients
	if c.Reexport {
		hosts++
	}
	switch {
	case c.Clients < 0 || hosts > MaxHosts:
		return c, fmt.Errorf("nfslab: %d clients make %d hosts; at most %d run", c.Clients, hosts, MaxHosts)
	case kernelPackages[c.Kernel] == "":
		return c, fmt.Errorf("nfslab: no kernel %q", c.Kernel)
	case !oneOf(c.Export.FS, "ext4", "xfs", "tmpfs"):
		return c, fmt.Errorf("nfslab: no export on %q", c.Export.FS)
	case !oneOf(c.Version, "3", "4.0", "4.1", "4.2"):
		return c, fmt.Errorf("nfslab: no NFS version %q", c.Version)
	case c.Export.Lease < 10*time.Second || c.Export.Lease%time.Second != 0:
		return c, fmt.Errorf("nfslab: lease %v is not a whole number of seconds from 10 on", c.Export.Lease)
	case strings.ContainsAny(c.Options, " \t\n'\""):
		return c, fmt.Errorf("nfslab: mount options %q contain a space or a quote", c.Options)
	}
	return c, nil
}

func oneOf(s string, of ...string) bool {
	for _, o := range of {
		if s == o {
			return true
		}
	}
	return false
}
