package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// place is where a piece of work is done: in dir, which is empty unless it was
// prepared, and in the fixture, which is only read. back and backFixture are
// the same two as the backing has them.
type place struct {
	scale                           float64
	dir, back, fixture, backFixture string
}

// count is n at scale 1, and never less than 10.
func (p place) count(n int) int { return scaled(n, p.scale) }

func scaled(n int, scale float64) int { return max(10, int(float64(n)*scale)) }

// work is something that programs do.
type work struct {
	name string
	unit string // of what run returns: "B" for bytes, or what is counted
	// needs is a program without which it is left out.
	needs string
	// prepare makes what run needs. It is not measured, and works in back.
	prepare func(place) error
	// warm: run is done once before it is measured.
	warm bool
	// reads: run changes nothing, and can be done on a read-only mount.
	reads bool
	run   func(place) (int64, error)
}

const (
	bigSize    = 256 << 20
	smallFiles = 10_000
	manyFiles  = 100_000
	manyDirs   = 1000
	fewFiles   = 10
	smallSize  = 100
)

// works are all pieces of work, in the order of the tables.
func works() []work {
	var out []work
	blocks := []struct {
		name string
		size int
	}{{"4 KiB", 4 << 10}, {"128 KiB", 128 << 10}, {"1 MiB", 1 << 20}}
	for _, b := range blocks {
		out = append(out, work{name: "read, " + b.name, unit: "B", reads: true, prepare: dropPages,
			run: func(p place) (int64, error) { return readAll(p.fixture+"/big", b.size) }})
	}
	out = append(out,
		work{name: "read again, 1 MiB", unit: "B", reads: true, warm: true,
			run: func(p place) (int64, error) { return readAll(p.fixture+"/big", 1<<20) }},
		work{name: "read at random, 4 KiB", unit: "B", reads: true, prepare: dropPages, run: readRandom},
		work{name: "read by mmap", unit: "B", reads: true, prepare: dropPages, run: readMapped})
	for _, b := range blocks {
		out = append(out, work{name: "write, " + b.name, unit: "B",
			run: func(p place) (int64, error) { return writeBig(p.dir+"/new", b.size, p.count(bigSize)) }})
	}
	small := func(dirs int) (prepareDirs, prepareFiles func(place) error, create, unlink func(place) (int64, error)) {
		tree := func(p place) smallTree { return smallTree{p.count(smallFiles), min(dirs, p.count(dirs))} }
		return func(p place) error { return tree(p).mkdirs(p.back) },
			func(p place) error { return errors.Join(tree(p).mkdirs(p.back), tree(p).each(p.back, create1)) },
			func(p place) (int64, error) { return tree(p).count(p.dir, create1) },
			func(p place) (int64, error) { return tree(p).count(p.dir, os.Remove) }
	}
	dirs1, files1, create1, unlink1 := small(1)
	dirsN, filesN, createN, unlinkN := small(manyDirs)
	out = append(out,
		work{name: "create small files, one directory", unit: "files", prepare: dirs1, run: create1},
		work{name: "create small files, many directories", unit: "files", prepare: dirsN, run: createN},
		work{name: "unlink small files, one directory", unit: "files", prepare: files1, run: unlink1},
		work{name: "unlink small files, many directories", unit: "files", prepare: filesN, run: unlinkN},
		work{name: "stat, cold", unit: "files", reads: true, run: statAll},
		work{name: "stat, warm", unit: "files", reads: true, warm: true, run: statAll},
		work{name: "list a small directory", unit: "lists", reads: true, run: func(p place) (int64, error) { return list(p.fixture+"/few", p.count(1000)) }},
		work{name: "list a big directory", unit: "lists", reads: true, run: func(p place) (int64, error) { return list(p.fixture+"/many", 1) }},
		work{name: "untar", unit: "trees", needs: "tar", run: command("tar", "-xf", "{fixture}/source.tar", "-C", "{dir}")},
		work{name: "build", unit: "trees", needs: "make", prepare: copySource, run: command("make", "-s", "-j2", "-C", "{dir}")},
		work{name: "git status", unit: "trees", needs: "git", prepare: gitInit, warm: true, run: command("git", "-C", "{dir}", "status", "--porcelain")},
	)
	for _, n := range []int{1, 2, 4, 8, 16} {
		out = append(out, work{name: fmt.Sprintf("clients: %d", n), unit: "files",
			prepare: func(p place) error { return smallTree{0, n}.mkdirs(p.back) },
			run:     func(p place) (int64, error) { return clients(p, n) }})
	}
	return out
}

// dropPages makes the kernel forget the big file's pages in the mount; those
// of the backing are put in its cache instead.
func dropPages(p place) error {
	f, err := os.Open(p.fixture + "/big")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return err
	}
	_, err = readAll(p.backFixture+"/big", 1<<20)
	return err
}

func readAll(path string, block int) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	// Without ReadFrom and WriteTo, which choose a size of their own.
	return io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, block))
}

