package procid

import "golang.org/x/sys/unix"

// openPidfd opens the process pid of the caller's own pid namespace, as
// pidfd_open(2): ESRCH if there is no such process, EINVAL or (Linux 6.16)
// ENOENT if the id is a thread's that leads no process.
func openPidfd(pid int) (int, error) { return unix.PidfdOpen(pid, 0) }

// pidfdEnded reports whether the last thread of the process of the pidfd has
// ended. The kernel counts threads here: a leader that is a zombie while
// another of its threads lives does not make the descriptor readable.
func pidfdEnded(fd int) (bool, error) {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		switch _, err := unix.Poll(p, 0); err {
		case nil:
			return p[0].Revents&unix.POLLIN != 0, nil
		case unix.EINTR:
		default:
			return false, err
		}
	}
}
