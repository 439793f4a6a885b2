package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// reexport is what file handles tell of a NFS server.
type reexport uint8

const (
	reexportUnseen reexport = iota // no handle, or none of a Linux server's
	reexportNone                   // the file system is the server's own
	reexportFound                  // the server has mounted it from another
)

// The handle that a NFS client makes for a file (name_to_handle_at(2),
// nfs_encode_fh of the kernel's fs/nfs/export.c): the file's number and type,
// and the server's handle with its size before it.
const (
	handleOwn    = 8 + 4 // number and type
	handleServer = handleOwn + 2
)

// readReexport tells from the handle of a file on NFS whether its server has
// mounted the file system from another server. The server's own handle is then
// made like this one, for the same file: number and type stand in it again. Of
// the root of an export it has only the export's number, and tells nothing.
func readReexport(handle []byte) reexport {
	const version, root = 1, 0 // knfsd_fh of the kernel's fs/nfsd/nfsfh.h
	if len(handle) < handleServer+4 {
		return reexportUnseen
	}
	own, server := handle[:handleOwn], handle[handleServer:]
	switch {
	case server[0] != version, server[3] == root:
		return reexportUnseen
	case bytes.Contains(server, own):
		return reexportFound
	}
	return reexportNone
}

// seeReexport asks for the handles of the directory at path, and of a few names
// in it, for path may be the export's root.
func seeReexport(path string) (reexport, error) {
	const most = 8
	dir, err := os.Open(path)
	if err != nil {
		return reexportUnseen, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(most)
	if err != nil && err != io.EOF {
		return reexportUnseen, err
	}
	for _, name := range append([]string{"."}, names...) {
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, filepath.Join(path, name), 0)
		if err != nil {
			continue // removed meanwhile, or NFSv4.0, which makes none
		}
		if seen := readReexport(h.Bytes()); seen != reexportUnseen {
			return seen, nil
		}
	}
	return reexportUnseen, nil
}

// exported says whether the tree's server has its files itself.
func exported(source string) finding {
	const check = "nfs re-export"
	seen, err := seeReexport(source)
	switch {
	case err != nil:
		return warning(check, "", "%v", err)
	case seen == reexportFound:
		return warning(check, "mount the origin itself if this host can reach it",
			"the server has mounted it from another server: locks work, but each request takes its way twice, and what hosts of the origin change may be seen late")
	case seen == reexportNone:
		return ok(check, "none: the server has the files itself")
	}
	return ok(check, "whether it is one cannot be seen from here")
}
