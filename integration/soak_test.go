package integration

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/internal/played"
)

var soakOps = flag.Int("soak.ops", 20_000, "how many operations (system calls) go through one mount")

// What a daemon may have more of after so many operations than after a tenth of
// them, which have warmed it up. A leak of a byte and a half for each of a
// million operations would be seen, and one of a descriptor, a goroutine or an
// inode for each hundred of 20,000.
const (
	soakDescriptors = 16
	soakGoroutines  = 16
	soakMemory      = 48 << 20
	soakInodes      = 1000
	soakJobs        = 4
)

// Many operations of all kinds, by several jobs, leave nothing in the daemon and
// in the kernel.
func TestManyOperations(t *testing.T) {
	w := newWorld(t)
	_, read := w.alpha.measured()
	fusectl := filepath.Join(filepath.Dir(w.tree), "fusectl")
	w.shellOK(`mkdir "$0" && mount -t fusectl none "$0"`, fusectl)
	w.warm(*soakOps / 10)
	before, inodes := read(), fuseInodes(t)
	began := time.Now()
	w.mix(*soakOps)
	elapsed := time.Since(began)
	w.forget()

	for name, most := range map[string]int{"process_open_fds": soakDescriptors, "go_goroutines": soakGoroutines, "process_resident_memory_bytes": soakMemory, "lockfs_holds": 0, "lockfs_waiters": 0} {
		was, is := total(t, before, name), 0
		w.until(fmt.Sprintf("%s of %d and %d more at the most", name, was, most), func() bool {
			is = total(t, read(), name)
			return is <= was+most
		})
		t.Logf("%s: %d, then %d", name, was, is)
	}
	w.until("the kernel's inodes", func() bool { return fuseInodes(t) <= inodes+soakInodes })
	t.Logf("inodes: %d, then %d", inodes, fuseInodes(t))
	w.until("nothing that is waited for", func() bool {
		return w.shellOK(`cat "$0/$(mountpoint -d "$1" | cut -d: -f2)/waiting"`, fusectl, w.mnt) == "0\n"
	})
	names, err := os.ReadDir(w.back("mix/S"))
	if err != nil || len(names) != 0 {
		t.Errorf("left behind: %v %v", names, err)
	}
	t.Logf("%d operations and %d requests in %v", *soakOps, total(t, read(), "lockfs_operations_total")-total(t, before, "lockfs_operations_total"), elapsed.Round(time.Second))
}

// warm makes the directories for mix, unless they are there, and has alpha's daemon
// do n operations, so that it has what it needs anyway.
func (w *world) warm(n int) {
	w.t.Helper()
	w.shellOK(`cd "$0" && mkdir -p mix/S mix/0 mix/1 mix/2 mix/3`, w.back())
	w.mix(n)
	w.forget()
}

// mix has jobs on alpha do n operations, and waits for them.
func (w *world) mix(n int) {
	w.t.Helper()
	var jobs []*played.Job
	for i := range soakJobs {
		jobs = append(jobs, w.alpha.client("mix", w.in("mix"), strconv.Itoa(i), strconv.Itoa(n/soakJobs)))
	}
	ctx, cancel := context.WithTimeout(w.ctx, bound+time.Duration(n)*5*time.Millisecond)
	defer cancel()
	for _, j := range jobs {
		if err := j.Wait(ctx); err != nil {
			w.t.Fatal(err)
		}
	}
}

// forget has the kernel drop all that it keeps of the mount.
func (w *world) forget() {
	w.t.Helper()
	w.nothingLeft()
	w.shellOK(`mount -i -o remount,nosuid,nodev "$0"`, w.mnt)
}

