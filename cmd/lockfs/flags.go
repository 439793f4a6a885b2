package main

import (
	"slices"

	"golang.org/x/sys/unix"
)

// flagOption is a pair of words of mount(8) that clear and that set a mount
// flag of mount(2).
type flagOption struct {
	off, on string
	flag    uintptr
}

// flagOptions are all that there are, but for those that FUSE can't have (mand,
// iversion). The words for the flags that are set are those of
// proc_pid_mountinfo(5) too.
var flagOptions = []flagOption{
	{"rw", "ro", unix.MS_RDONLY},
	{"suid", "nosuid", unix.MS_NOSUID},
	{"dev", "nodev", unix.MS_NODEV},
	{"exec", "noexec", unix.MS_NOEXEC},
	{"async", "sync", unix.MS_SYNCHRONOUS},
	{"nodirsync", "dirsync", unix.MS_DIRSYNC},
	{"atime", "noatime", unix.MS_NOATIME},
	{"diratime", "nodiratime", unix.MS_NODIRATIME},
	{"norelatime", "relatime", unix.MS_RELATIME},
	{"nostrictatime", "strictatime", unix.MS_STRICTATIME},
	{"nolazytime", "lazytime", unix.MS_LAZYTIME},
	{"symfollow", "nosymfollow", unix.MS_NOSYMFOLLOW},
	{"loud", "silent", unix.MS_SILENT},
}

// setFlag changes the flags by a word, and reports whether it is such a word.
func setFlag(flags *uintptr, word string) bool {
	i := slices.IndexFunc(flagOptions, func(f flagOption) bool { return word == f.off || word == f.on })
	switch {
	case i < 0:
		return false
	case word == flagOptions[i].on:
		*flags |= flagOptions[i].flag
	default:
		*flags &^= flagOptions[i].flag
	}
	return true
}

// flagWords returns the words that make the flags of those that were given.
func flagWords(flags, given uintptr) []string {
	var words []string
	for _, f := range flagOptions {
		switch {
		case flags&f.flag != 0 && given&f.flag == 0:
			words = append(words, f.on)
		case flags&f.flag == 0 && given&f.flag != 0:
			words = append(words, f.off)
		}
	}
	return words
}
