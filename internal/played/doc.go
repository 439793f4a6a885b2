// Package played plays several hosts on one machine, for the demo and for
// tests: what two hosts do to each other through a shared tree can then be
// shown without NFS and without virtual machines.
//
// A [Host] is a mount namespace and a UTS namespace of its own, with its own
// host name, machine-id, boot id and LOCKFS_HOST_ID. It can be rebooted, which
// kills what runs on it and takes its mounts away, but for its identity. All
// hosts share the kernel, its page cache and the pid namespace: what NFS does
// to caches is not played.
//
// It needs root, nsenter(1) of util-linux and a shell. It imports the standard
// library and golang.org/x/sys only.
package played
