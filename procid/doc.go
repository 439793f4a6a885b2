// Package procid says who a process is and whether it has died.
//
// An [ID] names one process exactly: the machine, the boot of it, the pid and
// start time, the pid and time namespaces these were read in, and a
// fingerprint that a cloned machine does not share. [Self] reads the
// identity of the calling process; [Local.Judge] says of any other whether it
// is alive, dead, of another host, or not to be judged from here, and why.
// A verdict of [Dead] is exact: it never rests on an age, a lease or a guess.
// In every doubt the process counts as alive.
//
// A [Job] is what one user thinks of as one piece of work: a session, a
// cgroup, a process, a user, or everything at once, by [JobPolicy].
//
// The package reads /proc, /sys and /etc/machine-id and makes a few system
// calls; it writes nothing. It imports the standard library and
// golang.org/x/sys only, and no other package of this module.
//
// Its tests reach all statements but those of a failing kernel: an error of
// poll(2) or socket(2), a want of memory or descriptors in the midst of a look,
// a /proc that vanishes. Another machine and another boot are tested on records
// alone. The initial pid namespace's view of an ended one is tested in a
// namespace that is taken for it.
//
// Do not use it to follow a process's life (use a pidfd), nor for processes
// of other hosts: those are never judged.
package procid
