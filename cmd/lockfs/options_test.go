package main

import (
	"slices"
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
		{[]string{"ro"}, with(func(o *options) { o.flags |= unix.MS_RDONLY })},
		{[]string{"ro,rw"}, defaultOptions()},
		{[]string{"wait=forever"}, defaultOptions()},
		{[]string{"wait=0"}, with(func(o *options) { o.wait = 0 })},
		{[]string{"wait=90"}, with(func(o *options) { o.wait = 90 * time.Second })},
		{[]string{"wait=1m", "wait=5s"}, with(func(o *options) { o.wait = 5 * time.Second })},
		{[]string{"linger=5s,linger=auto"}, defaultOptions()},
		{[]string{"linger=0,job=cgroup"}, with(func(o *options) { o.linger, o.jobs = 0, procid.ByCgroup })},
		{[]string{"noexec,suid,dev,noatime"}, with(func(o *options) { o.flags = unix.MS_NOEXEC | unix.MS_NOATIME })},
		{[]string{"noexec", "exec"}, defaultOptions()},
		{[]string{"fsname=srv:/a=b"}, with(func(o *options) { o.fsName = "srv:/a=b" })},
		{[]string{"fsname=\"a,b\",noatime"}, with(func(o *options) { o.fsName = "a,b"; o.flags |= unix.MS_NOATIME })},
		{[]string{`fsname=a\,b\\ c,log=/l`}, with(func(o *options) { o.fsName, o.log = `a,b\ c`, "/l" })},
		{[]string{"remount,ro"}, with(func(o *options) { o.remount = true; o.flags |= unix.MS_RDONLY })},
		{[]string{"nosuid,nodev,user,exec,_netdev,nofail,noauto,defaults,comment=a b,x-systemd.requires-mounts-for=/a,X-y,uhelper=z,user=joe"}, defaultOptions()},
		{[]string{"sync,dirsync,nodiratime,relatime,strictatime,lazytime,nosymfollow,silent"}, with(func(o *options) {
			o.flags |= unix.MS_SYNCHRONOUS | unix.MS_DIRSYNC | unix.MS_NODIRATIME | unix.MS_RELATIME |
				unix.MS_STRICTATIME | unix.MS_LAZYTIME | unix.MS_NOSYMFOLLOW | unix.MS_SILENT
		})},
		{[]string{"allow_other"}, with(func(o *options) { o.allowOther = true })},
		{[]string{"nolock"}, with(func(o *options) { o.unlocked = true })},
		{[]string{"debug"}, with(func(o *options) { o.debug = true })},
	} {
		got, err := parseOptions(tt.in, nil)
		if err != nil || got != tt.want {
			t.Errorf("parseOptions(%q) = %+v, %v; want %+v", tt.in, got, err, tt.want)
		}
	}
}

// mount.nfs has a nolock too, which is in many an fstab.
func TestNolockIsNotTakenByChance(t *testing.T) {
	o := options{unlocked: true}
	for value, ok := range map[string]bool{"": false, "1": false, nolockValue: true} {
		t.Setenv(nolockEnv, value)
		_, err := newMountRequest("/a", "/b", o, logFlags{})
		if ok && err != nil || !ok && exitCode(err) != exitUsage {
			t.Errorf("nolock with %s=%q: %v", nolockEnv, value, err)
		}
	}
	t.Setenv(nolockEnv, nolockValue)
	if r, err := newMountRequest("/a", "/b", options{}, logFlags{}); err != nil || r.o.unlocked {
		t.Errorf("without nolock: %+v, %v", r.o, err)
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
		{[]string{"mand"}, []string{`"mand"`}},
		{[]string{"log=l"}, []string{`"l"`, "absolute"}},
	} {
		_, err := parseOptions(tt.in, nil)
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

// A sloppy mount(8) leaves out what is not known, not what is wrong.
func TestParseOptionsSloppy(t *testing.T) {
	var unknown []string
	tell := func(word string) { unknown = append(unknown, word) }
	o, err := parseOptions([]string{"ro,timeout=5m,bogus,wait=1"}, tell)
	if err != nil || o.flags&unix.MS_RDONLY == 0 || o.wait != time.Second || strings.Join(unknown, " ") != "timeout=5m bogus" {
		t.Errorf("%+v, %v, unknown %q", o, err, unknown)
	}
	if _, err := parseOptions([]string{"wait=soon"}, tell); err == nil {
		t.Error("a wrong value passed")
	}
}

func TestSplitWords(t *testing.T) {
	for in, want := range map[string][]string{
		"": nil, ",,": nil, "a,,b=c": {"a", "b=c"}, `f="a,b",c`: {"f=a,b", "c"}, `f=a\,b,c`: {"f=a,b", "c"},
		`a\b`: {`a\b`}, `a\\,b`: {`a\`, "b"}, `a\`: {`a\`}, `f="a`: {"f=a"}, `f=\"`: {`f="`}, "f=a b": {"f=a b"},
	} {
		if got := splitWords(in); !slices.Equal(got, want) {
			t.Errorf("splitWords(%s) = %q, want %q", in, got, want)
		}
	}
}

// What String writes is read back as the same, whatever was read before, and
// no option is ever shorter than no time.
func FuzzParseOptions(f *testing.F) {
	for _, s := range []string{"", "ro", "wait=forever,linger=1ms,job=user", "fsname=a b,noexec", `fsname="a,b\\",log=/x`, "strictatime,remount,allow_other", "wait=2562047h47m16.854775807s", "wait=-1ns", "linger=auto", "linger=-1ns", "bogus"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := parseOptions([]string{s}, nil)
		if err != nil {
			if exitCode(err) != exitUsage {
				t.Fatalf("%q: %v has exit code %d", s, err, exitCode(err))
			}
			return
		}
		if o.linger < 0 && o.linger != lock.LingerAuto || o.wait < 0 && o.wait != lock.Forever {
			t.Fatalf("%q gives %+v", s, o)
		}
		again, err := parseOptions([]string{o.String()}, nil)
		if err != nil || again != o {
			t.Fatalf("%q gives %+v, whose text %q gives %+v, %v", s, o, o, again, err)
		}
	})
}
