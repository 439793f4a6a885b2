package integration

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unmodified are things that programs do to files. Each is done twice, in a
// directory of the tree itself and in one of the mount, and must end alike:
// the same output, the same exit code, the same files.
//
// $OTHER is a user without rights of root, and $GROUP a group that he is in
// only if his supplementary groups say so.
var unmodified = map[string]string{
	"write, append, overwrite": `echo one >a; echo two >>a; echo three >b; cat a b; echo four >a; cat a`,
	"umask":                    `umask 077; echo x >f; mkdir d; mkfifo p; umask 0; echo x >g; mkdir e`,
	"umask and a default acl":  `umask 077; mkdir d; setfacl -d -m u::rwx,g::rwx,o::rx d; echo x >d/f; mkdir d/s; getfacl -c d/f d/s`,
	"setgid directory":         `mkdir d; chgrp 1234 d; chmod 2775 d; echo x >d/f; mkdir d/s`,
	"modes":                    `echo x >f; for m in 0 400 644 777 1777 2755 4755 6777; do chmod $m f; stat -c %a f; done; mkdir d; chmod 0 d; stat -c %a d; chmod 700 d`,
	"owners":                   `echo x >f; ln -s f l; chown 1:2 f; chown -h 3:4 l; stat -c '%u %g %N' f l; chmod 6755 f; chown 5 f; stat -c '%a %u' f`,
	"times":                    `touch -d 2001-02-03T04:05:06.789 f; stat -c '%y %x' f; ln -s f l; touch -h -d 2002-02-03 l; stat -c %y l; mkdir d; touch -d 2003-02-03 d; stat -c %y d; mkdir e; echo x >e/f; touch -d 2003-02-03 e; echo y >e/g; [ $(stat -c %Y e) -gt 1500000000 ] && echo newer`,
	"links":                    `echo x >a; ln a b; stat -c %h a; echo y >>b; cat a; rm a; stat -c %h b; ln -s nowhere c; readlink c; ls`,
	"rename":                   `echo a >a; echo b >b; mkdir d e; mv a b; cat b; mv b d/; mv d e/f; cat e/f/b; mv -T e/f d 2>&1; ls -R; mkdir x y; echo z >y/z; mv -T x y 2>&1; ls -R`,
	"rename exchange":          `python3 -c 'import ctypes,os; open("a","w").write("A"); open("b","w").write("B"); l=ctypes.CDLL(None,use_errno=True); r=l.renameat2(-100,b"a",-100,b"b",2); print(r, open("a").read(), open("b").read()); print(l.renameat2(-100,b"a",-100,b"b",1), ctypes.get_errno())'`,
	"remove":                   `mkdir -p a/b/c; echo x >a/b/c/f; rmdir a 2>&1; rm -r a; ls; for i in 1 2 3 4 5 6 7 8 9; do mkdir d; echo x >d/f; rm d/f; rmdir d; done`,
	"an open file is removed": `exec 3<>f; echo hello >&3; rm f; cat /proc/self/fd/3; echo more >&3; stat -L -c '%s %h' /proc/self/fd/3;
python3 -c 'import os; os.fchmod(3,0o600); os.ftruncate(3,2); os.fchown(3,7,8); s=os.fstat(3); print(oct(s.st_mode),s.st_size,s.st_uid,s.st_gid,s.st_nlink)'`,
	"special files":        `mkfifo p; (echo through >p &); cat p; mknod c c 1 3; stat -c '%F %t %T' c; python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.bind("s"); print("bound")'; ls -l | cut -c1-10`,
	"truncate":             `printf 0123456789 >f; truncate -s 4 f; cat f; truncate -s 8 f; od -c f; : >f; stat -c %s f; truncate -s 2 none; stat -c %s none`,
	"big sparse file":      `truncate -s 64M f; printf x | dd of=f bs=1 seek=50000000 conv=notrunc 2>/dev/null; stat -c %s f; cp --sparse=always f g; cmp f g && echo same; fallocate -p -o 0 -l 4096 f && tar -cSf t.tar f g && tar -tf t.tar; rm t.tar`,
	"open flags":           `python3 -c 'import os; os.close(os.open("r",os.O_CREAT|os.O_RDWR,0o444)); print(oct(os.stat("r").st_mode)); fd=os.open("a",os.O_CREAT|os.O_WRONLY|os.O_APPEND); os.write(fd,b"1"); os.pwrite(fd,b"2",0); print(open("a").read()); open("x","x").close()'; python3 -c 'open("x","x")' 2>&1 | tail -1; cat x/y 2>&1; echo x >/dev/full 2>/dev/null; echo $?`,
	"O_DIRECT":             `dd if=/dev/zero of=f bs=4096 count=8 oflag=direct 2>/dev/null && dd if=f bs=4096 iflag=direct 2>/dev/null | sha1sum`,
	"mapping":              `python3 -c 'import mmap,os; fd=os.open("f",os.O_CREAT|os.O_RDWR); os.ftruncate(fd,8192); m=mmap.mmap(fd,8192); os.close(fd); m[0:5]=b"hello"; m[8000:8005]=b"world"; m.flush(); m[1:2]=b"E"; m.close(); d=open("f","rb").read(); print(d[:5],d[8000:8005])'`,
	"attributes":           `echo x >f; mkdir d; setfattr -n user.a -v 1 f && setfattr -n user.b -v "" f && setfattr -n user.c -v 3 d; getfattr -d f d; getfattr -n user.none f 2>&1; setfattr -x user.a f; setfattr -x user.a f 2>&1; getfattr -d f`,
	"names":                `touch "$(printf 'a\nb')" "$(printf '\377\376')" "$(head -c 255 /dev/zero | tr '\0' n)" '*' ' ' -- -x; touch "$(head -c 256 /dev/zero | tr '\0' n)" 2>&1 | cut -c1-20; ls -b`,
	"many entries":         `mkdir d; (cd d; seq 1000 | xargs touch); ls d | wc -l; ls d | sort | sha1sum; rm -r d; ls`,
	"copies":               `mkdir -p s/t; echo a >s/a; echo b >s/t/b; ln -s a s/l; chmod 640 s/a; touch -d 2001-01-01 s/a s/t/b s/t s; cp -a s c; stat -c %y c c/t c/a; tar -cf - s | (mkdir x; tar -xf - -C x); (cd c; tar -cf - .) | tar -tf - | sort; cp --reflink=auto s/a r; diff -r s c && diff -r s x/s && echo same; rm -rf x`,
	"editors":              `printf 'b\na\n' >f; sed -i s/a/z/ f; sort -o f f; cat f; perl -pi -e s/z/y/ f; cat f; ls -A`,
	"git":                  `git init -q -b main . && git config user.name n && git config user.email e@f && for i in 1 2 3 4 5; do echo $i >f$i; git add .; git commit -qm $i; done; git gc -q; git status --short; git log --oneline | wc -l; git clone -q . ../$(basename $PWD).clone; ls ../$(basename $PWD).clone; rm -rf ../$(basename $PWD).clone .git`,
	"make":                 `printf 'all: a b c d e f g h\n%%:\n\t@echo $@ >$@\n' >Makefile; make -s -j8; cat a b c d e f g h`,
	"compiler":             `printf 'int main(void){return 42;}\n' >m.c; gcc -o m m.c; cp m m2; rm m m.c; stat -c %A m2; rm m2`,
	"locks":                `exec 3>f; flock -n 3 && echo got; flock -n f true; echo $?; python3 -c 'import fcntl; f=open("g","w"); fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB); print("locked")'`,
	"rights":               `echo x >mine; chmod 600 mine; echo x >all; chmod 666 all; mkdir in; chmod 777 in; setpriv --reuid=$OTHER --regid=$OTHER --clear-groups sh -c 'cat mine; echo y >>mine; echo y >>all && cat all; echo z >in/z; echo z >no; chmod 777 all; mkdir in/d; touch mine; rm all; stat -c %u:%g in/z' 2>&1 | sed 's/^sh: [0-9]*: //'`,
	"supplementary groups": `mkdir d; chgrp $GROUP d; chmod 770 d; setpriv --reuid=$OTHER --regid=$OTHER --groups $GROUP sh -c 'echo x >d/f && mkdir d/s && cat d/f && stat -c %u:%g d/f'; setpriv --reuid=$OTHER --regid=$OTHER --clear-groups sh -c 'echo x >d/g' 2>&1 | sed 's/^sh: [0-9]*: //'`,
	"sticky directory":     `mkdir d; chmod 1777 d; echo x >d/f; setpriv --reuid=$OTHER --regid=$OTHER --clear-groups sh -c 'rm -f d/f; mv d/f d/g; echo x >d/h; rm d/h; rmdir d' 2>&1`,
}

