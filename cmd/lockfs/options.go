package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// defaultLinger spares a job that writes many small files in one directory a
// lock for each: most such jobs open the next file well within it.
const defaultLinger = 10 * time.Millisecond

// options are what -o says.
type options struct {
	wait     time.Duration // lock.Forever, 0, or more
	linger   time.Duration
	jobs     procid.JobPolicy
	readOnly bool
	flags    uintptr // MS_NOEXEC, MS_NOSUID, MS_NODEV, MS_NOATIME
	fsName   string
	debug    bool
}

// defaultOptions are those of no -o at all. nosuid and nodev are on, as on
// every FUSE mount: what another host could plant in the tree is not trusted.
func defaultOptions() options {
	return options{wait: lock.Forever, linger: defaultLinger, flags: unix.MS_NOSUID | unix.MS_NODEV}
}

// flagOption is a pair of words that clear and that set a mount flag.
type flagOption struct {
	off, on string
	flag    uintptr
}

// flagOptions are those of mount(8).
var flagOptions = []flagOption{
	{"exec", "noexec", unix.MS_NOEXEC},
	{"suid", "nosuid", unix.MS_NOSUID},
	{"dev", "nodev", unix.MS_NODEV},
	{"atime", "noatime", unix.MS_NOATIME},
}

// parseOptions reads the values of all -o flags: words with commas between
// them, a later one before an earlier one. Its error names every word that it
// does not know or that has a wrong value.
func parseOptions(values []string) (options, error) {
	o := defaultOptions()
	var wrong []string
	for _, v := range values {
		for word := range strings.SplitSeq(v, ",") {
			if word == "" {
				continue // "a,,b" and "", as mount(8) has it
			}
			if err := o.set(word); err != nil {
				wrong = append(wrong, err.Error())
			}
		}
	}
	if len(wrong) > 0 {
		return options{}, usage("-o: %s", strings.Join(wrong, "; "))
	}
	return o, nil
}

// set changes the options by one word.
func (o *options) set(word string) error {
	key, value, hasValue := strings.Cut(word, "=")
	switch {
	case hasValue:
		return o.setValue(key, value)
	case key == "ro":
		o.readOnly = true
	case key == "rw":
		o.readOnly = false
	case key == "debug":
		o.debug = true
	default:
		i := slices.IndexFunc(flagOptions, func(f flagOption) bool { return key == f.off || key == f.on })
		switch {
		case i < 0 && slices.Contains(valueOptions, key):
			return fmt.Errorf("%s wants a value (%s=...)", key, key)
		case i < 0:
			return fmt.Errorf("there is no option %q", word)
		case key == flagOptions[i].on:
			o.flags |= flagOptions[i].flag
		default:
			o.flags &^= flagOptions[i].flag
		}
	}
	return nil
}

// valueOptions are the words that have a value.
var valueOptions = []string{"wait", "linger", "job", "fsname"}

func (o *options) setValue(key, value string) (err error) {
	switch key {
	case "wait":
		if value == "forever" {
			o.wait = lock.Forever
			return nil
		}
		o.wait, err = parseDuration(key, value)
	case "linger":
		o.linger, err = parseDuration(key, value)
	case "job":
		o.jobs, err = procid.ParseJobPolicy(value)
	case "fsname":
		if value == "" {
			return fmt.Errorf("fsname is empty")
		}
		o.fsName = value
	default:
		return fmt.Errorf("there is no option %q", key+"="+value)
	}
	return err
}

// parseDuration reads a Go duration, or a bare number of seconds.
func parseDuration(key, s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		n, nerr := strconv.ParseUint(s, 10, 31)
		if nerr != nil {
			return 0, fmt.Errorf("%s=%q is no duration (like 90s, 10m, or a number of seconds)", key, s)
		}
		d = time.Duration(n) * time.Second
	}
	if d < 0 {
		return 0, fmt.Errorf("%s=%q is less than nothing", key, s)
	}
	return d, nil
}

// String returns the options as one -o reads them.
func (o options) String() string {
	words := []string{"rw"}
	if o.readOnly {
		words[0] = "ro"
	}
	for _, f := range flagOptions {
		if o.flags&f.flag != 0 {
			words = append(words, f.on)
		} else {
			words = append(words, f.off)
		}
	}
	wait := "forever"
	if o.wait != lock.Forever {
		wait = o.wait.String()
	}
	words = append(words, "wait="+wait, "linger="+o.linger.String(), "job="+o.jobs.String())
	if o.fsName != "" {
		words = append(words, "fsname="+o.fsName)
	}
	if o.debug {
		words = append(words, "debug")
	}
	return strings.Join(words, ",")
}
