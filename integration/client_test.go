package integration

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// clients are what the test binary does as a client, by name.
var clients = map[string]func(args []string) error{
	"op":        clientOp,
	"mmap":      clientMmap,
	"many":      clientMany,
	"write":     clientWrite,
	"worker":    clientWorker,
	"unfit":     clientUnfit,
	"faulty":    clientFaulty,
	"mix":       clientMix,
	"signals":   clientSignals,
	"crowd":     clientCrowd,
	"posix":     clientPosix,
	"posixtest": clientPosixtest,
	"setxattr":  func(args []string) error { return unix.Setxattr(args[0], args[1], []byte("x"), 0) },
}

func runClient(args []string) int {
	f := clients[args[0]]
	if f == nil {
		fmt.Fprintf(os.Stderr, "no client %q\n", args[0])
		return 64
	}
	if err := f(args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// wait reads a line of the input.
func wait(in *bufio.Reader) error {
	_, err := in.ReadString('\n')
	return err
}

// ops are the single system calls that alter the directory D, whose path is
// given; "cwd" ones have D as their working directory. Each finds what it
// needs: the files old and gone, and the directories sub and E beside D.
var ops = map[string]func(d string) error{
	"create": func(d string) error { return closing(unix.Open(d+"/new", unix.O_CREAT|unix.O_WRONLY, 0o644)) },
	"excl": func(d string) error {
		return closing(unix.Open(d+"/new", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644))
	},
	"create-cwd": inside(func() error { return closing(unix.Open("new", unix.O_CREAT|unix.O_WRONLY, 0o644)) }),
	"mkdir":      func(d string) error { return unix.Mkdir(d+"/new", 0o755) },
	"mkdir-cwd":  inside(func() error { return unix.Mkdir("new", 0o755) }),
	"unlink":     func(d string) error { return unix.Unlink(d + "/gone") },
	"unlink-cwd": inside(func() error { return unix.Unlink("gone") }),
	"rmdir":      func(d string) error { return unix.Rmdir(d + "/sub") },
	"rename":     func(d string) error { return unix.Rename(d+"/gone", d+"/new") },
	"rename-cwd": inside(func() error { return unix.Rename("gone", "new") }),
	"rename-to":  func(d string) error { return unix.Rename(d+"/../E/x", d+"/new") },
	"symlink":    func(d string) error { return unix.Symlink("old", d+"/new") },
	"link":       func(d string) error { return unix.Link(d+"/old", d+"/new") },
	"mknod":      func(d string) error { return unix.Mknod(d+"/new", unix.S_IFIFO|0o644, 0) },
	"open":       func(d string) error { return closing(unix.Open(d+"/old", unix.O_WRONLY, 0)) },
	"truncate":   func(d string) error { return unix.Truncate(d+"/old", 1) },
	"chmod":      func(d string) error { return unix.Chmod(d+"/old", 0o600) },
}

func inside(op func() error) func(string) error {
	return func(d string) error {
		if err := unix.Chdir(d); err != nil {
			return err
		}
		return op()
	}
}

func closing(fd int, err error) error {
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// clientOp does the operation args[0] in the directory args[1].
func clientOp(args []string) error { return ops[args[0]](args[1]) }

// clientMmap maps the file args[0], says so, and stores into the mapping and
// syncs it when it is told. A fault is a failure.
func clientMmap(args []string) (err error) {
	f, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	m[0] = 'm' // so that the page is there, and dirty
	fmt.Println("mapped")
	if err := wait(bufio.NewReader(os.Stdin)); err != nil {
		return err
	}
	debug.SetPanicOnFault(true)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("fault: %v", p)
		}
	}()
	m[1] = 'X'
	return unix.Msync(m, unix.MS_SYNC)
}

// clientMany opens the file args[0] for writing by args[1] threads at once,
// and says for each when it has it.
func clientMany(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = closing(unix.Open(args[0], unix.O_WRONLY, 0)) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// clientWrite opens the file args[0], says so, and at each line of input does
// the next of the further arguments, write, fsync, close, or dup, which closes a
// duplicate, and says how that went.
func clientWrite(args []string) error {
	fd, err := unix.Open(args[0], unix.O_WRONLY|unix.O_APPEND, 0)
	if err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	fmt.Println("open ok")
	for _, what := range args[1:] {
		if err := wait(in); err != nil {
			return err
		}
		switch what {
		case "write":
			_, err = unix.Write(fd, []byte("more\n"))
		case "fsync":
			err = unix.Fsync(fd)
		case "close":
			err = unix.Close(fd)
		case "dup":
			err = closing(unix.Dup(fd))
		}
		fmt.Println(what, errnoName(err))
	}
	return nil
}

func errnoName(err error) string {
	var no syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &no):
		return unix.ErrnoName(no)
	}
	return err.Error()
}

// clientSignals opens the file args[0] for writing on a thread whose id it
// says first, with a handler for every signal, and then says how that went.
func clientSignals(args []string) error {
	signal.Notify(make(chan os.Signal, 64)) // all of them, delivered or dropped
	runtime.LockOSThread()
	fmt.Println(unix.Gettid())
	// No restart by hand: an EINTR is what is looked for.
	fmt.Println("open", errnoName(closing(unix.Open(args[0], unix.O_WRONLY, 0))))
	return nil
}

// opNames are the names of ops in order.
func opNames() []string {
	var names []string
	for n := range ops {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
