package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lockfs/lockfs/lock"
)

// The acts of the demo, in their order. alpha's job that writes is s.holder,
// beta's that waits for it s.waiter.

// holding starts a job on alpha that opens a file and keeps it open.
func (s *stage) holding(file string) error {
	s.say("  alpha$ exec 3>>results/%s; echo one >&3     # and keeps it open", file)
	j, err := s.start(s.alpha, "exec 3>>"+file+"; echo one >&3; echo opened; read go; if echo two >&3; then echo wrote; else echo failed; fi 2>/dev/null")
	if err != nil {
		return err
	}
	s.holder = j
	if err := s.says(j, "opened"); err != nil {
		return err
	}
	return s.sees("the lock stands in the tree, and names alpha", func() (bool, error) {
		r, err := s.record()
		return names(r, "alpha"), err
	})
}

func (s *stage) writer() error {
	s.act("A program on alpha writes; it knows nothing of locks.")
	return errors.Join(s.holding("a"), s.list())
}

func (s *stage) waiting() error {
	s.act("A program on beta writes in the same directory, another file.")
	s.say("  beta$ echo hello >results/b")
	j, err := s.start(s.beta, "echo hello >b")
	if err != nil {
		return err
	}
	s.waiter = j
	return s.sees("it waits; its file does not exist yet", func() (bool, error) {
		if ok, err := s.waits(s.beta, j)(); !ok || err != nil {
			return ok, err
		}
		if _, err := s.content("b"); !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("b is there: %w", err)
		}
		return true, nil
	})
}

func (s *stage) reading() error {
	s.act("Programs that only read never wait, not even on beta.")
	s.say("  beta$ ls results; cat results/a")
	j, err := s.start(s.beta, "ls; cat a")
	if err != nil {
		return err
	}
	for _, want := range []string{"a", "one"} {
		if err := s.says(j, want); err != nil {
			return err
		}
	}
	if s.waiter.Over() {
		return errors.New("the writer on beta did not wait until here")
	}
	s.say("  seen: the reader is done, and the writer beside it still waits")
	return nil
}

func (s *stage) handover() error {
	s.act("alpha's program writes its last line and ends.")
	if err := s.holder.Tell(); err != nil {
		return err
	}
	if err := s.says(s.holder, "wrote"); err != nil {
		return err
	}
	if err := s.sees("beta's program gets the lock, writes and ends", s.ends(s.waiter)); err != nil {
		return err
	}
	if err := s.sees("both files are whole", func() (bool, error) {
		a, errA := s.content("a")
		b, errB := s.content("b")
		return a == "one\ntwo\n" && b == "hello\n", errors.Join(errA, errB)
	}); err != nil {
		return err
	}
	if err := s.free(); err != nil {
		return err
	}
	return s.list()
}

// free sees that no lock is left in results.
func (s *stage) free() error {
	return s.sees("no lock is left", func() (bool, error) {
		r, err := s.record()
		return r == "", err
	})
}

func (s *stage) crash() error {
	s.act("alpha's lockfs is killed (kill -9) while a program writes through it.")
	if err := s.holding("c"); err != nil {
		return err
	}
	if err := s.alpha.daemon.Kill(); err != nil {
		return err
	}
	if err := s.holder.Tell(); err != nil {
		return err
	}
	if err := s.says(s.holder, "failed"); err != nil {
		return err
	}
	if c, err := s.content("c"); err != nil || c != "one\n" {
		return fmt.Errorf("c has %q: %w", c, err)
	}
	s.say("  seen: the program's next write fails; nothing of it reached the file")
	return s.leftAlone("echo late >d", "d")
}

