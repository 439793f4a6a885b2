package integration

import (
	"bufio"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/internal/docs"
	"github.com/lockfs/lockfs/internal/played"
)

var (
	scale      = flag.Float64("scale", 0.0005, "the size of TestScale: 1 is 100,000 open files and a million inodes, and takes an hour or so")
	scaleWrite = flag.String("scale.write", "", "write the figures into this page (../docs/scale.md)")
)

// scaleWrites is the command whose figures stand in docs/scale.md.
const scaleWrites = "go test ./integration -run TestScale -timeout 3h -args -scale 1 -scale.write ../docs/scale.md"

// What a daemon may have for each thing of a crowd at the most, and what it may
// keep of all when they are gone. The race detector's memory is several times
// that of a program.
const (
	scaleEach = 64 << 10
	scaleKept = 64 << 20
	// scaleSpare are descriptors of a daemon for other things: of directories that
	// the kernel knows it has up to 4096.
	scaleSpare = 4096 + 512
)

// figures are what TestScale has seen.
type figures struct {
	w              *world
	read           func() string // the metrics of its first daemon
	began          time.Time
	notes          []string
	crowds, speeds []string
}

// Much at once, through one mount: it works, costs no more for being much, and
// nothing of it is left. Sizes and states are asserted, times are only told.
func TestScale(t *testing.T) {
	// With the race detector each program else sleeps for a second at its end.
	t.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	f := &figures{began: time.Now(), w: newWorld(t)}
	_, f.read = f.w.alpha.measured()
	load := docs.Load()
	crowds := []crowd{
		{what: "files that one program has open for reading", step: "read", most: 100_000, descriptors: 1, prepare: filesOf},
		{what: "files that one program has open for writing, in 10 directories", step: "write", most: 100_000, descriptors: 1, holds: func(n int) int { return min(n, 10) }, prepare: tenDirectories},
		{what: "directories whose locks one program holds, by a file that is open in each", step: "hold", most: 10_000, descriptors: 3, holds: func(n int) int { return n }, prepare: directoriesOf},
	}
	for _, c := range crowds {
		t.Run(c.step, func(t *testing.T) { f.crowd(t, c) })
	}
	t.Run("known files", func(t *testing.T) { f.known(t, "files", 1_000_000, filesOf) })
	t.Run("known directories", func(t *testing.T) { f.known(t, "directories", 100_000, directoriesOf) })
	t.Run("waiters", func(t *testing.T) { f.waiters(t, "of this host", func(w *world) *host { return w.alpha }) })
	t.Run("waiters for another host", func(t *testing.T) { f.waiters(t, "of another", func(w *world) *host { return w.beta }) })
	t.Run("clients", f.clients)
	for _, c := range crowds {
		t.Run(c.step+" without descriptors", func(t *testing.T) { f.noMoreDescriptors(t, c) })
	}
	f.notes = append(f.notes, fmt.Sprintf("%s, %s, scale %g, %v; the load was %s before and %s after",
		f.began.UTC().Format(time.DateOnly), docs.Machine(), *scale, time.Since(f.began).Round(time.Second), load, docs.Load()))
	text := f.text()
	t.Log("\n" + text)
	if *scaleWrite != "" && !t.Failed() {
		if err := docs.WriteFigures(*scaleWrite, scaleWrites, text); err != nil {
			t.Error(err)
		}
	}
}

func (f *figures) text() string {
	table := func(head string, rows []string) string {
		return "\n" + head + "\n|---" + strings.Repeat("|--:", strings.Count(head, "|")-2) + "|\n" + strings.Join(rows, "\n") + "\n"
	}
	return "\n- " + strings.Join(f.notes, "\n- ") + "\n" +
		table("| | how many | memory, each | descriptors, each | memory kept | the last tenth to the first |", f.crowds) +
		table("| programs at once | files made, written and removed a second, to those of one |", f.speeds)
}

// sized is how many there are at this scale of what is n at scale 1.
func sized(n, least int) int { return max(int(float64(n)**scale), least) }

// crowd is a number of things that a program does, one after the other, and then
// keeps.
type crowd struct {
	what, step  string
	most        int                           // at scale 1
	descriptors int                           // of the daemon, each
	holds       func(n int) int               // how many locks are held then
	prepare     func(*testing.T, string, int) // makes in the tree what it is done with
}

