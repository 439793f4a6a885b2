package procid

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// fakeProc writes the files, whose names begin below /proc.
func fakeProc(t *testing.T, kv ...string) procfs {
	t.Helper()
	f := machineFiles()
	for i := 0; i < len(kv); i += 2 {
		f["proc/"+kv[i]] = kv[i+1]
	}
	return procfs(filepath.Join(f.write(t), "proc"))
}

func TestFindThread(t *testing.T) {
	p := fakeProc(t, "200/stat", statText(200, "sh", 'S', 9, 1, 7000), "201/stat", statText(201, "sh", 'Z', 9, 1, 7000), "202/stat", "x")
	if th, err := p.findThread(200); err != nil || th != (Thread{200, 7000}) {
		t.Errorf("%+v, %v", th, err)
	}
	for tid, cause := range map[int]error{0: errNoTID, -1: errNoTID, 201: nil, 202: errStat, 203: fs.ErrNotExist} {
		if th, err := p.findThread(tid); th != (Thread{}) || !errors.Is(err, ErrUnseen) || cause != nil && !errors.Is(err, cause) {
			t.Errorf("%d: %+v, %v; want ErrUnseen, %v", tid, th, err, cause)
		}
	}
}

func TestThreadAlive(t *testing.T) {
	p := fakeProc(t, "200/stat", statText(200, "sh", 'D', 9, 1, 7000), "201/stat", statText(201, "sh", 'Z', 9, 2, 7000), "202/stat", "x")
	for th, want := range map[Thread]bool{
		{200, 7000}: true,
		{200, 7001}: false,
		{201, 7000}: false, // a main thread that has ended
		{202, 7000}: true,  // unparsable: in doubt
		// Not in this /proc, but a process: hidden.
		{os.Getpid(), 7000}: true,
		{1 << 30, 7000}:     false,
	} {
		if got := p.alive(th); got != want {
			t.Errorf("%+v: %v, want %v", th, got, want)
		}
	}
}

func TestHasOpen(t *testing.T) {
	dir := t.TempDir()
	name, other := filepath.Join(dir, "f"), filepath.Join(dir, "g")
	var st unix.Stat_t
	for _, n := range []string{other, name} {
		if err := os.WriteFile(n, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := unix.Stat(n, &st); err != nil {
			t.Fatal(err)
		}
	}
	const old = "pos:\t0\nflags:\t02\nmnt_id:\t23\n"
	p := fakeProc(t,
		"200/fd/0", "-> "+name, "200/fdinfo/0", old, // before Linux 5.14
		"201/fd/0", "-> "+name, "201/fdinfo/0", old+"ino:\t1\n", // fdinfo is believed
		"202/fd/0", "-> "+other, "202/fdinfo/0", old,
		"203/fd/0", "-> "+name, // closed since
		"204/fd/0", "-> "+filepath.Join(dir, "none"), "204/fdinfo/0", old,
		"205/fd/0", "-> "+other, "205/fdinfo/0", old, "205/fd/1", "-> "+name, "205/fdinfo/1", old+"ino:\tx\n",
	)
	for tid, want := range map[int]bool{200: true, 201: false, 202: false, 203: false, 204: false, 205: true, 206: false} {
		if got := p.hasOpen(tid, st.Dev, st.Ino); got != want {
			t.Errorf("%d: %v, want %v", tid, got, want)
		}
	}
	if p.hasOpen(200, st.Dev+1, st.Ino) {
		t.Error("a file of another device")
	}
}
