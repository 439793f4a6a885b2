package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// call makes system calls one after another, separated by "," arguments, and
// answers each: "ok" and what there is to tell, or the error's name. It must be
// called on a goroutine of its own.
//
//	mkdir P, rmdir P, unlink P, symlink TARGET P, rename A B, noreplace A B
//	lstat P      kind and size, perhaps from the client's cache
//	list P       opendir and readdir: the names, sorted
//	create P     open O_CREAT|O_EXCL|O_WRONLY
//	write P T    open O_CREAT|O_WRONLY|O_TRUNC, write, close
//	read P       open and read, the text quoted
//	as UID       what follows is done with this fsuid and fsgid
func call(args []string) []string {
	runtime.LockOSThread() // "as" is of the thread, which ends with the goroutine
	var answers []string
	for _, op := range split(args) {
		told, err := do(op)
		if err != nil {
			told = errno(err)
		} else {
			told = strings.TrimSpace("ok " + told)
		}
		answers = append(answers, told)
	}
	return answers
}

// serveCall is call for the lab: a new program each time would take most of a
// test's time in emulation.
func serveCall(w http.ResponseWriter, r *http.Request) {
	var args []string
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answers := make(chan []string)
	go func() { answers <- call(args) }()
	// An answer that nobody waits for may fail.
	json.NewEncoder(w).Encode(<-answers)
}

func split(args []string) [][]string {
	var ops [][]string
	for {
		i := slices.Index(args, ",")
		if i < 0 {
			return append(ops, args)
		}
		ops, args = append(ops, args[:i]), args[i+1:]
	}
}

// errno returns the name of an error of the system, or the error's text.
func errno(err error) string {
	var e unix.Errno
	if errors.As(err, &e) {
		if name := unix.ErrnoName(e); name != "" {
			return name
		}
		return fmt.Sprintf("errno %d", int(e))
	}
	return err.Error()
}

func do(op []string) (string, error) {
	if len(op) < 2 {
		return "", fmt.Errorf("no operation: %q", op)
	}
	p := op[1]
	switch len(op) {
	case 2:
		switch op[0] {
		case "mkdir":
			return "", unix.Mkdir(p, 0o777)
		case "rmdir":
			return "", unix.Rmdir(p)
		case "unlink":
			return "", unix.Unlink(p)
		case "lstat":
			fi, err := os.Lstat(p)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%v %d", fi.Mode(), fi.Size()), nil
		case "list":
			return list(p)
		case "create":
			fd, err := unix.Open(p, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o666)
			if err != nil {
				return "", err
			}
			return "", unix.Close(fd)
		case "read":
			text, err := os.ReadFile(p)
			return strconv.Quote(string(text)), err
		case "as":
			return "", as(p)
		}
	case 3:
		switch op[0] {
		case "rename": // os.Rename looks first, and refuses directories
			return "", unix.Rename(p, op[2])
		case "noreplace":
			return "", unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, op[2], unix.RENAME_NOREPLACE)
		case "symlink":
			return "", unix.Symlink(p, op[2])
		case "write":
			return "", os.WriteFile(p, []byte(op[2]), 0o666)
		}
	}
	return "", fmt.Errorf("no operation: %q", op)
}

func list(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " "), nil
}

// as changes the thread's fsuid and fsgid. The calls tell no errors: what they
// did is asked.
func as(uid string) error {
	n, err := strconv.Atoi(uid)
	if err != nil {
		return err
	}
	for _, set := range []func(int) (int, error){unix.SetfsgidRetGid, unix.SetfsuidRetUid} {
		set(n)
		if got, _ := set(-1); got != n {
			return fmt.Errorf("is %d, not %d", got, n)
		}
	}
	return nil
}
