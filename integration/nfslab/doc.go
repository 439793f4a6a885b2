// Package nfslab runs a laboratory of Linux hosts that share one directory
// over NFS: a server, optionally a host that mounts the server's export and
// exports it again, and clients. The hosts are virtual machines made from
// Debian's packages of this machine's own release, emulated by QEMU without
// hardware virtualisation, on a network that exists only between them. Nothing
// is installed or mounted on this machine, and no root is needed.
//
// A host is driven by a program of our own in it, the agent (package
// nfslab/agent): Host.Run, Host.Put, Host.Get. It can lose its power and boot
// again as the same host, be paused, and have its network cable pulled.
//
// The guests are built once and kept in the user's cache directory, keyed by
// all that goes into them. Start never leaves anything running: a lab ends
// with Close, and with the process that started it, however that ends.
//
// The package imports nothing of lockfs: lockfs is put into the hosts as a
// file, by its tests. To look around by hand: go run ./integration/nfslab/lab
package nfslab
