package main

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

func TestParseOptions(t *testing.T) {
	with := func(change func(*options)) options {
		o := defaultOptions()
		change(&o)
		return o
	}
	for _, tt := range []struct {
		in   []string
		want options
	}{
		{nil, defaultOptions()},
		{[]string{""}, defaultOptions()},
		{[]string{",rw,,"}, defaultOptions()},
		{[]string{"ro"}, with(func(o *options) { o.readOnly = true })},
		{[]string{"ro,rw"}, defaultOptions()},
		{[]string{"wait=forever"}, defaultOptions()},
		{[]string{"wait=0"}, with(func(o *options) { o.wait = 0 })},
		{[]string{"wait=90"}, with(func(o *options) { o.wait = 90 * time.Second })},
		{[]string{"wait=1m", "wait=5s"}, with(func(o *options) { o.wait = 5 * time.Second })},
		{[]string{"linger=0,job=cgroup"}, with(func(o *options) { o.linger, o.jobs = 0, procid.ByCgroup })},
		{[]string{"noexec,suid,dev,noatime"}, with(func(o *options) { o.flags = unix.MS_NOEXEC | unix.MS_NOATIME })},
		{[]string{"noexec", "exec"}, defaultOptions()},
		{[]string{"fsname=srv:/a=b"}, with(func(o *options) { o.fsName = "srv:/a=b" })},
		{[]string{"debug"}, with(func(o *options) { o.debug = true })},
	} {
		got, err := parseOptions(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("parseOptions(%q) = %+v, %v; want %+v", tt.in, got, err, tt.want)
		}
	}
}

func TestParseOptionsWrong(t *testing.T) {
	for _, tt := range []struct {
		in    []string
		named []string // what the message must name
	}{
		{[]string{"bogus"}, []string{`"bogus"`}},
		{[]string{"ro,bogus=1", "noexec,worse"}, []string{`"bogus=1"`, `"worse"`}},
		{[]string{"wait"}, []string{"wait wants a value"}},
		{[]string{"wait=soon"}, []string{"wait=", "soon"}},
		{[]string{"wait=-1s"}, []string{"-1s"}},
		{[]string{"wait=99999999999"}, []string{"99999999999"}},
		{[]string{"linger="}, []string{"linger="}},
		{[]string{"job=team"}, []string{"team", "session"}},
		{[]string{"fsname="}, []string{"fsname"}},
		{[]string{"ro=1"}, []string{`"ro=1"`}},
	} {
		_, err := parseOptions(tt.in)
		if err == nil {
			t.Errorf("parseOptions(%q) succeeded", tt.in)
			continue
		}
		if exitCode(err) != exitUsage {
			t.Errorf("parseOptions(%q): exit code %d, want %d", tt.in, exitCode(err), exitUsage)
		}
		for _, n := range tt.named {
			if !strings.Contains(err.Error(), n) {
				t.Errorf("parseOptions(%q): %q does not name %q", tt.in, err, n)
			}
		}
	}
}

// What String writes is read back as the same, whatever was read before, and
// no option is ever shorter than no time.
func FuzzParseOptions(f *testing.F) {
	for _, s := range []string{"", "ro", "wait=forever,linger=1ms,job=user", "fsname=a b,noexec", "wait=2562047h47m16.854775807s", "wait=-1ns", "bogus"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := parseOptions([]string{s})
		if err != nil {
			if exitCode(err) != exitUsage {
				t.Fatalf("%q: %v has exit code %d", s, err, exitCode(err))
			}
			return
		}
		if o.linger < 0 || o.wait < 0 && o.wait != lock.Forever {
			t.Fatalf("%q gives %+v", s, o)
		}
		again, err := parseOptions([]string{o.String()})
		if err != nil || again != o {
			t.Fatalf("%q gives %+v, whose text %q gives %+v, %v", s, o, o, again, err)
		}
	})
}
