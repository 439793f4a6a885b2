package held

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
)

// A note is a header and lines, each a "+" or a "-" and a path as Go quotes it.
const header = "lockfs held 1\n"

// What is read of a note that is not ours is bounded.
const (
	maxSize  = 64 << 20
	maxPaths = 100_000
)

func appendLine(b []byte, sign byte, path string) []byte {
	return append(strconv.AppendQuote(append(b, sign), path), '\n')
}

// read adds the paths that the note says are held.
func (e *ended) read(f *os.File) error {
	in := bufio.NewReader(io.LimitReader(f, maxSize))
	held, err := parse(in)
	for path := range held {
		if len(e.paths) < maxPaths {
			e.paths[path] = true
		}
	}
	return err
}

// parse returns what a note says is held. A line that is no such line, like
// the last one of a process that was killed, is left out; so is all of a text
// that is no note.
func parse(in *bufio.Reader) (map[string]int, error) {
	held := map[string]int{}
	for first := true; ; first = false {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			return held, nil
		}
		if err != nil {
			return held, err
		}
		if first {
			if line != header {
				return nil, nil
			}
			continue
		}
		path, err := strconv.Unquote(strings.TrimSuffix(line[1:], "\n"))
		switch {
		case err != nil:
		case line[0] == '+':
			held[path]++
		case line[0] == '-':
			if held[path]--; held[path] <= 0 {
				delete(held, path)
			}
		}
	}
}

// escapeGlob keeps a directory's name from being read as a pattern.
func escapeGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}
