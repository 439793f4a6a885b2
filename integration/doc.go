// Package integration holds the tests of the whole: the command, its mounts,
// and several hosts on one tree.
//
// They play two hosts on one machine (package internal/played) over one
// directory, and so need root and /dev/fuse, and no NFS. All mounts are in the
// hosts' own namespaces, and the process that runs the tests never touches
// one: it acts through programs that it starts on the hosts, and sees the tree
// behind the mounts.
package integration
