package cred

import "golang.org/x/sys/unix"

// mayChangeIDs reports whether the process has the capabilities that another
// user's ids need. Where that cannot be found out it may not: then nothing is
// switched, instead of half of it.
func mayChangeIDs() bool {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // version 3 is two words
	if unix.Capget(&h, &data[0]) != nil {
		return false
	}
	const need = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
	return data[0].Effective&need == need
}
