package main

import "testing"

func TestStatusLine(t *testing.T) {
	for in, want := range map[[2]int]string{
		{0, 0}: "0 directories are locked, 0 operations wait",
		{1, 1}: "1 directory is locked, 1 operation waits",
		{2, 3}: "2 directories are locked, 3 operations wait",
	} {
		if got := statusLine(in[0], in[1]); got != want {
			t.Errorf("%v: %q", in, got)
		}
	}
}
