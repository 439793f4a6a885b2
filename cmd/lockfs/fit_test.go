package main

import "testing"

func TestFstabMount(t *testing.T) {
	const text = `# a comment
/dev/vda / ext4 defaults 0 1
srv:/a /nfs nfs4 _netdev 0 0
srv:/a/b /nfs/b/ nfs hard 0 0
srv:/c /nfs\040c nfs hard
/nfs/b /nfs/b lockfs _netdev 0 0
/nfs/b /nfs/b fuse.lockfs _netdev 0 0
none none swap sw 0 0
broken
`
	for path, want := range map[string]string{
		"/nfs": "/nfs", "/nfs/x": "/nfs", "/nfs/b": "/nfs/b", "/nfs/b/c/d": "/nfs/b", "/nfs/bc": "/nfs", "/nfsx": "", "/nfs c/x": "/nfs c", "/": "", "/home": "",
	} {
		m, ok := fstabMount(text, path)
		if ok != (want != "") || ok && m.point != want {
			t.Errorf("fstabMount of %s: %+v, %v; want %q", path, m, ok, want)
		}
	}
}