// What programs do to files ends alike with lockfs and without.
func TestUnmodifiedPrograms(t *testing.T) {
	for program, pkg := range map[string]string{"setfacl": "acl", "setfattr": "attr", "python3": "python3", "git": "git", "make": "make", "gcc": "gcc", "perl": "perl", "setpriv": "util-linux"} {
		need(t, program, pkg)
	}
	w := newWorld(t)
	if err := os.Chmod(w.tree, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(w.tree); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for name, script := range unmodified {
		n++
		dir := filepath.Join("D", strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' {
				return r
			}
			return -1
		}, name))
		native, through := dir+".native", dir+".mounted"
		for _, d := range []string{native, through} {
			if err := os.Mkdir(filepath.Join(w.tree, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(name, func(t *testing.T) {
			want := w.program(w.tree, native, script)
			if got := w.program(w.mnt, through, script); got != want {
				t.Errorf("through the mount:\n%s\nwithout:\n%s", got, want)
			}
		})
	}
	w.nothingLeft()
}

// A directory keeps the times that it was given, though its own lock is made
// and removed in it; unless it is changed afterwards.
func TestTimesOfDirectories(t *testing.T) {
	w := newWorld(t)
	given := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	mtime := func() time.Time {
		info, err := os.Stat(w.back())
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	w.done(w.alpha.sh("touch -d 2001-02-03T04:05:06Z ."))
	w.nothingLeft()
	w.until("the time that was given", func() bool { return mtime().Equal(given) })
	w.done(w.alpha.sh("chmod 700 ."))
	w.nothingLeft()
	w.until("the time that was given", func() bool { return mtime().Equal(given) })
	w.done(w.alpha.sh("touch -d 2001-02-03T04:05:06Z .; echo x >f"))
	w.nothingLeft()
	if mtime().Equal(given) {
		t.Error("the directory was changed and its time was not")
	}
	w.done(w.alpha.sh("touch -d 2001-02-03T04:05:06Z ."))
	w.nothingLeft()
	w.until("the time that was given", func() bool { return mtime().Equal(given) })
	w.done(w.alpha.sh("echo y >f"))
	w.nothingLeft()
	if mtime().Equal(given) {
		t.Error("a file was written, and the time of its directory is not that of the lock: docs/differences.md")
	}
}

// The release of a lock is not seen in its directory's change time by who has seen
// that since the last change, and everything else is.
func TestChangeTimeOverARelease(t *testing.T) {
	need(t, "python3", "python3")
	w := newWorld(t)
	const look = `
import os, sys
for line in sys.stdin:
    print(os.stat(".").st_ctime_ns, os.stat(sys.argv[1]).st_ctime_ns, os.stat("` + "{in}" + `").st_ctime_ns, flush=True)
`
	j := w.alpha.start("python3", "-c", "import os; os.chdir('"+w.in()+"')"+strings.ReplaceAll(look, "{in}", w.in()), w.back())
	times := func() (shown, real string) {
		t.Helper()
		w.tell(j)
		f := strings.Fields(w.line(j))
		if len(f) != 3 || f[0] != f[2] {
			t.Fatalf("by its descriptor and by its path the directory changed at %q", f)
		}
		return f[0], f[1]
	}
	w.done(w.alpha.sh("echo x >f"))
	w.nothingLeft()
	last, _ := times()
	for _, c := range []struct {
		name   string
		by     *host
		script string
	}{
		{"a file is made", w.alpha, "echo x >new"},
		{"one is removed", w.alpha, "rm new"},
		{"another host makes one", w.beta, "echo x >new"},
		{"one is made and the lock used on", w.alpha, "echo x >newer; stat . >/dev/null; echo x >>newer"},
		{"the directory's mode is changed", w.alpha, "chmod 700 ."},
		{"and its owner, by another host", w.beta, "chown 1:1 ."},
		{"its time is set", w.alpha, "touch -d 2001-02-03 ."},
		{"another host renames a file", w.beta, "mv new old"},
	} {
		w.done(c.by.sh(c.script))
		w.nothingLeft()
		shown, _ := times()
		if shown == last {
			t.Errorf("%s, and the directory has not changed since %s", c.name, last)
		}
		last = shown
	}
	for range 3 {
		// The lock is held while the time is looked at.
		holder := w.alpha.hold()
		during, _ := times()
		w.tell(holder)
		w.expect(holder, "closed")
		w.nothingLeft()
		w.until("the release", func() bool { return w.alpha.status().Holder == nil })
		after, real := times()
		w.tell(holder)
		w.done(holder)
		if after != during || real == after {
			t.Errorf("it changed at %s, after the release at %s, in truth at %s", during, after, real)
		}
	}
	// So tar, which looks before and after, is content.
	w.done(w.alpha.sh("for i in $(seq 40); do echo x >f$i; tar -cPf " + w.tree + "/t.tar " + w.in() + " || exit; done"))
	if err := os.Remove(filepath.Join(w.tree, "t.tar")); err != nil {
		t.Error(err)
	}
}

// A daemon that may have few descriptors serves many directories: those that are
// not in use have none.
func TestFewDescriptors(t *testing.T) {
	w := newWorld(t)
	w.alpha.mountFew(120)
	// A chain that is deeper, and a row that is longer, than there are
	// descriptors; the shell stays in the innermost.
	w.done(w.alpha.sh("mkdir row; for i in $(seq 80); do mkdir row/$i; echo $i >row/$i/f; done; " +
		"for i in $(seq 60); do mkdir d; cd d; done; echo deep >f; ls -R " + w.in() + " >/dev/null; " +
		"cat f; echo deeper >>f; [ $(cat " + w.in("row") + "/*/f | wc -l) = 80 ]; echo more >>" + w.in("row/1/f")))
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.alpha.daemon.PID))
	if err != nil {
		t.Fatal(err)
	}
	if len(fds) > 60 {
		t.Errorf("%d descriptors are open", len(fds))
	}
	if got := w.read("row/1/f"); got != "1\nmore\n" {
		t.Errorf("row/1/f has %q", got)
	}
	if got := w.read(strings.Repeat("d/", 60) + "f"); got != "deep\ndeeper\n" {
		t.Errorf("the innermost file has %q", got)
	}
}

