package fs

import (
	"context"
	"errors"
	"fmt"
	"log"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/fs/gate"
	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// Options are a mount's.
type Options struct {
	// Self is the identity that the locks bear.
	Self *procid.Local
	// Jobs says which callers are one job.
	Jobs procid.JobPolicy
	// Wait is how long an operation waits for a lock (then EBUSY);
	// lock.Forever without limit, 0 not at all.
	Wait time.Duration
	// Linger is lock.Config's.
	Linger time.Duration
	// Flags are mount flags: unix.MS_RDONLY, unix.MS_NOEXEC and the like.
	Flags uintptr
	// Unlocked takes no lock at all: for measuring what the locks cost, on a
	// tree that nothing else writes to.
	Unlocked bool
	// FSName is what /proc/mounts shows as the source; the source if empty.
	FSName string
	// Held is told of the locks that are held; nil for nobody.
	Held HeldLog
	// Left are directories, by their paths below the source, in which an earlier
	// process of this host may have left its lock. They are seen to while the
	// mount serves, and reported to Held as released.
	Left []string
	// Events is told of what the locks do, as lock.Config's; nil for nobody.
	Events func(lock.Event)
	// Operations counts the requests; nil if they are not to be counted.
	Operations *Operations
	// Log receives one entry an event.
	Log *logrus.Logger
	// Debug logs every request of the kernel.
	Debug bool
}

// lastResort is how long an operation waits for a lock where it makes readers
// wait with it (package gate).
const lastResort = 10 * time.Second

// Server is a mount that is served.
type Server struct {
	tree   *tree
	fuse   *fuse.Server
	target string
	// ended is closed when the mount has ended and every lock is released.
	ended chan struct{}

	once sync.Once
	err  error // why not all could be released; to be read when ended is closed
	// bound ends with the context of Close, if that has ended the mount.
	bound context.Context
	bind  context.CancelFunc
	// freeing ends when what was left has been seen to, or by stopFreeing.
	freeing     sync.WaitGroup
	stopFreeing context.CancelFunc
}

// Mount mounts the tree source at the directory target and serves it until
// it is unmounted. It returns when the mount serves. A mount by root is for
// all users; one by another user is for that user, and needs fusermount3.
//
// Errors: EINVAL if one of source and target is inside the other (they may be
// the same), else those of the file system and of the mount.
func Mount(source, target string, o Options) (*Server, error) {
	target, err := apart(source, target)
	if err != nil {
		return nil, err
	}
	t, err := newTree(source, target, o)
	if err != nil {
		return nil, err
	}
	s := &Server{tree: t, target: target, ended: make(chan struct{})}
	s.bound, s.bind = context.WithCancel(context.Background())
	var freeing context.Context
	freeing, s.stopFreeing = context.WithCancel(s.bound)
	if err := s.mount(o); err != nil {
		return nil, errors.Join(err, s.end())
	}
	s.freeing.Go(func() { t.freeLeft(freeing, o.Left) })
	go s.serve()
	return s, nil
}

// apart returns where target is without symbolic links, or an error if one
// path leads to a place inside of the other's.
func apart(source, target string) (string, error) {
	var real [2]string
	for i, p := range []string{source, target} {
		p, err := filepath.Abs(p)
		if err != nil {
			return "", err
		}
		if real[i], err = filepath.EvalSymlinks(p); err != nil {
			return "", err
		}
	}
	inside := func(a, b string) bool { return a != b && strings.HasPrefix(a, strings.TrimSuffix(b, "/")+"/") }
	switch {
	case inside(real[0], real[1]):
		return "", fmt.Errorf("the source %s is inside the mountpoint %s: %w", real[0], real[1], unix.EINVAL)
	case inside(real[1], real[0]):
		return "", fmt.Errorf("the mountpoint %s is inside the source %s: %w", real[1], real[0], unix.EINVAL)
	}
	return real[1], nil
}

// tellBoth returns a receiver of events that tells two; the second may be nil.
func tellBoth(a, b func(lock.Event)) func(lock.Event) {
	if b == nil {
		return a
	}
	return func(e lock.Event) { a(e); b(e) }
}

// newTree opens the source, before anything is mounted over it.
func newTree(source, target string, o Options) (*tree, error) {
	t := &tree{
		source: source,
		target: target,
		began:  time.Now(),
		self:   o.Self,
		log:    o.Log,
		held:   o.Held,
		events: tellBoth(gate.Logger(o.Log), o.Events),
		idle:   newIdleDirs(),
		dirs:   map[fusefs.StableAttr]*dirNode{},
		ids:    map[uint64]*dirNode{},
		open:   map[closer]struct{}{},
		wishes: map[lock.Key]*wish{},
	}
	if t.held == nil {
		t.held = noHeldLog{}
	}
	fd, err := unix.Open(source, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", source, err)
	}
	f, err := examine(fd)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("stat %s: %w", source, err)
	}
	t.root = t.directory(f)
	t.idle.remove(t.root) // nothing leads to it
	t.locks = lock.NewManager(lock.Config{Self: o.Self, Linger: o.Linger, Events: t.events})
	t.gate = gate.New(gate.Config{
		Locks: t.locks, Jobs: o.Jobs, Wait: o.Wait, LastResort: lastResort, Mount: target, Log: o.Log,
		Unlocked: o.Unlocked,
	})
	return t, nil
}

