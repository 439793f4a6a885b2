// Package held notes in a file of this host which directories a lockfs process
// has locked, so that the next one can free at once what it leaves if it is
// killed, or the host loses its power.
//
// A note only says where to look: what stands there is judged anew (package
// lock). So a note that is lost, old, damaged or another's does no harm, and
// writing one never makes a take of a lock wait. It is written at once by a
// goroutine, which a killed process survives, and synced within about a second.
//
// The package imports the standard library and golang.org/x/sys only.
package held
