// Command lockerd serves a locker.Locker on its standard input and output.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/lockfs/lockfs/integration/nfslab/locker"
)

// stdio is the peer: its end is the end of the input.
type stdio struct{ io.Reader }

func (stdio) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (stdio) Close() error                { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }

func main() {
	if err := locker.Serve(stdio{os.Stdin}); err != nil {
		fmt.Fprintln(os.Stderr, "lockerd:", err)
		os.Exit(1)
	}
}
