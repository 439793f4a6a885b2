package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockfs/lockfs/internal/played"
)

// What docs/differences.md says can't be as without lockfs.
func TestDifferences(t *testing.T) {
	for program, pkg := range map[string]string{"python3": "python3", "setfacl": "acl", "setpriv": "util-linux", "lsattr": "e2fsprogs"} {
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

	// flock(2) is of this host's mount.
	for _, h := range []*host{w.alpha, w.beta} {
		l := h.sh("exec 3<old; flock -n 3 && echo got; read go")
		w.expect(l, "got")
		defer l.Close()
	}
	refused := w.alpha.sh("flock -n old true; echo $?")
	w.expect(refused, "1")
	w.done(refused)

	// Neither chattr(1) nor the time of birth is there.
	attributes := w.alpha.sh("LC_ALL=C; export LC_ALL; lsattr old 2>&1; stat -c %w old")
	w.expect(attributes, "lsattr: Operation not supported While reading flags on old")
	w.expect(attributes, "-")
	w.done(attributes)

	// A user with the capability is no more than the user.
	capable := w.alpha.sh("LC_ALL=C; export LC_ALL; echo secret >secret; chmod 600 secret; setpriv --reuid=1000 --regid=1000 --clear-groups --inh-caps +dac_override --ambient-caps +dac_override cat secret " + w.back("secret") + " 2>&1")
	w.expect(capable, "cat: secret: Permission denied")
	w.expect(capable, "secret")
	if err := w.ended(capable); err == nil {
		t.Error("the capability counted")
	}

	// An ACL grants one user more than the mode does: the kernel goes by the mode.
	acl := w.alpha.sh("LC_ALL=C; export LC_ALL; chmod 600 old; setfacl -m u:1000:r old; setpriv --reuid=1000 --regid=1000 --clear-groups cat old 2>&1")
	w.expect(acl, "cat: old: Permission denied")
	if err := w.ended(acl); err == nil {
		t.Error("the ACL counted")
	}
}

// Of two jobs of a host that wait for each other one is told.
func TestDeadlockIsTold(t *testing.T) {
	w := newWorld(t)
	w.shellOK(`mkdir "$0/x" "$0/y"`, w.back())
	const script = "exec 3>%s/f; echo holds; read go; LC_ALL=C; export LC_ALL; { echo in >%s/g && echo got; } 2>&1; exec 3>&-"
	first := w.alpha.sh(fmt.Sprintf(script, "x", "y"))
	second := w.alpha.sh(fmt.Sprintf(script, "y", "x"))
	for _, j := range []*played.Job{first, second} {
		w.expect(j, "holds")
	}
	w.tell(first)
	w.until("a wait for y", func() bool { return len(w.alpha.status("y").Waiters) == 1 })
	w.tell(second)
	if said := w.line(second); !strings.Contains(said, "Resource deadlock avoided") {
		t.Errorf("the second job is told %q", said)
	}
	w.expect(first, "got")
	w.done(first)
	w.done(second)
}

// A program that has a file of the directory open for writing, and waits for one
// that it has started in a session of its own, waits for itself: they are two
// jobs.
func TestProgramInASessionOfItsOwn(t *testing.T) {
	need(t, "setsid", "util-linux")
	for job, waits := range map[string]bool{"session": true, "user": false} {
		w := newWorld(t, "-o", "job="+job)
		j := w.alpha.sh("exec 3>log; echo within >a; echo within; setsid --wait sh -c 'exec 3>&-; echo beyond >b; echo beyond' & read go; exec 3>&-; wait")
		w.expect(j, "within")
		if waits {
			w.alpha.waits(1)
		} else {
			w.expect(j, "beyond")
		}
		w.tell(j)
		if waits {
			w.expect(j, "beyond")
		}
		w.done(j)
	}
}

// Programs that make links from directory to directory say that they can't, and
// those that can do without copy.
func TestToolsThatLink(t *testing.T) {
	for program, pkg := range map[string]string{"rsync": "rsync", "git": "git"} {
		need(t, program, pkg)
	}
	w := newWorld(t)
	src := t.TempDir()
	w.shellOK(`cd "$0" && mkdir -p src/a src/b && echo x >src/a/f && ln src/a/f src/b/f && tar -cf t.tar -C src a b`, src)
	for _, tt := range []struct {
		script string
		code   int
		files  int // that there are then
	}{
		{"tar -xf $SRC/t.tar", 2, 1},
		{"cp -a $SRC/src .", 1, 1},
		{"rsync -aH $SRC/src .", 23, 1},
		{"rsync -a $SRC/src .", 0, 2},
		{"cp -r $SRC/src .", 0, 2},
		{"mkdir a b; echo x >a/f; ln a/f b/f", 1, 1},
		{"mkdir a b; echo x >a/f; cp -l a/f b", 1, 1},
		{"mkdir a b; echo x >a/f; mv a/f b", 0, 1},
		{"mkdir a b; echo x >a/f; ln a/f a/g; mv a/f b; mv a/g b; [ $(stat -c %h b/f) = 2 ]", 0, 2},
		{"git init -q a && cd a && echo x >f && git add f && git -c user.name=n -c user.email=e@f commit -qm x && cd .. && git clone -q a b && git -C b fsck --full; e=$?; rm -rf a/.git b/.git; (exit $e)", 0, 2},
	} {
		w.shellOK(`rm -rf "$0" && mkdir "$0"`, w.in("x"))
		said := w.shell(bound, "sh", "-c", `SRC="$0" HOME="$0"; export HOME; cd "$1" && `+tt.script+"; e=$?; echo; echo $e; find . -type f | wc -l", src, w.in("x"))
		if want := fmt.Sprintf("\n%d\n%d\n", tt.code, tt.files); !strings.HasSuffix(said, want) {
			t.Errorf("%s: it ends with %q, want the code and the files %q", tt.script, said, want)
		}
	}
}

// On a file system without room for one more file, what needs a lock fails, and
// says why; with the lock held there is no difference.
func TestNoRoomForALock(t *testing.T) {
	w := newWorld(t)
	w.over("", `mount -t tmpfs -o nr_inodes=5 none "$BACK"`)
	w.shellOK(`cd "$0" && touch a b c`, w.back()) // the directory itself is one, and one is left
	said := w.shell(bound, "sh", "-c", `export LC_ALL=C; cd "$0"; rm a; ls; cat b; rm "$1/a"; rm b; ls`, w.in(), w.back())
	for _, want := range []string{"rm: cannot remove 'a': No space left on device\na\nb\nc\n", "\nc\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("it says %q, want %q", said, want)
		}
	}
}
