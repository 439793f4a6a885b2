// Package docs writes what programs have measured into the documents in docs, and
// has the tests of these: the messages that docs/messages.md explains are those of
// the source, and the commands that docs/operator.md shows work.
package docs
