package integration

import "testing"

// contend has eight processes take and give back the lock of one file a hundred
// times each, by flock(2) and by fcntl(2), and count what they do in another
// file: none is lost only if the locks exclude. It then kills one that waits.
const contend = `import fcntl, multiprocessing, os, signal, sys, time
def work(how):
    for i in range(100):
        fd = os.open("lockfile", os.O_RDWR)
        how(fd, fcntl.LOCK_EX)
        n = int(open("count").read())
        with open("count", "r+") as f: f.write("%08d" % (n + 1))
        how(fd, fcntl.LOCK_UN)
        os.close(fd)
open("lockfile", "w").close()
for name, how in (("flock", fcntl.flock), ("fcntl", fcntl.lockf)):
    with open("count", "w") as f: f.write("%08d" % 0)
    ps = [multiprocessing.Process(target=work, args=(how,)) for _ in range(8)]
    [p.start() for p in ps]; [p.join() for p in ps]
    print(name, int(open("count").read()), [p.exitcode for p in ps])
    fd = os.open("lockfile", os.O_RDWR)
    how(fd, fcntl.LOCK_EX)
    r, s = os.pipe()
    pid = os.fork()
    if pid == 0:
        own = os.open("lockfile", os.O_RDWR)
        try: how(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e: print("held", e.errno, flush=True)
        os.write(s, b"x")
        how(own, fcntl.LOCK_EX)
        print("wrong", flush=True); os._exit(0)
    os.read(r, 1)
    os.kill(pid, signal.SIGKILL)
    print("killed", os.waitpid(pid, 0)[1])
    os.close(fd)
    fd = os.open("lockfile", os.O_RDWR)
    how(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)
    print("free")
`

// Locks of files exclude, wait and are killed as without lockfs. The kernel
// keeps them for the mount: the export is never asked for any, and may refuse
// them.
func TestFileLocks(t *testing.T) {
	need(t, "python3", "python3")
	w := newWorld(t)
	w.write("contend.py", contend)
	j := w.alpha.sh("exec python3 -u contend.py")
	for _, name := range []string{"flock", "fcntl"} {
		w.expect(j, name+" 800 [0, 0, 0, 0, 0, 0, 0, 0]")
		w.expect(j, "held 11")
		w.expect(j, "killed 9")
		w.expect(j, "free")
	}
	w.done(j)
}