// crowd has a program do what c is, weighs the daemon meanwhile and afterwards,
// and notes what it saw.
func (f *figures) crowd(t *testing.T, c crowd) {
	n := sized(c.most, 50)
	if fits := (mayOpen(t, n*c.descriptors+scaleSpare) - scaleSpare) / c.descriptors; fits < n {
		f.notes = append(f.notes, fmt.Sprintf("%s: %d and not %d, since this machine gives a process no more than %d descriptors", c.what, fits, n, mayOpen(t, 0)))
		n = fits
	}
	w, read := f.fresh(t, n)
	w.dir(c.step)
	c.prepare(t, w.back(c.step), n)
	before := weigh(t, read)
	j := w.crowds(c.step, w.in(c.step), n)
	done, no, flat := w.crowded(j)
	if done != n || no != "ok" {
		t.Fatalf("%d of %d, and then %s", done, n, no)
	}
	full := weigh(t, read)
	if had := full.descriptors - before.descriptors; had < n*c.descriptors || had > n*c.descriptors+scaleSpare {
		t.Errorf("%d descriptors for %d", had, n)
	}
	if c.holds != nil {
		if held := total(t, read(), "lockfs_holds"); held != c.holds(n) {
			t.Errorf("%d locks are held, want %d", held, c.holds(n))
		}
	}
	w.disperses(j)
	kept := w.relieved(read, n, before, full)
	f.crowds = append(f.crowds, fmt.Sprintf("| %s | %d | %s | %.1f | %s | %s |", c.what, n, each(full.memory-before.memory, n),
		float64(full.descriptors-before.descriptors)/float64(n), mebibytes(kept.memory-before.memory), flat))
}

// known has a program look at each of many files or directories.
func (f *figures) known(t *testing.T, what string, most int, prepare func(*testing.T, string, int)) {
	dirs := sized(most/crowdFiles, 2)
	n := dirs * crowdFiles
	w, read := f.fresh(t, n)
	dir := "known." + what
	w.dir(dir)
	prepare(t, w.back(dir), n)
	before, inodes := weigh(t, read), fuseInodes(t)
	j := w.crowds("look", w.in(dir), dirs)
	done, no, flat := w.crowded(j)
	if done != dirs || no != "ok" {
		t.Fatalf("%d of %d directories, and then %s", done, dirs, no)
	}
	full := weigh(t, read)
	t.Logf("the kernel knew %d inodes more", fuseInodes(t)-inodes)
	w.disperses(j)
	kept := w.relieved(read, n, before, full)
	f.crowds = append(f.crowds, fmt.Sprintf("| %s that the kernel knows, %d in a directory | %d | %s | %.1f | %s | %s |", what, crowdFiles, n,
		each(full.memory-before.memory, n), float64(full.descriptors-before.descriptors)/float64(n), mebibytes(kept.memory-before.memory), flat))
}

// waiters has many jobs on alpha wait for a lock that a job on the other host, or
// alpha itself, holds.
func (f *figures) waiters(t *testing.T, whose string, holder func(*world) *host) {
	n := sized(1000, 20)
	w, read := f.fresh(t, 5*n)
	h := holder(w).hold()
	w.write("known", "")
	before := weigh(t, read)
	// Every second opens a file that is there, and so waits in another way than who
	// makes one (package gate).
	j := w.alpha.sh(fmt.Sprintf(`for i in $(seq %d); do
	case $i in *[02468]) f=known ;; *) f=made.$i ;; esac
	setsid -w sh -c "exec 3>>$f && echo $i >>told && exec 3>&-" </dev/null >/dev/null 2>&1 &
done
wait; echo all; sort -n told | uniq | wc -l; ls made.* | wc -l; rm known told made.*`, n))
	w.until("that all wait", func() bool { return total(t, read(), "lockfs_waiters") == n })
	full := weigh(t, read)
	if got := len(w.alpha.status().Waiters); got != n {
		t.Errorf("%d waiters are shown, want %d", got, n)
	}
	w.tell(h)
	w.expect(h, "closed")
	w.tell(h)
	w.done(h)
	w.expect(j, "all")
	w.expect(j, strconv.Itoa(n))
	w.expect(j, strconv.Itoa((n+1)/2))
	w.done(j)
	w.until("that none waits", func() bool { return total(t, read(), "lockfs_waiters") == 0 })
	kept := w.relieved(read, n, before, full)
	f.crowds = append(f.crowds, fmt.Sprintf("| jobs that wait for one lock, whose holder is %s | %d | %s | %.1f | %s | |", whose, n, each(full.memory-before.memory, n),
		float64(full.descriptors-before.descriptors)/float64(n), mebibytes(kept.memory-before.memory)))
}

