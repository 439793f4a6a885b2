// Package cred runs a function as another user, on the calling thread only.
//
// A file system that serves many users must act at its backing as the user
// who asks: root_squash, quotas, ownership and permission depend on it. The
// process-wide set*id calls cannot do that in a threaded program, so the
// three of setfsuid(2), setfsgid(2) and setgroups(2) are made raw, on a
// locked thread, and undone before the thread is unlocked.
//
// It imports the standard library and golang.org/x/sys only.
package cred