func readRandom(p place) (n int64, err error) {
	f, err := os.Open(p.fixture + "/big")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	random := rand.New(rand.NewPCG(1, 2))
	block := make([]byte, 4<<10)
	blocks := p.count(bigSize) / len(block)
	for range p.count(20_000) {
		k, err := f.ReadAt(block, int64(random.IntN(blocks))*int64(len(block)))
		if err != nil {
			return n, err
		}
		n += int64(k)
	}
	return n, nil
}

func readMapped(p place) (int64, error) {
	f, err := os.Open(p.fixture + "/big")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size := p.count(bigSize)
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, err
	}
	sum := 0
	for i := 0; i < size; i += 4 << 10 {
		sum += int(data[i])
	}
	if sum == 0 {
		return 0, errors.New("the file has no data")
	}
	return int64(size), unix.Munmap(data)
}

func writeBig(path string, block, size int) (n int64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data := make([]byte, block)
	for n < int64(size) {
		k, err := f.Write(data)
		n += int64(k)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// smallTree is a number of small files, in turn in a number of directories.
type smallTree struct{ files, dirs int }

func (t smallTree) mkdirs(top string) error {
	for i := range t.dirs {
		if err := os.Mkdir(fmt.Sprintf("%s/d%d", top, i), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// each calls f with every file's path, directory by directory.
func (t smallTree) each(top string, f func(path string) error) error {
	for i := range t.files {
		if err := f(fmt.Sprintf("%s/d%d/f%d", top, i*t.dirs/t.files, i)); err != nil {
			return err
		}
	}
	return nil
}

func (t smallTree) count(top string, f func(path string) error) (int64, error) {
	return int64(t.files), t.each(top, f)
}

// create1 makes a small file.
func create1(path string) error { return os.WriteFile(path, make([]byte, smallSize), 0o644) }

func statAll(p place) (int64, error) {
	n := int64(0)
	for i := range p.count(smallFiles) {
		var st unix.Stat_t
		if err := unix.Lstat(fmt.Sprintf("%s/stat/f%d", p.fixture, i), &st); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// list reads the names in a directory, so many times.
func list(dir string, times int) (int64, error) {
	for range times {
		f, err := os.Open(dir)
		if err != nil {
			return 0, err
		}
		names, err := f.Readdirnames(0)
		if err := errors.Join(err, f.Close()); err != nil {
			return 0, err
		}
		if len(names) < fewFiles {
			return 0, fmt.Errorf("%s has %d entries", dir, len(names))
		}
	}
	return int64(times), nil
}

// command returns a run of a program, with the place's directories in its
// arguments.
func command(name string, args ...string) func(place) (int64, error) {
	return func(p place) (int64, error) {
		r := strings.NewReplacer("{dir}", p.dir, "{fixture}", p.fixture)
		in := make([]string, len(args))
		for i, a := range args {
			in[i] = r.Replace(a)
		}
		return 1, tool(name, in...)
	}
}

// tool runs a program whose output is of interest only if it fails.
func tool(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_OPTIONAL_LOCKS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %.500s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

func copySource(p place) error { return os.CopyFS(p.back, os.DirFS(p.backFixture+"/build")) }

func gitInit(p place) error {
	if err := tool("tar", "-xf", p.backFixture+"/source.tar", "-C", p.back); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "."},
		{"-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", "all"},
	} {
		if err := tool("git", append([]string{"-C", p.back}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// clients lets n clients at once each make, read and remove their part of the
// small files in a directory of their own.
func clients(p place, n int) (int64, error) {
	var all sync.WaitGroup
	errs := make([]error, n)
	each := max(1, p.count(smallFiles/2)/n)
	for c := range n {
		all.Go(func() {
			for i := range each {
				path := fmt.Sprintf("%s/d%d/f%d", p.dir, c, i)
				if errs[c] = create1(path); errs[c] != nil {
					return
				}
				if _, errs[c] = os.ReadFile(path); errs[c] != nil {
					return
				}
				if errs[c] = os.Remove(path); errs[c] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return int64(n * each), errors.Join(errs...)
}

// fixtureName is that of the directory that all work may read.
const fixtureName = "fixture"

// makeFixture makes the fixture in the directory top of a backing.
func makeFixture(top string, scale float64) error {
	top = filepath.Join(top, fixtureName)
	for _, d := range []string{top, top + "/stat", top + "/few", top + "/many"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	big := make([]byte, scaled(bigSize, scale))
	rand.NewChaCha8([32]byte{1}).Read(big) // never fails
	if err := os.WriteFile(top+"/big", big, 0o644); err != nil {
		return err
	}
	for dir, n := range map[string]int{"stat": scaled(smallFiles, scale), "few": fewFiles, "many": scaled(manyFiles, scale)} {
		for i := range n {
			if err := os.WriteFile(fmt.Sprintf("%s/%s/f%d", top, dir, i), nil, 0o644); err != nil {
				return err
			}
		}
	}
	return errors.Join(makeSource(top+"/source.tar", scale), makeBuild(top+"/build", scale))
}

// removeFixture removes it from a backing that stays.
func removeFixture(top string) error {
	err := os.RemoveAll(filepath.Join(top, fixtureName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
