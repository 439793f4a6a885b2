package integration

// tool is a program, or a few that belong together, that works on files.
type tool struct {
	name     string
	packages string   // Debian's, for apt-get install
	programs []string // that must be there
	version  string   // a command whose first line tells it
	did      string   // what the script does, for docs/tools.md
	script   string
	// says is in what the script says if it has done its work.
	says string
	// times are the paths whose times of modification the script has set, and
	// those of all that is below them; they are compared too.
	times string
	// ci: it is run whenever tests are. .ci/run installs the packages.
	ci bool
}

// sources makes src: files of several sizes and modes, links, directories with
// times of their own, names with spaces.
const sources = `mkdir -p src/a/b 'src/c d' src/empty; seq 20000 >src/a/big; printf x >src/a/b/small; : >src/zero
head -c 300000 /dev/zero >'src/c d/zeros'; seq 7 >'src/c d/e f'; ln -s ../zero src/a/link; ln -s none src/dangling; ln src/a/big src/a/hard
truncate -s 1M src/sparse; printf end | dd of=src/sparse bs=1 seek=900000 conv=notrunc status=none
chmod 640 src/a/big; chmod 4755 src/a/b/small; chown 12:34 src/zero; chmod 2770 src/empty
find src ! -type d -exec touch -h -d 2001-02-03T04:05:06.123456789 {} +; find src -depth -type d -exec touch -d 2002-03-04T05:06:07 {} +
`

// project makes a C project of 24 units, a static and a shared library, and a
// program that uses both.
const project = `for i in $(seq 24); do printf 'int f%d(int x) { return x + %d; }\n' $i $i >u$i.c; done
{ for i in $(seq 24); do echo "int f$i(int);"; done; printf '#include <stdio.h>\nint main(void) { int x = 0;'
for i in $(seq 24); do printf ' x = f%d(x);' $i; done; printf '%s\n' ' printf("%d\n", x); return 0; }'; } >main.c
`