// clients has several programs work at once, each in a directory of its own.
func (f *figures) clients(t *testing.T) {
	all := sized(12_800, 32)
	w, read := f.fresh(t, all)
	w.dir("files")
	var one float64
	for _, clients := range []int{1, 4, 16, 64} {
		if clients > all/8 {
			break // none would do enough to be at work with the others
		}
		var jobs []*played.Job
		for i := range clients {
			dir := fmt.Sprintf("files/%d.%d", clients, i)
			w.dir(dir)
			jobs = append(jobs, w.alpha.client("crowd", "files", w.in(dir), strconv.Itoa(all/clients)))
		}
		for _, j := range jobs {
			w.expect(j, "ready")
		}
		began := time.Now()
		for _, j := range jobs {
			w.tell(j)
		}
		for _, j := range jobs {
			if done, no, _ := w.crowded(j); done != all/clients || no != "ok" {
				t.Fatalf("%d of %d files, and then %s", done, all/clients, no)
			}
		}
		speed := float64(all/clients*clients) / time.Since(began).Seconds()
		one = cmp.Or(one, speed)
		f.speeds = append(f.speeds, fmt.Sprintf("| %d | %.2f |", clients, speed/one))
		for _, j := range jobs {
			w.disperses(j)
		}
	}
	w.until("that no lock is held", func() bool { return total(t, read(), "lockfs_holds") == 0 })
	w.nothingLeft()
}

// A daemon that has as many descriptors as it may have says so to who opens one file
// more, does all else as ever, and opens files again when some are closed.
func (f *figures) noMoreDescriptors(t *testing.T, c crowd) {
	w := f.w.sub(t)
	const may, n = 200, 400
	w.alpha.mountFew(may)
	dir := "few." + c.step
	w.dir(dir)
	c.prepare(t, w.back(dir), n)
	j := w.crowds(c.step, w.in(dir), n)
	done, no, _ := w.crowded(j)
	if done < may/8 || done > may || no != "EMFILE" {
		t.Errorf("%d of %d, and then %s", done, n, no)
	}
	t.Logf("%d with %d descriptors", done, may)
	w.done(w.alpha.sh("stat . >/dev/null && mkdir new && rmdir new"))
	w.disperses(j)
	w.done(w.alpha.sh("echo x >f && cat f && rm f"))
	w.nothingLeft()
}

// fresh returns the world for a test that does n things, and what reads the figures
// of alpha's daemon. If there is much to be done it is a new one, which has served a
// while.
func (f *figures) fresh(t *testing.T, n int) (w *world, read func() string) {
	t.Helper()
	w = f.w.sub(t)
	w.bound += time.Duration(n) * 50 * time.Millisecond
	if *scale < 0.1 { // what the daemon weighs says little then
		return w, f.read
	}
	_, read = w.alpha.measured()
	w.warm(sized(10_000, 0))
	return w, read
}

// sub is the world for a part of its test, which may mount anew.
func (w *world) sub(t *testing.T) *world {
	sub := *w
	sub.t = t
	for _, h := range []**host{&sub.alpha, &sub.beta} {
		whole, part := *h, **h
		part.w, *h = &sub, &part
		t.Cleanup(func() { whole.daemon = part.daemon })
	}
	return &sub
}

// dir makes a directory of D in the tree.
func (w *world) dir(name string) {
	w.t.Helper()
	if err := os.Mkdir(w.back(name), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

// mayOpen raises the limit of descriptors that programs get which this process
// starts to so many, if it may, and returns what it is.
func mayOpen(t *testing.T, wanted int) int {
	t.Helper()
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	l.Cur = max(l.Max, uint64(wanted))
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: l.Cur, Max: l.Cur}); err != nil {
		return int(l.Max) // not allowed
	}
	return int(l.Cur)
}

// weight is what a daemon has.
type weight struct{ memory, descriptors int }

func weigh(t *testing.T, read func() string) weight {
	t.Helper()
	text := read()
	return weight{total(t, text, "process_resident_memory_bytes"), total(t, text, "process_open_fds")}
}

// relieved has the kernel forget all that it knows of the mount, waits until the
// daemon, which weighed so much before a crowd of n and with it, has nothing of it
// any more, and returns what it weighs then.
func (w *world) relieved(read func() string, n int, before, full weight) (is weight) {
	w.t.Helper()
	if most := before.memory + n*scaleEach + scaleKept; full.memory > most {
		w.t.Errorf("the daemon has %s, at the most %s is expected", mebibytes(full.memory), mebibytes(most))
	}
	w.until("that no lock is held", func() bool { return total(w.t, read(), "lockfs_holds") == 0 })
	w.forget()
	defer func() {
		if w.t.Failed() {
			w.t.Logf("before %+v, then %+v, now %+v", before, full, is)
		}
	}()
	w.until("the descriptors and the memory of before", func() bool {
		is = weigh(w.t, read)
		return is.descriptors <= before.descriptors+soakDescriptors && is.memory <= before.memory+scaleKept
	})
	return is
}

func each(bytes, n int) string { return fmt.Sprintf("%.1f KiB", float64(bytes)/1024/float64(n)) }

func mebibytes(bytes int) string { return fmt.Sprintf("%d MiB", bytes>>20) }