// mountFew mounts anew on the host, by a daemon that may have no more than so many
// descriptors.
func (h *host) mountFew(descriptors int) {
	t := h.w.t
	t.Helper()
	need(t, "prlimit", "util-linux")
	if err := h.daemon.Stop(); err != nil {
		t.Fatal(err)
	}
	few := filepath.Join(t.TempDir(), "lockfs")
	script := fmt.Sprintf("#!/bin/sh\nexec prlimit --nofile=%d -- %s \"$@\"\n", descriptors, lockfs)
	if err := os.WriteFile(few, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	h.mountBy(few)
}

// A link from another directory would let a file be written under two locks.
func TestLinkFromAnotherDirectory(t *testing.T) {
	w := newWorld(t)
	j := w.alpha.sh("echo x >f; mkdir s; ln f s/f 2>&1; ln f g && stat -c %h g")
	w.expect(j, "ln: failed to create hard link 's/f' => 'f': Invalid cross-device link")
	w.expect(j, "2")
	w.done(j)
}

// program runs the script in the directory dir of root, on alpha, and returns
// all that is seen of it and of the files that it leaves. These are looked at
// in the tree.
func (w *world) program(root, dir, script string) string {
	w.t.Helper()
	run := func(root, script string) string {
		return w.shell(bound, "sh", "-c", "umask 022; export LC_ALL=C OTHER=1000 GROUP=1010 HOME=/nonexistent GIT_AUTHOR_DATE=2001-01-01T00:00:00 GIT_COMMITTER_DATE=2001-01-01T00:00:00; cd "+filepath.Join(root, dir)+" || exit; "+script)
	}
	said := strings.ReplaceAll(run(root, script), filepath.Join(root, dir), "HERE")
	w.nothingLeft()
	// In what alpha has mounted over the tree only alpha sees that nothing is left.
	return said + run(w.tree, `while find . -name '.lockfs*' | grep -q .; do sleep 0.01; done
find . ! -type d -printf '%P %y %m %U %G %s %n %l\n' -o -printf '%P %y %m %U %G\n' | sort; find . -type f -exec sha1sum {} + | sort`)
}

// shell runs a program on alpha, and returns what it said and, if that was not
// well, how it ended. What is left of its process group after the limit is
// killed.
func (w *world) shell(limit time.Duration, name string, args ...string) string {
	w.t.Helper()
	cmd := w.alpha.Command(name, args...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	// Where pyenv's python3 is found without HOME.
	cmd.Env = append(cmd.Env, "PYENV_ROOT="+cmp.Or(os.Getenv("PYENV_ROOT"), filepath.Join(os.Getenv("HOME"), ".pyenv")))
	cmd.WaitDelay = 10 * time.Second // for what has left the group and keeps the output
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	kill := time.AfterFunc(limit, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer kill.Stop()
	if err := cmd.Wait(); err != nil {
		if _, ok := err.(*exec.ExitError); !ok {
			w.t.Fatalf("%v: %s", err, &out)
		}
		out.WriteString(err.Error() + "\n")
	}
	return out.String()
}