// shellOK runs a shell's script on alpha, which must succeed, and returns what it
// said.
func (w *world) shellOK(script string, args ...string) string {
	w.t.Helper()
	cmd := w.alpha.Command("sh", append([]string{"-c", script}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

// fuseInodes returns how many inodes of FUSE file systems the kernel has.
func fuseInodes(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/slabinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); f[0] == "fuse_inode" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Skip("the kernel does not tell how many inodes of FUSE it has")
	return 0
}

// mixer is a job that does all kinds of operations at random, and knows what
// must be there.
type mixer struct {
	rnd   *rand.Rand
	dirs  []string
	id    string
	n     int // names made
	calls int // system calls made
	files map[string][]byte
	names []string // of files
}

// mixerFiles is how many files a mixer has at the most.
const mixerFiles = 300

// clientMix does args[2] operations in the directories args[1] and S of args[0],
// the second of which is others' too, and removes what it has made.
func clientMix(args []string) error {
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	m := &mixer{
		rnd:   rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)),
		dirs:  []string{filepath.Join(args[0], args[1]), filepath.Join(args[0], args[1], "sub")},
		id:    args[1],
		files: map[string][]byte{},
	}
	if err := os.Mkdir(m.dirs[1], 0o755); err != nil {
		return err
	}
	shared := filepath.Join(args[0], "S")
	for i := 0; m.calls < n; i++ {
		m.dirs = m.dirs[:2]
		if i%50 == 0 { // rarely, since there each waits for the others
			m.dirs = append(m.dirs, shared)
		}
		if err := m.step(); err != nil {
			return fmt.Errorf("after %d calls: %w", m.calls, err)
		}
	}
	for _, name := range m.names {
		if err := m.same(name); err != nil {
			return err
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return os.Remove(m.dirs[1])
}

// step does one thing, of one system call or a few.
func (m *mixer) step() error {
	if len(m.names) == 0 || m.rnd.IntN(10) == 0 && len(m.names) < mixerFiles {
		return m.create()
	}
	name := m.names[m.rnd.IntN(len(m.names))]
	switch m.rnd.IntN(16) {
	case 0:
		return m.remove(name)
	case 1:
		return m.rename(name)
	case 2, 3:
		return m.write(name)
	case 4:
		return m.resize(name)
	case 5, 6:
		return m.same(name)
	case 7:
		return m.link(name)
	case 8:
		return m.attribute(name)
	case 9:
		return m.flock(name)
	case 10:
		return m.directory()
	case 11:
		return m.symlink()
	case 12:
		return m.list()
	case 13:
		m.calls++
		return os.Chmod(name, 0o600|os.FileMode(m.rnd.IntN(64)))
	default:
		return m.stat(name)
	}
}

// fresh returns a name that is not there.
func (m *mixer) fresh() string {
	m.n++
	return filepath.Join(m.dirs[m.rnd.IntN(len(m.dirs))], fmt.Sprintf("m%s.%d", m.id, m.n))
}

// data returns some bytes, few as a rule.
func (m *mixer) data() []byte {
	b := make([]byte, 1+m.rnd.IntN(4096))
	if m.rnd.IntN(100) == 0 {
		b = make([]byte, 1<<17)
	}
	for i := range b {
		b[i] = byte(m.rnd.Uint32())
	}
	return b
}

func (m *mixer) create() error {
	m.calls += 3
	name, data := m.fresh(), m.data()
	m.names = append(m.names, name)
	m.files[name] = data
	return os.WriteFile(name, data, 0o644)
}

func (m *mixer) forgotten(name string) {
	delete(m.files, name)
	for i, n := range m.names {
		if n == name {
			m.names[i] = m.names[len(m.names)-1]
			m.names = m.names[:len(m.names)-1]
			return
		}
	}
}

func (m *mixer) remove(name string) error {
	m.calls += 1
	m.forgotten(name)
	return os.Remove(name)
}

// rename gives the file a new name, or that of another, in any directory.
func (m *mixer) rename(name string) error {
	m.calls += 1
	to := m.fresh()
	if other := m.names[m.rnd.IntN(len(m.names))]; m.rnd.IntN(4) == 0 && other != name {
		to = other
		m.forgotten(to)
	}
	data := m.files[name]
	m.forgotten(name)
	m.names = append(m.names, to)
	m.files[to] = data
	return os.Rename(name, to)
}

// write appends, or overwrites somewhere.
func (m *mixer) write(name string) error {
	m.calls += 3
	data, was := m.data(), m.files[name]
	if len(was) > 1<<18 {
		return m.resize(name)
	}
	flags, at := os.O_WRONLY, m.rnd.IntN(len(was)+1)
	if m.rnd.IntN(2) == 0 {
		flags, at = flags|os.O_APPEND, len(was)
	}
	f, err := os.OpenFile(name, flags, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if flags&os.O_APPEND != 0 {
		_, err = f.Write(data)
	} else {
		_, err = f.WriteAt(data, int64(at))
	}
	if err != nil {
		return err
	}
	is := append(append([]byte{}, was[:at]...), data...)
	if len(is) < len(was) {
		is = append(is, was[len(is):]...)
	}
	m.files[name] = is
	return f.Close()
}

func (m *mixer) resize(name string) error {
	m.calls += 1
	size := m.rnd.IntN(10000)
	is := make([]byte, size)
	copy(is, m.files[name])
	m.files[name] = is
	return os.Truncate(name, int64(size))
}

// same compares what the file has with what it must have.
func (m *mixer) same(name string) error {
	m.calls += 3
	is, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.Equal(is, m.files[name]) {
		return fmt.Errorf("%s has %d bytes that are not the %d that were written", name, len(is), len(m.files[name]))
	}
	return nil
}

func (m *mixer) stat(name string) error {
	m.calls += 1
	st, err := os.Stat(name)
	if err != nil {
		return err
	}
	if want := int64(len(m.files[name])); st.Size() != want {
		return fmt.Errorf("%s has the size %d, want %d", name, st.Size(), want)
	}
	return nil
}

// link gives the file a second name, writes through it, and removes it.
func (m *mixer) link(name string) error {
	m.calls += 6
	second := name + ".link"
	if err := os.Link(name, second); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return err
	}
	if st.Nlink != 2 {
		return fmt.Errorf("%s has %d names", name, st.Nlink)
	}
	data := m.data()
	if err := os.WriteFile(second, data, 0o644); err != nil {
		return err
	}
	m.files[name] = data
	return os.Remove(second)
}

func (m *mixer) attribute(name string) error {
	m.calls += 3
	value, got := []byte("value"), make([]byte, 100)
	if err := unix.Setxattr(name, "user.mix", value, 0); err != nil {
		return err
	}
	n, err := unix.Getxattr(name, "user.mix", got)
	if err != nil {
		return err
	}
	if !bytes.Equal(got[:n], value) {
		return fmt.Errorf("%s has the attribute %q", name, got[:n])
	}
	return unix.Removexattr(name, "user.mix")
}

// flock locks the file, and is refused a second lock.
func (m *mixer) flock(name string) error {
	m.calls += 7
	var f [2]*os.File
	for i := range f {
		var err error
		if f[i], err = os.Open(name); err != nil {
			return err
		}
		defer f[i].Close()
	}
	if err := unix.Flock(int(f[0].Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	if err := unix.Flock(int(f[1].Fd()), unix.LOCK_SH|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		return fmt.Errorf("a second lock of %s: %v", name, err)
	}
	return unix.Flock(int(f[0].Fd()), unix.LOCK_UN)
}

// directory makes a directory with a file in it, renames it, and removes both.
func (m *mixer) directory() error {
	m.calls += 7
	name, to := m.fresh(), m.fresh()
	if err := os.Mkdir(name, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(name, "f"), m.data(), 0o644); err != nil {
		return err
	}
	if err := os.Rename(name, to); err != nil {
		return err
	}
	return os.RemoveAll(to)
}

func (m *mixer) symlink() error {
	m.calls += 3
	name := m.fresh()
	if err := os.Symlink(m.id, name); err != nil {
		return err
	}
	if to, err := os.Readlink(name); err != nil || to != m.id {
		return fmt.Errorf("%s leads to %q, %v", name, to, err)
	}
	return os.Remove(name)
}

// list compares the names in its second directory with those it must have.
func (m *mixer) list() error {
	m.calls += 3
	names, err := os.ReadDir(m.dirs[1])
	if err != nil {
		return err
	}
	want := 0
	for _, name := range m.names {
		if filepath.Dir(name) == m.dirs[1] {
			want++
		}
	}
	if len(names) != want {
		return fmt.Errorf("%s has %d names, want %d", m.dirs[1], len(names), want)
	}
	return nil
}
