package nfslab_test

import (
	"bufio"
	"strings"
	"testing"

	"github.com/lockfs/lockfs/integration/nfslab"
)

// TestReadOnlyMount reads through a read-only mount, from which the kernel reads
// by itself where it can (6.9): as each user, with what another host has just
// written, from an export that trusts no root.
func TestReadOnlyMount(t *testing.T) {
	needMatrix(t)
	for _, c := range []struct {
		kernel string
		itself bool
	}{{"6.1", false}, {"6.12", true}} {
		t.Run("kernel "+c.kernel, func(t *testing.T) {
			w := newWorld(t, nfslab.Config{Kernel: c.kernel, Tools: true, Export: nfslab.Export{RootSquash: true}})
			a, b := w.c[0], w.c[1]
			o := b.overlay("/mnt", "/work")
			a.put("cmd/lockfs")
			d := w.unused("readonly")
			sh(t, w.lab.Server, "cd /export && mkdir "+d+" && cd "+d+` && dd if=/dev/urandom of=large bs=1M count=8 2>/dev/null && echo mine >secret && echo ours >open && chmod 600 secret && chown 1000:1000 . large secret open`)
			sh(t, a.Host, "mkdir /ro && lockfs mount -o ro,debug,log=/tmp/ro.log /mnt /ro")
			as := func(user, script string) string {
				t.Helper()
				return strings.TrimSpace(sh(t, a.Host, "cd /ro/"+d+"; su "+user+" -c '"+script+"' 2>&1"))
			}
			sum := func(h *nfslab.Host, path string) string { return strings.Fields(sh(t, h, "sha256sum "+path))[0] }
			if got, want := sum(a.Host, "/ro/"+d+"/large"), sum(w.lab.Server, "/export/"+d+"/large"); got != want {
				t.Errorf("a large file reads as %s, and is %s", got, want)
			}
			// One user has the files open while the others try.
			holder, err := a.Start(w.ctx, "su", "u1000", "-c", "cd /ro/"+d+"; exec 3<secret 4<open; echo open; read line; cat <&3; cat <&4")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { holder.Close() })
			if line, err := bufio.NewReader(holder).ReadString('\n'); line != "open\n" {
				t.Fatalf("%q, %v", line, err)
			}
			for _, r := range []struct{ user, script, want string }{
				{"u1000", "cat secret open", "mine\nours"},
				{"u1001", "cat open; cat secret || true", "ours\ncat: can't open 'secret': Permission denied"},
				{"root", "cat open; cat secret || true", "ours\ncat: can't open 'secret': Permission denied"},
				{"u1000", "echo x >secret || true", "sh: can't create secret: Read-only file system"},
			} {
				if got := as(r.user, r.script); got != r.want {
					t.Errorf("%s: %s: %q, want %q", r.user, r.script, got, r.want)
				}
			}
			sh(t, b.Host, `cd /work/`+d+` && su u1000 -c "echo more >>secret; echo more >>open; dd if=/dev/zero of=large bs=1k seek=5000 count=1 conv=notrunc 2>/dev/null"`)
			if got := as("u1000", "cat secret open"); got != "mine\nmore\nours\nmore" {
				t.Errorf("after another host has written: %q", got)
			}
			if got, want := sum(a.Host, "/ro/"+d+"/large"), sum(w.lab.Server, "/export/"+d+"/large"); got != want {
				t.Errorf("after another host has written a large file reads as %s, and is %s", got, want)
			}
			asked := sh(t, a.Host, "grep -c 'rx [0-9]*: READ n' /tmp/ro.log || true") != "0"
			if asked == c.itself {
				t.Errorf("the daemon was asked to read: %v", asked)
			}
			holder.Close()
			sh(t, a.Host, "umount /ro")
			o.unmount()
			w.clean()
		})
	}
}
