package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/procid"
)

// examineHost checks this host.
func examineHost() []finding {
	return append(identity(), kernel(), fuseUsable(), descriptors())
}

// identity checks by what the host's locks are told from others'.
func identity() []finding {
	self, err := procid.Self()
	if err != nil {
		do := ""
		if errors.Is(err, procid.ErrMachineID) {
			do = "give the host an identity of its own, that a reboot keeps"
		}
		return []finding{fault("identity", do, "%v", err)}
	}
	id := self.ID()
	var findings []finding
	from := "/etc/machine-id"
	if os.Getenv(procid.EnvHostID) != "" {
		from = procid.EnvHostID + ", which every mount and command of this host must have alike"
	}
	findings = append(findings, ok("identity", "host %s, machine %.8s..., by %s; no other host may have it", id.Host, id.Machine, from))
	switch w := self.Warning(); {
	case w != "":
		findings = append(findings, warning("fingerprint", "set "+procid.EnvHostID, "%s", w))
	case os.Geteuid() != 0 && os.Getenv(procid.EnvHostID) == "":
		findings = append(findings, warning("fingerprint", "run it as root", "not root: the hardware's numbers are not all to be read, so that this is not what a mount by root sees"))
	default:
		findings = append(findings, ok("fingerprint", "%s tells this machine from a clone, and after a reboot", id.Fingerprint))
	}
	// Of a process of its own the judge must know that it lives.
	if j := self.Judge(id); j.Verdict != procid.Alive {
		findings = append(findings, warning("processes", "mount /proc of this pid namespace, without hidepid",
			"this very process cannot be judged: %s; dead holders will not be recovered", j.Reason))
	} else {
		findings = append(findings, ok("processes", "they can be judged"))
	}
	if id.PIDNS != initialPIDNS {
		return append(findings, warning("namespaces", "mount on the host itself and hand the mount to the container, or set "+procid.EnvHostID+" there",
			"not the initial pid namespace (a container): locks of before a reboot are not recovered from here"))
	}
	return append(findings, ok("namespaces", "the initial ones"))
}

// initialPIDNS is the inode of the initial pid namespace (PROC_PID_INIT_INO of
// linux/proc_ns.h).
const initialPIDNS = 0xEFFFFFFC

// kernel checks that the system calls are there that lockfs can't do without.
func kernel() finding {
	const check = "kernel"
	release := "unknown"
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		release = unix.ByteSliceToString(u.Release[:])
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err == nil {
		unix.Close(fd)
		fd, err = unix.PidfdOpen(os.Getpid(), 0)
		if err == nil {
			unix.Close(fd)
			return ok(check, "Linux %s: openat2 and pidfd_open are there", release)
		}
		err = fmt.Errorf("pidfd_open: %w", err)
	} else {
		err = fmt.Errorf("openat2: %w", err)
	}
	return fault(check, "Linux 5.6 or newer; in a container, a seccomp profile that allows both", "Linux %s: %v", release, err)
}