// mount mounts the tree and begins to serve it.
func (s *Server) mount(o Options) error {
	name := o.FSName
	if name == "" {
		name = s.tree.source
	}
	logger := log.New(logWriter{o.Log, o.Debug}, "", 0)
	readOnly := o.Flags&unix.MS_RDONLY != 0 && unix.Geteuid() == 0
	var disabled uint64
	if s.tree.through.on = readOnly; !readOnly {
		// A write that passes the daemon by would outlive it.
		disabled = fuse.CAP_PASSTHROUGH
	}
	opts := &fusefs.Options{
		// All timeouts stay unset, which is zero: other hosts change files,
		// and a wait for a lock needs the kernel to ask (package gate). The nodes
		// give attributes a moment (shown).
		NullPermissions: true,
		RootStableAttr:  &s.tree.root.id,
		Logger:          logger,
		MountOptions: fuse.MountOptions{
			Name:             "lockfs",
			FsName:           name,
			Options:          []string{"default_permissions"},
			MaxWrite:         1 << 20,
			DirectMountFlags: o.Flags,
			// What is asked for with an entry is not kept, so asking for more
			// than the names is work for nothing.
			DisableReadDirPlus:   true,
			DisabledCapabilities: disabled,
			// What is read is in memory. go-fuse would fill a pipe with each
			// reply's header for nothing, and warn that it can't at the largest.
			DisableSplice: true,
			// The umask is the server's to apply: a default ACL overrides it. So
			// is the clearing of set-id bits by a write: the kernel's own way, a
			// chmod by who writes, fails if he isn't the owner, and asks for
			// security.capability before each write.
			ExtraCapabilities: fuse.CAP_DONT_MASK | fuse.CAP_HANDLE_KILLPRIV_V2,
			Logger:            logger,
			Debug:             o.Debug,
		},
	}
	if o.Flags == 0 {
		opts.DirectMountFlags = unix.MS_MGC_VAL // go-fuse's word for none
	}
	if unix.Geteuid() == 0 {
		opts.AllowOther, opts.DirectMountStrict = true, true
	} else {
		opts.Options = append(opts.Options, flagWords(o.Flags)...)
	}
	var requests fuse.RawFileSystem = &raw{fusefs.NewNodeFS(s.tree.root, opts), s.tree}
	if o.Operations != nil {
		requests = &counted{requests, o.Operations}
	}
	server, err := fuse.NewServer(requests, s.target, &opts.MountOptions)
	if err != nil {
		return err
	}
	s.fuse, s.tree.server = server, server
	go server.Serve()
	if err := server.WaitMount(); err != nil {
		return errors.Join(err, s.detach())
	}
	s.tree.dev, err = deviceAt(s.target)
	if err != nil {
		return errors.Join(err, s.detach())
	}
	if err := setReadAhead(s.tree.dev); err != nil {
		s.tree.log.WithError(err).Debug("reading ahead stays as the kernel has it")
	}
	return nil
}