// crowds has a client "crowd" on alpha do its step, and disperses has it close all.
func (w *world) crowds(step, dir string, n int) *played.Job {
	w.t.Helper()
	j := w.alpha.client("crowd", step, dir, strconv.Itoa(n))
	w.expect(j, "ready")
	w.tell(j)
	return j
}

func (w *world) disperses(j *played.Job) {
	w.t.Helper()
	w.tell(j)
	w.expect(j, "closed")
	w.done(j)
}

// crowded reads what a client "crowd" says when it can do no more: how often it
// did it, how the next ended, and what the last tenth took to the first.
func (w *world) crowded(j *played.Job) (done int, no, flat string) {
	w.t.Helper()
	if _, err := fmt.Sscan(w.line(j), &done, &no, &flat); err != nil {
		w.t.Fatal(err)
	}
	return done, no, flat
}

// crowdFiles is how many files or directories there are in each directory of a
// crowd.
const crowdFiles = 100

// member is where the i-th of a crowd is.
func member(d string, i int) string {
	return filepath.Join(d, strconv.Itoa(i/crowdFiles), strconv.Itoa(i%crowdFiles))
}

// members makes n of a crowd in d.
func members(t *testing.T, d string, n int, make func(path string) error) {
	t.Helper()
	for i := range n {
		path := member(d, i)
		err := error(nil)
		if i%crowdFiles == 0 {
			err = os.Mkdir(filepath.Dir(path), 0o755)
		}
		if err = errors.Join(err, make(path)); err != nil {
			t.Fatal(err)
		}
	}
}

func filesOf(t *testing.T, d string, n int) {
	t.Helper()
	members(t, d, n, func(path string) error { return closing(unix.Open(path, unix.O_CREAT|unix.O_WRONLY, 0o644)) })
}

func directoriesOf(t *testing.T, d string, n int) {
	t.Helper()
	members(t, d, n, func(path string) error { return unix.Mkdir(path, 0o755) })
}

func tenDirectories(t *testing.T, d string, _ int) {
	t.Helper()
	for i := range 10 {
		if err := os.Mkdir(filepath.Join(d, strconv.Itoa(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// crowdSteps are what a client does again and again in the directory d, by name;
// the descriptor, if it is not -1, is kept open.
var crowdSteps = map[string]func(d string, i int) (fd int, err error){
	"read": func(d string, i int) (int, error) { return unix.Open(member(d, i), unix.O_RDONLY, 0) },
	"write": func(d string, i int) (int, error) {
		return written(filepath.Join(d, strconv.Itoa(i%10), strconv.Itoa(i)))
	},
	"hold": func(d string, i int) (int, error) { return written(filepath.Join(member(d, i), "f")) },
	"look": func(d string, i int) (int, error) { return -1, look(filepath.Join(d, strconv.Itoa(i))) },
	"files": func(d string, i int) (int, error) {
		name := filepath.Join(d, strconv.Itoa(i))
		return -1, errors.Join(closing(written(name)), unix.Unlink(name))
	},
}

// written makes a file, and writes into it.
func written(name string) (fd int, err error) {
	if fd, err = unix.Open(name, unix.O_CREAT|unix.O_WRONLY, 0o644); err == nil {
		_, err = unix.Write(fd, []byte("x"))
	}
	return fd, err
}

// look lists the directory and looks at each file in it.
func look(dir string) error {
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, name.Name()), &st); err != nil {
			return err
		}
	}
	if len(names) != crowdFiles {
		return fmt.Errorf("%s has %d files", dir, len(names))
	}
	return nil
}

// clientCrowd says that it is ready, and when it is told to does the step args[0]
// in the directory args[1] args[2] times, or until it fails. It says how that went
// (crowded), and when it is told to closes all.
func clientCrowd(args []string) error {
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	if err := wait(in); err != nil {
		return err
	}
	var fds []int
	var took []time.Duration
	var failed error
	for i := 0; i < n && failed == nil; i++ {
		began := time.Now()
		fd, err := crowdSteps[args[0]](args[1], i)
		if failed = err; err != nil {
			break
		}
		took = append(took, time.Since(began))
		if fd >= 0 {
			fds = append(fds, fd)
		}
	}
	fmt.Println(len(took), errnoName(failed), flatness(took))
	if err := wait(in); err != nil {
		return err
	}
	for _, fd := range fds {
		if err := unix.Close(fd); err != nil {
			return err
		}
	}
	fmt.Println("closed")
	return nil
}

// flatness is what the last tenth of all took to what the first did, by their
// medians.
func flatness(took []time.Duration) string {
	tenth := len(took) / 10
	if tenth == 0 {
		return "-"
	}
	median := func(of []time.Duration) float64 { return float64(slices.Sorted(slices.Values(of))[len(of)/2]) }
	return fmt.Sprintf("%.2f", median(took[len(took)-tenth:])/median(took[:tenth]))
}