// leftAlone starts a writer on beta and sees that it waits for alpha's lock,
// which stays what it is.
func (s *stage) leftAlone(command, file string) error {
	before, err := s.record()
	if err != nil {
		return err
	}
	if !names(before, "alpha") {
		return fmt.Errorf("the lock is %q, not alpha's", before)
	}
	s.say("  beta$ %s", strings.Replace(command, ">", ">results/", 1))
	j, err := s.start(s.beta, command)
	if err != nil {
		return err
	}
	s.waiter = j
	if err := s.sees("beta leaves alpha's lock alone, and waits: it cannot know that alpha's lockfs is dead", s.waits(s.beta, j)); err != nil {
		return err
	}
	st, err := s.status(s.beta)
	if err != nil {
		return err
	}
	after, err := s.record()
	if err != nil {
		return err
	}
	if after != before || st.State != lock.Held || st.Verdict != "foreign" {
		return fmt.Errorf("the lock was %s and is %s; beta says it is %s, by a process that is %s", before, after, st.State, st.Verdict)
	}
	if _, err := s.content(file); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there: %w", file, err)
	}
	return s.list()
}

// freed sees that alpha recovers its lock though nobody asks for it there, that
// beta's waiting program goes on, and that alpha writes again.
func (s *stage) freed(file string) error {
	recovered := ""
	if err := s.sees("alpha recovers its own lock by itself", func() (bool, error) {
		events, err := s.alpha.daemon.Events()
		for _, e := range events {
			if msg, _ := e["msg"].(string); strings.HasPrefix(msg, "recovered the lock") {
				recovered = msg
			}
		}
		return recovered != "", err
	}); err != nil {
		return err
	}
	s.say("  alpha's log: %s", strings.ReplaceAll(recovered, s.tree, "tree"))
	if err := s.sees("beta's program, which has waited all the time, writes and ends", s.ends(s.waiter)); err != nil {
		return err
	}
	s.say("  alpha$ echo back >results/%s", file)
	j, err := s.start(s.alpha, "echo back >"+file)
	if err != nil {
		return err
	}
	if err := s.sees("and alpha's programs write again", s.ends(j)); err != nil {
		return err
	}
	return s.free()
}

func (s *stage) recovery() error {
	s.act("alpha's lockfs is started again.")
	if err := s.mount(s.alpha); err != nil {
		return err
	}
	return s.freed("e")
}

func (s *stage) powerCut() error {
	s.act("alpha loses its power while a program writes.")
	if err := s.holding("f"); err != nil {
		return err
	}
	if err := s.alpha.PowerOff(); err != nil {
		return err
	}
	return s.leftAlone("echo later >g", "g")
}

func (s *stage) comeback() error {
	s.act("alpha boots, and mounts the tree again.")
	if !initialPIDNamespace() {
		return withCode(exitUnfit, errors.New("this is a container: there another boot of the host cannot be told from another container, "+
			"and lockfs in doubt leaves the lock alone; all else was seen to hold"))
	}
	if err := s.alpha.Reboot(); err != nil {
		return err
	}
	if err := s.mount(s.alpha); err != nil {
		return err
	}
	return s.freed("h")
}

// initialPIDNamespace reports whether this process is in none of a container.
// The number is PROC_PID_INIT_INO of linux/proc_ns.h.
func initialPIDNamespace() bool {
	link, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && link == "pid:[4026531836]"
}

func (s *stage) curtain() error {
	s.act("Both unmount.")
	for _, h := range []*demoHost{s.alpha, s.beta} {
		if out, err := h.Command(s.exe, "umount", s.mnt).CombinedOutput(); err != nil {
			return fmt.Errorf("umount on %s: %w: %s", h.Name, err, out)
		}
		if err := s.sees(h.Name+"'s lockfs has ended well", func() (bool, error) {
			select {
			case <-h.daemon.Ended():
				return true, h.daemon.Err()
			default:
				return false, nil
			}
		}); err != nil {
			return err
		}
	}
	var left []string
	err := filepath.WalkDir(s.tree, func(path string, _ fs.DirEntry, err error) error {
		left = append(left, strings.TrimPrefix(path, s.dir+"/"))
		return err
	})
	if err != nil {
		return err
	}
	want := "tree tree/results"
	for _, f := range strings.Split("abcdefgh", "") {
		want += " tree/results/" + f
	}
	if got := strings.Join(left, " "); got != want {
		return fmt.Errorf("left in the tree: %s", got)
	}
	s.say("  seen: the files of the programs are there, and nothing else: %s", strings.TrimPrefix(want, "tree tree/results "))
	return nil
}
