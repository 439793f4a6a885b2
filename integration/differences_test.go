package integration

import "testing"

// What docs/differences.md says can't be as without lockfs.
func TestDifferences(t *testing.T) {
	for program, pkg := range map[string]string{"python3": "python3", "setfacl": "acl", "setpriv": "util-linux"} {
		need(t, program, pkg)
	}
	w := newWorld(t)
	w.open()
	w.write("old", "old\n")
	// try says how opening a file ends.
	const try = `exec python3 -c '
import errno, os, sys
try: os.close(os.open(sys.argv[1], eval(sys.argv[2], vars(os)), 0o644)); print("ok")
except OSError as e: print(errno.errorcode[e.errno])' `

	j := w.beta.hold()
	for flags, want := range map[string]string{
		"O_RDONLY":              "ok",
		"O_RDWR | O_NONBLOCK":   "EAGAIN", // though nothing is written
		"O_WRONLY | O_NONBLOCK": "EAGAIN",
	} {
		o := w.alpha.sh(try + "old '" + flags + "'")
		w.expect(o, want)
		w.done(o)
	}
	socket := w.alpha.sh(`exec python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("s"); print("bound")'`)
	w.alpha.waits(1)
	w.tell(j)
	w.expect(socket, "bound")
	w.done(socket)
	w.tell(j)
	w.done(j)

	for args, want := range map[string]string{
		". 'O_TMPFILE | O_RDWR'":          "ENOTSUP",
		".lockfs.mine 'O_CREAT | O_RDWR'": "EPERM",
		".lockfs O_RDONLY":                "ok",
	} {
		o := w.alpha.sh(try + args)
		w.expect(o, want)
		w.done(o)
	}
	list := w.alpha.sh("export LC_ALL=C; exec 9>.lockfs; ls -A; mkdir .lockfsx 2>&1")
	for _, line := range []string{"held", "old", "s", "mkdir: cannot create directory '.lockfsx': Operation not permitted"} {
		w.expect(list, line)
	}
	if err := w.ended(list); err == nil {
		t.Error("a reserved name could be made")
	}

	// An ACL grants one user more than the mode does: the kernel goes by the mode.
	acl := w.alpha.sh("LC_ALL=C; export LC_ALL; chmod 600 old; setfacl -m u:1000:r old; setpriv --reuid=1000 --regid=1000 --clear-groups cat old 2>&1")
	w.expect(acl, "cat: old: Permission denied")
	if err := w.ended(acl); err == nil {
		t.Error("the ACL counted")
	}
}
