package main

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// remount gives what is mounted at target the mount flags that the values of
// -o say. Those that they don't name stay, and so does all that is the daemon's:
// it returns the words that ask for something there.
func remount(target string, values []string) (left []string, err error) {
	point, m, err := oursAt(target)
	if err != nil {
		return nil, err
	}
	flags := m.flags()
	for _, v := range values {
		for _, word := range splitWords(v) {
			if !setFlag(&flags, word) && !foreignWord(word) && word != "remount" && word != "allow_other" {
				left = append(left, word)
			}
		}
	}
	if err := unix.Mount(m.source, point, m.fsType, unix.MS_REMOUNT|flags, ""); err != nil {
		return nil, fmt.Errorf("remount %s: %w", point, err)
	}
	return left, nil
}

// leftText says that the words have changed nothing.
func leftText(left []string) string {
	return strings.Join(left, ", ") + ": as it was mounted; to change that, unmount and mount"
}