var tools = []tool{
	{
		name: "coreutils", packages: "coreutils", programs: []string{"cp", "install", "split", "shred"}, version: "cp --version", ci: true,
		did:  "cp -a, --sparse, --reflink, -u, -b; mv within and across directories, -n, -b, over others; install; ln -sf; split, csplit, sort -o, tee -a, truncate, shred -u, rm -r",
		says: `shredded`,
		script: sources + `cp -a src copy && diff -r --no-dereference src copy && echo same
cp --sparse=always src/sparse s1; cp --reflink=auto src/sparse s2; cmp s1 s2; stat -c %s s1
cp -u src/a/big copy/a/big; cp -b src/zero copy/zero; cp --backup=numbered src/zero copy/zero; ls copy
mkdir m1 m2; cp src/a/big m1; mv m1/big m2/; mv -b src/zero m2/big; mv -n m2/big m2/big~; mv m2 m1; ls -R m1; mv m1/m2/big~ m1; mv -T m1/m2 m1 2>&1
install -D -m 751 -o 5 -g 6 src/a/big i/n/big; install -d -m 1777 i/d; ln -sf one l; ln -sf two l; readlink l; ln -sfn i dir; ln -s x dir 2>&1; readlink dir
split -n 7 src/a/big p.; cat p.* | cmp - src/a/big && echo joined; csplit -s -z src/a/big 100 '{3}'; sort -rn -S 64K -o copy/a/big copy/a/big; head -1 copy/a/big
seq 5 | tee -a t >/dev/null; seq 6 | tee -a t | wc -l; truncate -s 100 t; truncate -s +50 t; stat -c %s t; shred -n 1 -u p.aa; [ ! -e p.aa ] && echo shredded
dd if=src/a/big of=d1 bs=1000 conv=fsync status=none; dd if=src/a/big of=d1 bs=1 seek=5 count=10 conv=notrunc,fdatasync status=none; dd if=src/a/big of=d2 bs=4k oflag=append conv=notrunc status=none; sha1sum d1 d2
rm -r i dir; rmdir src/empty; rmdir src 2>&1; ls`,
		times: "copy/a/b 'copy/c d'",
	},
	{
		name: "dd", packages: "coreutils", programs: []string{"dd"}, version: "dd --version",
		did:  "blocks of 512 B to 4 MiB, seek and skip, notrunc, sparse, fsync, append, O_DIRECT both ways, O_SYNC, excl and nocreat",
		says: `direct`,
		script: `seq 400000 >in; for bs in 512 4095 64K 4M; do dd if=in of=o$bs bs=$bs status=none; cmp in o$bs && echo $bs; done
dd if=in of=o512 bs=1K skip=10 seek=3 count=7 conv=notrunc,fsync status=none; dd if=/dev/zero of=sp bs=64K count=32 conv=sparse status=none; stat -c %s sp
dd if=in of=ap bs=1M oflag=append conv=notrunc status=none; dd if=in of=ap bs=1M oflag=append conv=notrunc status=none; stat -c %s ap
truncate -s 2M in; dd if=in of=di bs=64K iflag=direct oflag=direct status=none; cmp in di && echo direct; dd if=in of=sy bs=256K oflag=sync status=none; dd if=in of=sy conv=excl status=none 2>&1; dd if=in of=no conv=nocreat status=none 2>&1; ls`,
	},
	{
		name: "tar", packages: "tar", programs: []string{"tar"}, version: "tar --version", ci: true,
		did:  "c, x, r, u, --delete, -d, -z, -S, -h, --remove-files, --strip-components, -k, --overwrite; modes, owners, times and links restored",
		says: `same`,
		script: sources + `tar --warning=no-file-changed -cf t.tar src; [ $? -le 1 ] && tar -tvf t.tar | sort && tar -df t.tar && mkdir x && tar -xpf t.tar -C x && diff -r --no-dereference src x/src && echo same
tar -cSzf s.tgz --sort=name --mtime=@0 src && mkdir y && tar -xpzf s.tgz -C y --strip-components=1 && ls y; echo more >src/more; tar -rf t.tar --mtime=@1 src/more; tar --delete -f t.tar src/zero; tar -uf t.tar src; tar -tf t.tar | sort
tar -xf t.tar -C x -k 2>&1 | sort | tail -3; tar -xf t.tar -C x --overwrite; tar -chf h.tar --ignore-failed-read src 2>&1 | sort; tar -cf r.tar --remove-files src; ls; rm *.tar *.tgz; rm x/src/more; touch -d @3 x/src`,
		times: "x/src y/a",
	},
	{
		name: "rsync", packages: "rsync", programs: []string{"rsync"}, version: "rsync --version", ci: true,
		did:  "-aH from and to the tree, a second run that has nothing to do, --inplace, --append, --delete, --backup, --partial with --delay-updates, -S, --checksum, --whole-file off, --remove-source-files",
		says: `inplace`,
		script: sources + `files="grep -v ^.d..t" # of a directory in which a file was written the time differs (differences.md)
rsync -aHi src/ dst | sort; rsync -aHi src/ dst; diff -r --no-dereference src dst && echo same
seq 10000 12000 | dd of=src/a/big bs=1 seek=5000 conv=notrunc status=none; rm src/zero; rsync -aH --inplace --no-whole-file --delete -i src/ dst | $files | sort; cmp src/a/big dst/a/big && echo inplace
touch -d @1100000000 src/a/big; rsync -a src/ dst; seq 9 >>src/a/big; touch -d @1100000009 src/a/big; rsync -a --append -i src/ dst | $files | sort; echo new >'src/c d/e f'; rsync -a --backup --suffix=.old --checksum --delete -i src/ dst | $files | sort; ls 'dst/c d'
rsync -aS --no-whole-file -i src/ dst | $files | sort; rsync -a --partial --delay-updates --fuzzy -i src/ third | sort; rsync -a --remove-source-files src/a/ fourth; find src -type f | sort; ls -A dst third fourth; for d in src dst; do rm -r $d; done; touch -d @5 fourth`,
		times: "third/a/b third/a/big third/a/hard third/dangling third/empty 'third/c d/zeros'",
	},
	{
		name: "git", packages: "git", programs: []string{"git"}, version: "git --version",
		did:  "init, 30 commits, branch, merge, rebase, stash, clone, push, fetch, worktree add and remove, repack, gc, pack-refs, fsck, bisect, archive",
		says: `is the first bad commit`,
		script: `export GIT_AUTHOR_DATE=2001-01-01T00:00:00Z GIT_COMMITTER_DATE=2001-01-01T00:00:00Z; git init -q -b main r && cd r && git config user.name n && git config user.email e@f
for i in $(seq 30); do mkdir -p d$((i % 5)); seq $i $((i * 50)) >d$((i % 5))/f$i; git add . && git commit -qm $i || exit; done
git checkout -qb side HEAD~5; for i in 1 2 3; do echo $i >>side; git add side; git commit -qm side$i; done; git checkout -q main; git merge -q -m merged side; git log --oneline | wc -l
echo dirty >>side; git stash -q; git status --short; git stash pop -q; git status --short; git checkout -q .
git clone -q . ../c && cd ../c && git config user.name n && git config user.email e@f && git checkout -q -b work && seq 99 >new && git add new && git commit -qm new && git push -q origin work && git fetch -q && cd ../r
git worktree add -q ../w work && (cd ../w && cat new | wc -l && echo more >>new && git commit -qam more) && git worktree list | wc -l && git worktree remove ../w; git rebase -q --onto main~1 main~1 work; git log -1 --format=%H work
git repack -qad; git gc -q --aggressive --prune=now; git pack-refs --all; git fsck --full --strict 2>&1; git count-objects -v | grep -v size; git archive main | sha1sum
git bisect start main main~20 >/dev/null && git bisect run sh -c '[ ! -e d3/f28 ]' | grep 'first bad'; git bisect reset -q; git clean -qfdx; git rev-parse main; cd ../c; git pull -q origin main 2>&1 | wc -l; git fsck 2>&1; git log --oneline --all | wc -l; cd ..
git clone -q --bare r b.git; git -C b.git rev-parse main; rm -rf r/.git c/.git b.git`,
	},
	{
		name: "SQLite, rollback journal", packages: "sqlite3", programs: []string{"sqlite3"}, version: "sqlite3 --version",
		did:  "DELETE, TRUNCATE and PERSIST journals, 10,000 rows, a rollback, four processes that count in one row at once, VACUUM, VACUUM INTO, .backup, integrity_check",
		says: `32`,
		script: `for mode in delete truncate persist; do
sqlite3 $mode.db "pragma journal_mode=$mode; create table t(i integer primary key, s text); with recursive n(i) as (values(1) union all select i+1 from n where i<10000) insert into t select i, hex(i*i) from n; create index x on t(s); begin; delete from t; rollback; select count(*), sum(i) from t; pragma integrity_check;"
sqlite3 $mode.db 'create table c(n); insert into c values(0);'
for p in 1 2 3 4; do (for k in 1 2 3 4 5 6 7 8; do sqlite3 -cmd '.timeout 30000' $mode.db 'begin immediate; update c set n=n+1; commit;' || echo failed; done) & done; wait
sqlite3 $mode.db 'select n from c; delete from t where i%3=0; vacuum; pragma integrity_check; select count(*) from t;'; sqlite3 $mode.db "vacuum into '$mode.copy'" ".backup $mode.backup"; for f in $mode.copy $mode.backup; do sqlite3 $f .dump | sha1sum; done
sqlite3 $mode.db .dump | sha1sum; rm $mode.*; done; ls`,
	},
	{
		name: "SQLite, WAL", packages: "sqlite3", programs: []string{"sqlite3", "python3"}, version: "sqlite3 --version", ci: true,
		did:  "journal_mode=WAL (a mapping shared by processes), a reader with an open transaction beside writers, four processes that count in one row, checkpoints, integrity_check",
		says: `[0, 0, 0, 0] (0,)`,
		script: `sqlite3 w.db "pragma journal_mode=wal; create table t(i integer primary key, s text); create table c(n); insert into c values(0);"
python3 -c '
import multiprocessing, sqlite3
def work(p):
    db = sqlite3.connect("w.db", timeout=30, isolation_level=None)
    for i in range(25):
        db.execute("begin immediate"); db.execute("update c set n=n+1"); db.execute("insert into t values(?,?)", (p*1000+i, str(i*i))); db.execute("commit")
r = sqlite3.connect("w.db", isolation_level=None); r.execute("begin"); print(r.execute("select count(*) from t").fetchone())
ps = [multiprocessing.Process(target=work, args=(p,)) for p in range(4)]
for p in ps: p.start()
for p in ps: p.join()
print([p.exitcode for p in ps], r.execute("select count(*) from t").fetchone()); r.execute("commit")
print(r.execute("select n from c").fetchone(), r.execute("select count(*), sum(i) from t").fetchone(), r.execute("pragma integrity_check").fetchone(), r.execute("pragma wal_checkpoint(truncate)").fetchone())
r.close()'; sqlite3 w.db 'pragma journal_mode; select count(*) from t; pragma journal_mode=delete;' ; sqlite3 w.db 'select * from t order by i' | sha1sum; rm w.db; ls`,
	},
	{
		name: "vim", packages: "vim", programs: []string{"vim"}, version: "vim --version",
		did:  "vim -es: substitute and write with swap file, backupcopy yes and no, backup, patchmode, an undo file, a linked file, a new file, :wq! of a read-only one, :preserve",
		says: `sym.orig`,
		script: `seq 1000 >f; chmod 640 f; ln f hard; ln -s f sym; echo ro >ro; chmod 444 ro; v() { vim -Nes -u NONE -i NONE --cmd 'set swapfile directory=. updatecount=1 backupskip=' "$@"; echo "$?"; }
v -c 'set backupcopy=yes backup' -c '%s/1/one/g' -c 'wq' f; stat -c '%h %a' f; v -c 'set backupcopy=no writebackup' -c '%s/2/two/g' -c 'wq' f; stat -c '%h %a' f; v -c 'set patchmode=.orig' -c '%s/3/three/g' -c 'wq' sym; ls -A
v -c 'set undofile undodir=.' -c '1,500d' -c 'wq' f; v -c 'set undofile undodir=.' -c 'undo' -c 'wq' f; wc -l f; rm -f .*.un~
v -c 'normal ihello' -c 'wq' new; v -c 'normal ihello ' -c 'wq!' ro; v -c 'r f' -c 'w >>ap' -c 'saveas other' -c 'q' new; v -c 'normal ix' -c 'preserve' -c 'q!' f; ls -A`,
	},
	{
		name: "emacs", packages: "emacs-nox", programs: []string{"emacs"}, version: "emacs --version",
		did:  "--batch: edit and save with lock files, numbered backups by renaming and by copying, auto-save and recover, write-region append, copy-directory, rename-file, delete-directory, byte-compile",
		says: `./d3/f`,
		script: `seq 300 >f; chmod 640 f; ln -s f sym; cat >e.el <<'X'
;; -*- lexical-binding: t -*-
(setq create-lockfiles t version-control t delete-old-versions t kept-new-versions 3 vc-handled-backends nil)
(defun edit (file text) (find-file file) (goto-char (point-max)) (insert text) (princ (format "%S\n" (and (file-symlink-p (expand-file-name (concat ".#" file))) t))) (save-buffer) (set-buffer-modified-p nil))
(dotimes (i 4) (edit "f" (format "line %d\n" i)) (kill-buffer))
(let ((backup-by-copying t)) (edit "f" "copied\n") (kill-buffer) (edit "sym" "through\n") (kill-buffer))
(edit "new" "text\n") (insert "unsaved") (do-auto-save) (princ (format "%S\n" (file-exists-p (make-auto-save-file-name)))) (set-buffer-modified-p nil) (delete-file (make-auto-save-file-name)) (kill-buffer)
(write-region "tail\n" nil "f" t 'quiet) (make-directory "d/e" t) (set-file-times "f" 1000000000) (copy-file "f" "d/e/f" t t t t) (copy-directory "d" "d2" t t t) (rename-file "d2" "d3") (rename-file "f" "d3/f") (delete-directory "d" t)
(princ (format "%S\n" (directory-files-recursively "." ".*")))
X
emacs -Q --batch -l e.el 2>&1; printf '(defun x () 1)\n' >c.el; emacs -Q --batch --eval '(setq byte-compile-verbose nil)' -f batch-byte-compile c.el 2>&1; ls c.elc; rm c.elc; ls -A`,
		times: "d3/e/f",
	},
	{
		name: "nano", packages: "nano bsdutils", programs: []string{"nano", "script"}, version: "nano --version", ci: true,
		did:  "under script(1), whose own file is elsewhere: type into a new file and a file that is there, save and leave, with lock files (-G) and backups (-B)",
		says: `world`,
		script: `seq 5 >old; chmod 640 old; n() { TERM=vt100 timeout 30 script -qefc "stty rows 24 cols 80; nano -I $*" $HOME/typed >/dev/null; echo $?; rm $HOME/typed; }
up() { for i in $(seq 300); do [ -s $HOME/typed ] && break; sleep 0.1; done; }
{ up; printf 'hello\rworld\r\023\030'; } | n -G new; { up; printf 'first\r\017\r\030'; } | n -G -B old; cat new old old~; ls -A`,
	},
	{
		name: "sed -i, perl -pi, patch, ed", packages: "sed perl patch ed", programs: []string{"sed", "perl", "patch", "ed"}, version: "sed --version",
		did:  "in place with and without a backup, through a link, on a linked, a read-only and a set-id file, on 200 files; patch with backups, -R and rejects; ed",
		says: `patched`,
		script: `seq 2000 >f; cp f orig; ln f hard; ln -s f sym; seq 5 >ro; chmod 444 ro; seq 5 >sid; chmod 4755 sid; sed -i s/1/one/g f; sed -i.bak s/2/two/g f; stat -c %h f hard; sed -i --follow-symlinks s/3/three/g sym; sed -i s/4/four/ ro sid; stat -c %a ro sid; sed -i s/5/five/ sym; stat -c %F sym
mkdir many; for i in $(seq 200); do echo a$i >many/$i; done; sed -i s/a/b/ many/*; cat many/* | sha1sum; perl -pi -e 's/b/c/' many/*; perl -pi.orig -e 's/one/uno/' f; cat many/* f | sha1sum; ls
diff -u --label f --label f orig f >p; patch -b orig p; cmp orig f && echo patched; patch -R orig p; patch f p 2>&1 <p -f; ls; printf '1,10d\n$a\nend\n.\nw\nq\n' | ed -s orig; tail -1 orig; rm -f f.rej`,
	},
	{
		name: "gcc, make", packages: "gcc make libc6-dev binutils", programs: []string{"gcc", "make", "ar"}, version: "gcc --version",
		did:  "make -j8 of 24 units with dependency files, a static and a shared library, link, strip, ar r and d, make again with nothing to do, one unit touched, install, clean",
		says: `uptodate`,
		script: project + `cat >Makefile <<'X'
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard u*.c)))
all: prog sprog
%.o: %.c
	@gcc -g -O1 -fPIC -MMD -c -o $@ $<
libu.a: $(OBJS)
	@rm -f $@; ar rcsD $@ $^
libu.so: $(OBJS)
	@gcc -shared -o $@ $^
prog: main.o libu.a
	@gcc -o $@ $^
sprog: main.o libu.so
	@gcc -o $@ main.o -L. -lu -Wl,-rpath,'$$ORIGIN'
install: all
	@install -D -s -m 755 prog out/bin/prog; cp -a libu.so out/
-include *.d
X
make -j8; ./prog; ./sprog; make -j8; make -q && echo uptodate; touch -d 2001-01-01 *.c *.d; touch -d 2002-02-02 *.o; touch -d 2003-03-03 lib* *prog; make -q && echo uptodate; echo 'int g(void) { return 0; }' >>u3.c; make -q || echo again; make -j8; ./prog; make -j4 install; out/bin/prog; ar t libu.a | wc -l; ar dD libu.a u1.o; ar t libu.a | wc -l; touch -d 2001-01-01 u3.c; ls | wc -l`,
	},
	{
		name: "cmake, ninja", packages: "cmake ninja-build gcc libc6-dev", programs: []string{"cmake", "ninja", "gcc"}, version: "cmake --version",
		did:  "configure, build, build again with nothing to do, one unit changed, install, ctest",
		says: `100% tests passed`,
		script: project + `echo 'cmake_minimum_required(VERSION 3.13)
project(p C)
file(GLOB units u*.c)
add_library(u SHARED ${units})
add_executable(prog main.c)
target_link_libraries(prog u)
enable_testing()
add_test(NAME runs COMMAND prog)
install(TARGETS u prog)' >CMakeLists.txt
cmake -G Ninja -B build . >/dev/null && ninja -C build | tail -1 | tr -d '\r' && build/prog && ninja -C build; echo 'int g(void) { return 0; }' >>u3.c; ninja -C build | grep -c . ; cmake --install build --prefix "$PWD/out" >/dev/null; out/bin/prog 2>/dev/null || LD_LIBRARY_PATH=out/lib out/bin/prog; (cd build && ctest | grep passed)
rm -r build; cp -a out again; diff -r out again; ls -R out`,
	},
	{
		name: "Python: venv, pip", packages: "python3 python3-venv", programs: []string{"python3"}, version: "python3 --version",
		did:  "python3 -m venv with pip, pip install of a local wheel without network, its command run, pip uninstall, compileall, zipapp",
		says: `example==1.0`,
		script: `export PYTHONDONTWRITEBYTECODE=1 PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONFIG_FILE=/dev/null; unset PIP_FIND_LINKS; python3 -c '
import zipfile
with zipfile.ZipFile("example-1.0-py3-none-any.whl", "w") as z:
    def put(name, text): z.writestr(zipfile.ZipInfo(name, (2001, 1, 1, 0, 0, 0)), text)
    for i in range(50): put("example/m%d.py" % i, "x = %d\n" % i)
    put("example/__init__.py", "def main():\n    import example.m7\n    print(example.m7.x)\n")
    put("example-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: example\nVersion: 1.0\n")
    put("example-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    put("example-1.0.dist-info/entry_points.txt", "[console_scripts]\nexample = example:main\n")
    put("example-1.0.dist-info/RECORD", "")
'; python3 -m venv v && v/bin/pip install -q --no-compile --no-cache-dir example-1.0-py3-none-any.whl 2>&1; v/bin/example; v/bin/pip list --format=freeze | grep example; find v -name '*.pyc' -delete
v/bin/python -m compileall -q --invalidation-mode unchecked-hash v/lib/python3*/site-packages/example; find v -name '*.pyc' | wc -l; v/bin/pip uninstall -qy example 2>&1; find v -name 'example*' | sort; mkdir app; echo 'print("app")' >app/__main__.py; python3 -m zipapp app; python3 app.pyz; rm app.pyz; find v -name __pycache__ -prune -exec rm -r {} +`,
	},
	{
		name: "Python: files", packages: "python3", programs: []string{"python3"}, version: "python3 --version",
		did:  "shelve, dbm, pickle, mmap, tempfile, shutil.copytree and move, pathlib, fcntl, multiprocessing with a pool that appends to one file under a lock, os.replace as atomic write, import with __pycache__",
		says: `True whole`,
		script: `cat >p.py <<'X'
import fcntl, mmap, multiprocessing, os, pathlib, pickle, shelve, shutil, tempfile
def work(i):
    with open("log", "a") as f:
        fcntl.flock(f, fcntl.LOCK_EX); f.write("%d\n" % i)
    with open("part%d" % i, "wb") as f: pickle.dump(list(range(i * 100)), f)
    t = "state.%d" % os.getpid()
    with open(t, "w") as f: f.write("whole\n"); f.flush(); os.fsync(f.fileno())
    os.replace(t, "state")
    return sum(pickle.load(open("part%d" % i, "rb")))
if __name__ == "__main__":
    with shelve.open("sh") as s:
        for i in range(500): s["k%d" % i] = {"v": i}
    with shelve.open("sh", writeback=True) as s:
        for i in range(0, 500, 2): del s["k%d" % i]
        s["k1"]["v"] = -1
    with shelve.open("sh", "r") as s: print(len(s), sorted(s)[:3], s["k1"])
    for p in pathlib.Path(".").glob("sh*"): p.unlink()
    with multiprocessing.Pool(6) as pool: print(pool.map(work, range(40)))
    print(sorted(map(int, open("log"))) == list(range(40)), open("state").read()); os.rename("log", "log.old"); os.unlink("log.old")
    with open("m", "w+b") as f:
        f.truncate(1 << 20)
        with mmap.mmap(f.fileno(), 0) as m: m[:4] = b"head"; m[-4:] = b"tail"; m.flush(); print(m.find(b"tail"), len(m)); f.truncate(1 << 21)
    d = tempfile.mkdtemp(dir="."); open(d + "/x", "w").write("x"); shutil.copytree(d, "tree"); shutil.move("tree", d); shutil.copy2("m", d); print(sorted(os.listdir(d))); shutil.rmtree(d)
    with tempfile.NamedTemporaryFile(dir=".") as t: t.write(b"t"); t.flush(); print(os.stat(t.name).st_size)
    with tempfile.TemporaryFile(dir=".") as t: t.write(b"t" * 9000); t.seek(0); print(len(t.read()))
    pathlib.Path("a/b/c").mkdir(parents=True); pathlib.Path("a/b/c/f").write_text("t"); pathlib.Path("a/b").rename("z"); print(sorted(map(str, pathlib.Path(".").rglob("*"))))
X
unset PYTHONDONTWRITEBYTECODE; python3 p.py; echo 'y = 5' >mod.py; python3 -c 'import mod; print(mod.y)'; python3 -c 'import mod; print(mod.__cached__ is not None)'; ls __pycache__ | wc -l; rm -r __pycache__`,
	},
	{
		name: "R", packages: "r-base-core", programs: []string{"R", "Rscript"}, version: "R --version",
		did:  "saveRDS, save, write.csv, sink, file appended to, dir.create, file.rename and copy, unlink, mclapply with a file each, R CMD INSTALL of a local package and its use",
		says: `[1] 7`,
		script: `cat >a.R <<'X'
d <- data.frame(i = 1:5000, x = (1:5000)^2); saveRDS(d, "d.rds"); stopifnot(identical(readRDS("d.rds"), d)); save(d, file = "d.rda"); write.csv(d, "d.csv", row.names = FALSE); print(sum(read.csv("d.csv")$x))
f <- file("log", "a"); for (i in 1:3) cat(i, "\n", file = f); close(f); sink("out"); print(1:3); sink(); print(readLines("out")); con <- file("rw", "w+b"); writeBin(1:1000, con); seek(con, 400, rw = "write"); writeBin(7L, con); close(con); print(file.size("rw"))
dir.create("p/q", recursive = TRUE); invisible(file.copy("d.csv", "p/q", copy.date = TRUE, copy.mode = TRUE)); print(file.rename("p", "r")); print(list.files("r", recursive = TRUE)); print(unlist(parallel::mclapply(1:8, function(i) { n <- paste0("part", i); writeLines(as.character(seq_len(i * 100)), n); length(readLines(n)) }, mc.cores = 4))); print(unlink("r", recursive = TRUE)); print(file.exists("r"))
X
Rscript --vanilla a.R; mkdir -p pkg/R lib; printf 'Package: pkg\nVersion: 1.0\nTitle: T\nDescription: D.\nLicense: GPL-2\nAuthor: A\nMaintainer: A <a@b>\n' >pkg/DESCRIPTION; echo 'export(seven)' >pkg/NAMESPACE; echo 'seven <- function() 7' >pkg/R/s.R
R CMD INSTALL --no-docs --no-html -l lib pkg >/dev/null 2>&1; echo $?; ls lib lib/pkg; Rscript --vanilla -e 'library(pkg, lib.loc = "lib"); print(seven())'; R CMD REMOVE -l lib pkg >/dev/null 2>&1; echo $?; ls -A lib`,
	},
	{
		name: "HDF5", packages: "hdf5-tools python3", programs: []string{"h5import", "h5repack", "h5copy", "h5dump", "h5diff"}, version: "h5dump -V", ci: true,
		did:  "h5import of text, h5copy into a file that is there, h5repack with GZIP and chunks, h5repart into a family, h5diff, h5dump, h5stat",
		says: `/x/two`,
		script: `python3 -c 'for i in range(200): print(" ".join(str(i * j % 997) for j in range(100)))' >t.txt
h5import t.txt -d 200,100 -p g/data -t TEXTIN -s 32 -o a.h5; h5dump -d /g/data a.h5 | sha1sum; h5copy -p -i a.h5 -o b.h5 -s /g/data -d /x/one; h5copy -p -i a.h5 -o b.h5 -s /g/data -d /x/two; h5dump -n b.h5; h5diff a.h5 b.h5 /g/data /x/two; echo $?
h5repack -l x/one:CHUNK=20x20 -f x/one:GZIP=5 b.h5 c.h5; h5diff b.h5 c.h5; echo $?; h5dump -H -p c.h5 | grep -A1 COMPRESSION | head -2 | tr -s ' ' | cut -d'(' -f1; h5repart -m 32k b.h5 fam%03d.h5; ls fam* | wc -l; h5dump --filedriver=family -d /x/one fam%03d.h5 | sed 1d | sha1sum; h5stat -f c.h5 | grep -c bytes; rm *.h5; ls`,
	},
	{
		name: "netCDF", packages: "netcdf-bin python3", programs: []string{"ncgen", "ncdump", "nccopy"}, version: "nc-config --version 2>/dev/null || ncdump 2>&1 | grep 'netcdf library' | cut -d' ' -f4", ci: true,
		did:  "ncgen of the classic, 64-bit and netCDF-4 formats, ncdump, nccopy between them, with compression, chunks and in memory",
		says: `back`,
		script: `python3 -c '
print("netcdf t { dimensions: x = 120 ; y = 80 ; t = UNLIMITED ; variables: int v(x, y) ; float r(t) ; v:unit = \"m\" ; data: v =", ", ".join(str(i * 7 % 1009) for i in range(9600)), "; r = ", ", ".join(str(i) for i in range(500)), "; }")' >t.cdl
for k in classic '64-bit offset' 'netCDF-4' 'netCDF-4 classic model'; do ncgen -k "$k" -o "$k.nc" t.cdl; ncdump -k "$k.nc"; ncdump -n t "$k.nc" | sha1sum; done
nccopy -k nc4 -d 5 -s -c x/20,y/20 classic.nc z.nc; ncdump -n t z.nc | sha1sum; nccopy -w -k classic z.nc back.nc; cmp back.nc classic.nc && echo back; nccopy -u classic.nc fixed.nc; ncdump -h fixed.nc; rm netCDF* z.nc; ls`,
	},
	{
		name: "Parquet (DuckDB)", packages: "nodejs npm; npm install -g @duckdb/node-api", programs: []string{"node"}, version: "NODE_PATH=$(npm root -g) node -e 'console.log(require(\"@duckdb/node-api\").version())'",
		did:  "a database file with its write-ahead log, 50,000 rows, checkpoint, COPY to Parquet in one file and partitioned by directory, read back, exported and imported",
		says: `"50000"`,
		script: `cat >q.js <<'X'
const { DuckDBInstance } = require("@duckdb/node-api");
(async () => {
  const db = await DuckDBInstance.create("d.duckdb", { threads: "1" }), c = await db.connect();
  const q = async s => console.log(JSON.stringify((await c.runAndReadAll(s)).getRowsJson()));
  await q("create table t as select i, i % 7 as k, md5(i::varchar) as s from range(50000) r(i)"); await q("begin"); await q("delete from t"); await q("rollback"); await q("checkpoint");
  await q("copy t to 'one.parquet' (format parquet, row_group_size 10000)"); await q("copy t to 'parts' (format parquet, partition_by (k))"); await q("copy t to 'zstd.parquet' (format parquet, compression zstd)");
  for (const f of ["one.parquet", "parts/*/*.parquet", "zstd.parquet"]) await q("select count(*), sum(i), max(s), sum(k) from read_parquet('" + f + "', hive_partitioning = true)");
  await q("export database 'ex' (format parquet)"); await q("drop table t"); await q("import database 'ex'"); await q("update t set k = 9 where i < 10"); await q("select count(*), sum(k) from t");
  c.closeSync(); db.closeSync();
})().catch(e => { console.log(String(e)); process.exit(1); });
X
NODE_PATH=$(npm root -g) node q.js; ls -R . | grep -v '^d.duckdb'; rm d.duckdb`,
	},
	{
		name: "fio", packages: "fio", programs: []string{"fio"}, version: "fio --version",
		did:  "--thread (else each of its processes is a job) --verify=crc32c of random and sequential writes by psync, libaio with O_DIRECT, mmap, pvsync2, sync with O_SYNC, with fallocate, four threads at once in files of their own",
		says: `0 4`,
		script: `run() { fio --thread --name=j --size=8m --verify=crc32c --verify_fatal=1 --randrepeat=1 --output=$HOME/log "$@" >/dev/null 2>&1; echo "$? $(grep -c 'err= 0' $HOME/log)"; rm -f *.state; }
run --filename=a --rw=randwrite --bs=4k --ioengine=psync; run --filename=b --rw=write --bs=64k --ioengine=libaio --iodepth=16 --direct=1; run --filename=c --rw=randwrite --bs=4k --ioengine=mmap --fsync=200; run --filename=d --rw=randrw --bssplit=512/30:4k/30:128k/40 --ioengine=pvsync2 --fallocate=posix; run --filename=e --rw=write --bs=16k --ioengine=sync --sync=1 --size=1m
run --rw=randrw --bs=8k --ioengine=psync --numjobs=4 --size=4m --fdatasync=100; stat -c '%n %s' a b c d e j.*; rm a b c d e j.*; ls`,
	},
	{
		name: "logrotate", packages: "logrotate", programs: []string{"logrotate"}, version: "logrotate --version 2>&1",
		did:  "rename and create, copytruncate, compress and delaycompress, olddir in another directory, shred; four rotations",
		says: `a.log.2.gz`,
		script: `umask 022; mkdir old; printf '%s/a.log {\nrotate 3\ncreate 640 1 2\ncompress\ndelaycompress\ncompressoptions -n\nmissingok\n}\n%s/b.log {\nrotate 2\ncopytruncate\n}\n%s/c.log {\nrotate 2\nolddir %s/old\nshred\n}\n' "$PWD" "$PWD" "$PWD" "$PWD" >conf; chmod 644 conf; chown 0:0 conf . old
for i in 1 2 3 4; do for f in a b c; do seq $i$i >>$f.log; done; logrotate -f -s state conf 2>&1; cat b.log 2>/dev/null | wc -l; ls -A . old; done; zcat a.log.2.gz | wc -l; rm state; for f in a.log.*.gz; do gzip -d $f; done`,
	},
	{
		name: "dpkg-deb, dpkg", packages: "dpkg", programs: []string{"dpkg-deb", "dpkg"}, version: "dpkg-deb --version", ci: true,
		did:  "build a package, list, extract, control; dpkg --root: install, upgrade with a changed conffile, remove, purge",
		says: `Setting up x (2)`,
		script: `export SOURCE_DATE_EPOCH=1000000000; make_deb() { mkdir -p p/DEBIAN p/usr/share/x p/etc; printf "Package: x\nVersion: $1\nArchitecture: all\nMaintainer: A <a@b>\nDescription: x\n" >p/DEBIAN/control; echo /etc/x.conf >p/DEBIAN/conffiles; for i in $(seq 40); do echo $1 $i >p/usr/share/x/f$i; done; echo $1 >p/etc/x.conf; ln -sf f1 p/usr/share/x/l; chmod -R u=rwX,go=rX p; find p -depth -exec touch -h -d @1000000000 {} +; dpkg-deb --root-owner-group -Zgzip -b p x_$1.deb; }
make_deb 1; make_deb 2; sha1sum *.deb; dpkg-deb -c x_1.deb; dpkg-deb -f x_1.deb Version; dpkg-deb -x x_1.deb out; dpkg-deb -e x_1.deb ctl; dpkg-deb -R x_2.deb raw; ls out ctl raw
mkdir -p r/var/lib/dpkg/info r/var/lib/dpkg/updates r/var/lib/dpkg/triggers r/var/log; : >r/var/lib/dpkg/status; : >r/var/lib/dpkg/available; d() { dpkg --root="$PWD/r" --force-script-chrootless --force-confold --log=/dev/null "$@" </dev/null 2>&1; echo $?; }
d -i x_1.deb; cat r/usr/share/x/f7; echo mine >r/etc/x.conf; d -i x_2.deb; cat r/usr/share/x/f7 r/etc/x.conf; ls r/etc; dpkg --root="$PWD/r" -V x; dpkg --root="$PWD/r" -L x | wc -l; d -r x; ls r/etc; d -P x; find r -type f | sort; rm -r r/var/lib/dpkg`,
		times: "out raw/usr",
	},
	{
		name: "zip, unzip", packages: "zip unzip", programs: []string{"zip", "unzip"}, version: "zip -v | sed -n 2p", ci: true,
		did:  "zip -r with links, -u, -d, -m, a split archive; unzip with times and modes, -o, -t; zipinfo",
		says: `same`,
		script: sources + `export TZ=UTC; zip -qryX a.zip src; unzip -qq a.zip -d x; diff -r --no-dereference src x/src && echo same; unzip -tq a.zip; unzip -Z1 a.zip | sort; echo more >src/more; touch -d 2003-01-01 src/more; zip -qX -u a.zip src/more; zip -qd a.zip 'src/c d/*'; unzip -Z1 a.zip | sort
unzip -qqo a.zip -d x; seq 100000 >big; touch -d 2003-01-01 big; zip -qX -s 64k s.zip big; sha1sum s.z*;  zip -qmX m.zip big; ls; rm *.z*`,
		times: "x/src/a/big x/src/zero x/src/a/b/small",
	},
	{
		name: "7z", packages: "p7zip-full", programs: []string{"7z"}, version: "7z | sed -n 2p",
		did:  "a, u, d, rn, x, t of a .7z, solid and split in volumes; -sdel",
		says: `joined`,
		script: sources + `s() { 7z "$@" -bso0 -bsp0 2>&1; echo $?; }
s a -snl a.7z src; s x a.7z -ox -snl; diff -r --no-dereference src x/src && echo same; s t a.7z; echo more >src/more; s u a.7z src/more; s d a.7z src/zero; s rn a.7z src/more src/less; 7z l -ba -slt a.7z | grep '^Path' | sort; seq 300000 >big; s a -mx1 -v100k v.7z big; s x -so v.7z.001 >/dev/null; 7z x -so v.7z.001 2>/dev/null | cmp - big && echo joined; s a -sdel d.7z big; ls; rm *.7z*`,
		times: "x/src/a/big x/src/sparse",
	},
	{
		name: "gzip, xz, zstd", packages: "gzip xz-utils zstd", programs: []string{"gzip", "xz", "zstd"}, version: "gzip --version; xz --version; zstd --version", ci: true,
		did:  "compress in place with modes, owners and times kept, decompress, -k, -f over others, -t, several files at once, a link refused, -T2",
		says: `threads`,
		script: `for p in "gzip -n" xz "zstd -q --rm"; do c=${p%% *}; mkdir $c; cd $c; seq 50000 >a; seq 9 >b; head -c 200000 /dev/zero >z; chmod 640 a; chown 3:4 a; touch -d 2001-02-03T04:05:06 a b z; ln -s b l
$p a b z; ls; stat -c '%n %a %u %Y' a*; $p -t *.* && echo sound; $p l 2>&1; $c -d -q $([ $c = zstd ] && echo --rm) *.*; sha1sum a b z; stat -c '%n %a %u %Y' a; $c -k -q a; ls; echo x >b.keep; $c -f -k -q b b.keep; $c -d -f -q b.keep.*; cat b.keep; rm -f *.gz *.xz *.zst; cd ..; done; seq 300000 >big; xz -T2 -k big; zstd -q -T2 big; xz -dc big.xz | cmp - big; zstd -dcq big.zst | cmp - big && echo threads; touch -d @9 big; rm big.*`,
		times: "gzip/a xz/a zstd/a big",
	},
	{
		name: "GNU parallel", packages: "parallel", programs: []string{"parallel"}, version: "parallel --version",
		did:  "-j8 of 100 commands that write files and append to one, --pipe, --results into directories, --joblog with --resume, --files",
		says: `50000`,
		script: `parallel --will-cite -j8 'echo {} >f{}; echo {} >>all' ::: $(seq 100) </dev/null; sort -n all | sha1sum; sort -n -o all all; cat f* | wc -l; seq 50000 | parallel --will-cite -j4 --pipe -k --block 50k wc -l | awk '{n += $1} END {print n}'
parallel --will-cite -j4 --results out 'echo {}; echo e{} >&2' ::: a b c d </dev/null >/dev/null 2>&1; cat out/1/*/stdout | sort; cat out/1/*/stderr | sort; parallel --will-cite --joblog log -j4 'echo {} >>j; [ {} != 3 ]' ::: 1 2 3 4 </dev/null; echo $?; parallel --will-cite --joblog log --resume-failed -j4 'echo {} >>j' ::: 1 2 3 4 </dev/null; sort -o j j; cat j; cut -f7 log | sort; cat $(parallel --will-cite --tmpdir . --files echo {} ::: 1 2 3 </dev/null) | sort; rm *.par log; rm -r out; ls | wc -l`,
	},
	{
		name: "xargs -P, find", packages: "findutils", programs: []string{"xargs", "find"}, version: "xargs --version",
		did:  "xargs -P8 that writes 400 files and appends to one, find with -newer, -exec, -delete, -empty, 300 directories",
		says: `400`,
		script: `seq 400 | xargs -P8 -n 5 sh -c 'for i; do mkdir -p d$((i % 20))/s$i; echo $i >d$((i % 20))/s$i/f; echo $i >>all; done' sh; sort -n all | sha1sum; rm all; find . -name f | wc -l; find . -name f -exec cat {} + | sort -n | sha1sum; touch -d 2001-01-01 ref; find . -name f -newer ref | wc -l
find . -type f -size -2c -print0 | xargs -0 -P4 -n 3 rm; find . -depth -type d -empty -delete; find . -type d | wc -l; find d1 -name f -delete; find . -empty | wc -l; find d2 -name f -exec mv {} {}.moved \; -exec touch -d 2002-02-02 {}.moved \; ; ls -R d2`,
		times: "ref d2/s22/f.moved",
	},
}
