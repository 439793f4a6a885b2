package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/internal/metrics"
	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// options are what -o says.
type options struct {
	wait   time.Duration // lock.Forever, 0, or more
	linger time.Duration // lock.LingerAuto, 0, or more
	jobs   procid.JobPolicy
	flags  uintptr // of mount(2)
	fsName string
	log    string // the file to log to; "" for where the system's logs are
	debug  bool
	// metrics is where to tell a monitoring system of the mount; "" for nowhere.
	metrics string
	// allowOther asks for what a mount by root is anyway, and another can't be.
	allowOther bool
	// remount: what is mounted there gets the flags, and nothing is mounted.
	remount bool
	// unlocked takes no lock: see nolockEnv.
	unlocked bool
}

// defaultFlags are those of every FUSE mount: what another host could plant in
// the tree is not trusted.
const defaultFlags = unix.MS_NOSUID | unix.MS_NODEV

// defaultOptions are those of no -o at all.
func defaultOptions() options {
	return options{wait: lock.Forever, linger: lock.LingerAuto, flags: defaultFlags}
}

// parseOptions reads the values of all -o flags: words with commas between
// them (splitWords), a later one before an earlier one. Its error names every
// word that it does not know or that has a wrong value; unless unknown is nil,
// which is told of those that it does not know.
func parseOptions(values []string, unknown func(word string)) (options, error) {
	o := defaultOptions()
	var wrong []string
	for _, v := range values {
		for _, word := range splitWords(v) {
			known, err := o.set(word)
			switch {
			case err != nil:
				wrong = append(wrong, err.Error())
			case known:
			case unknown != nil:
				unknown(word)
			default:
				wrong = append(wrong, fmt.Sprintf("there is no option %q", word))
			}
		}
	}
	if len(wrong) > 0 {
		return options{}, usage("-o: %s", strings.Join(wrong, "; "))
	}
	return o, nil
}

// set changes the options by one word, if it knows it.
func (o *options) set(word string) (known bool, err error) {
	key, value, hasValue := strings.Cut(word, "=")
	switch {
	case foreignWord(word):
	case hasValue && slices.Contains(valueOptions, key):
		return true, o.setValue(key, value)
	case hasValue:
		return false, nil
	case key == "debug":
		o.debug = true
	case key == "allow_other":
		o.allowOther = true
	case key == "remount":
		o.remount = true
	case key == "nolock":
		o.unlocked = true
	case slices.Contains(valueOptions, key):
		return true, fmt.Errorf("%s wants a value (%s=...)", key, key)
	default:
		return setFlag(&o.flags, word), nil
	}
	return true, nil
}

// valueOptions are the words that have a value.
var valueOptions = []string{"wait", "linger", "job", "fsname", "log", "metrics"}

func (o *options) setValue(key, value string) (err error) {
	switch key {
	case "wait":
		if value == "forever" {
			o.wait = lock.Forever
			return nil
		}
		o.wait, err = parseDuration(key, value)
	case "linger":
		if value == "auto" {
			o.linger = lock.LingerAuto
			return nil
		}
		o.linger, err = parseDuration(key, value)
	case "job":
		o.jobs, err = procid.ParseJobPolicy(value)
	case "fsname":
		if value == "" {
			return fmt.Errorf("fsname is empty")
		}
		o.fsName = value
	case "log":
		// A daemon's working directory is not that of who mounts.
		if !strings.HasPrefix(value, "/") {
			return fmt.Errorf("log=%q is no absolute path", value)
		}
		o.log = value
	case "metrics":
		_, _, err = metrics.ParseAddress(value)
		o.metrics = value
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
	words := flagWords(o.flags, defaultFlags)
	wait := "forever"
	if o.wait != lock.Forever {
		wait = o.wait.String()
	}
	linger := "auto"
	if o.linger != lock.LingerAuto {
		linger = o.linger.String()
	}
	words = append(words, "wait="+wait, "linger="+linger, "job="+o.jobs.String())
	for _, w := range [][2]string{{"fsname", o.fsName}, {"log", o.log}, {"metrics", o.metrics}} {
		if key, value := w[0], w[1]; value != "" {
			words = append(words, escapeWord(key+"="+value))
		}
	}
	for _, w := range []struct {
		set  bool
		word string
	}{{o.debug, "debug"}, {o.allowOther, "allow_other"}, {o.remount, "remount"}, {o.unlocked, "nolock"}} {
		if w.set {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, ",")
}