// logWriter writes go-fuse's lines to the log: each is something that it has
// stumbled over, unless it is to tell of everything.
type logWriter struct {
	log   *logrus.Logger
	debug bool
}

func (w logWriter) Write(line []byte) (int, error) {
	level := logrus.WarnLevel
	if w.debug {
		level = logrus.DebugLevel
	}
	w.log.WithField("library", "go-fuse").Log(level, strings.TrimSpace(string(line)))
	return len(line), nil
}

// flagWords are mount flags as fusermount3 takes them, or refuses them. It sets
// nosuid and nodev by itself, and relatime is the kernel's default.
func flagWords(flags uintptr) []string {
	var words []string
	for _, w := range []struct {
		flag uintptr
		word string
	}{
		{unix.MS_RDONLY, "ro"}, {unix.MS_NOEXEC, "noexec"}, {unix.MS_SYNCHRONOUS, "sync"}, {unix.MS_DIRSYNC, "dirsync"},
		{unix.MS_NOATIME, "noatime"}, {unix.MS_NODIRATIME, "nodiratime"}, {unix.MS_STRICTATIME, "strictatime"},
		{unix.MS_LAZYTIME, "lazytime"}, {unix.MS_NOSYMFOLLOW, "nosymfollow"},
	} {
		if flags&w.flag != 0 {
			words = append(words, w.word)
		}
	}
	return words
}

// serve waits for the end of the mount, and then ends what was for it.
func (s *Server) serve() {
	s.fuse.Wait()
	if err := s.end(); err != nil {
		s.tree.log.WithError(err).WithField("mount", s.target).Error("not every lock could be released")
	}
}

// end ends the waits, closes what is open, and releases every lock.
func (s *Server) end() error {
	s.once.Do(func() {
		defer close(s.ended)
		s.tree.gate.Close()
		s.stopFreeing()
		freed := make(chan struct{})
		go func() { s.freeing.Wait(); close(freed) }()
		for _, ended := range []<-chan struct{}{s.tree.closeAll(), freed} {
			select {
			case <-ended:
			case <-s.bound.Done():
			}
		}
		s.err = s.tree.locks.Close(s.bound)
		s.tree.closeDirs()
	})
	<-s.ended
	return s.err
}

// Wait returns when the file system is unmounted, all requests have been
// answered and every lock has been released.
func (s *Server) Wait() { <-s.ended }

// Locks are all that the mount holds or waits for. No file server is asked.
func (s *Server) Locks() []lock.LocalStatus { return s.tree.locks.Status() }

// Counts returns how many directories' locks the mount holds, and how many
// operations wait for one.
func (s *Server) Counts() (held, waiting int) {
	for _, l := range s.tree.locks.Status() {
		if l.Holder != nil {
			held++
		}
		waiting += len(l.Waiters)
	}
	return held, waiting
}

// Unmount unmounts the file system; EBUSY while it is in use.
func (s *Server) Unmount() error { return s.fuse.Unmount() }

// Close ends the mount though it is in use: it is detached from the tree, new
// requests fail, what was written is flushed, and every lock is released. It
// returns when that is done, or with ctx's error.
func (s *Server) Close(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.bind)
	defer stop()
	// Stores that can't be flushed are no reason to keep the locks.
	if err := s.flushMappings(ctx); err != nil {
		s.tree.log.WithError(err).WithField("mount", s.target).Error("what is stored in mappings of files may be lost")
	}
	err := s.detach()
	if errors.Is(err, syscall.EINVAL) {
		err = nil // it was unmounted already
	}
	return errors.Join(err, s.end(), ctx.Err())
}
