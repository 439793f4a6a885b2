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
// Its tests are in three sizes. What CI runs, a minute on an idle machine, is two
// clients of one export:
//
//	go test ./integration/nfslab
//
// A pipeline of real programs over three hosts, without lockfs, which must do
// harm, and through it, which must not:
//
//	go test ./integration/nfslab -run TestPipeline -args -nfslab.rounds 2
//	go test ./integration/nfslab -run TestPipeline -timeout 60m -args -nfslab.rounds 30
//
// And everything: all exports by all kinds of mount, faults of hosts, links and
// programs, both kernels, figures. It takes hours, so its parts can be run one by
// one; what they show goes into RESULTS.md:
//
//	go test ./integration/nfslab -timeout 4h -args -nfslab.matrix -nfslab.results RESULTS.md
//	go test ./integration/nfslab -run 'TestOverlayFaults/a_writer_is_killed' -args -nfslab.matrix
//
// The package imports nothing of lockfs: lockfs is put into the hosts as a
// file, by its tests. To look around by hand: go run ./integration/nfslab/lab
package nfslab
