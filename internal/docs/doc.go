// Package docs has the tests of the documents in docs: the messages that
// docs/messages.md explains are those of the source, and the commands that
// docs/operator.md shows work. It has nothing else.
package docs
