package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersions(t *testing.T) {
	system := fmt.Sprintf("built by go1.26.0 for %s/%s\n", runtime.GOOS, runtime.GOARCH)
	for _, tt := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{}, "lockfs (devel)\n" + fmt.Sprintf("built by  for %s/%s\n", runtime.GOOS, runtime.GOARCH)},
		{debug.BuildInfo{
			GoVersion: "go1.26.0",
			Main:      debug.Module{Version: "v1.2.3"},
			Deps: []*debug.Module{
				{Path: "example.com/a", Version: "v1"},
				{Path: "example.com/b", Version: "v2", Replace: &debug.Module{Path: "../b"}},
			},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "c0ffee"}, {Key: "vcs.time", Value: "2026-12-02T10:00:00Z"}, {Key: "vcs.modified", Value: "true"}},
		}, "lockfs v1.2.3\ncommit c0ffee of 2026-12-02T10:00:00Z, changed since\n" + system + "with example.com/a v1\nwith example.com/b ../b\n"},
	} {
		if got := versions(&tt.info); got != tt.want {
			t.Errorf("got\n%s\nwant\n%s", got, tt.want)
		}
	}
}
