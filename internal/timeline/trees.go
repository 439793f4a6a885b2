package timeline

import (
	"cmp"
	"path"
	"strings"
)

// trees tells which mounts are of one tree. One export can be mounted under
// another path on each host: where a host waited for a lock that another one
// says is his own, both directories are one.
type trees struct {
	// sources are what the mounts of each host are of.
	sources map[mountpoint]string
	// same leads from a tree to one that it was found to be the same as.
	same map[tree]tree
}

type mountpoint struct{ host, point string }

// tree is a tree on a host: two hosts may mean two trees by one path, but as
// long as nothing says otherwise they mean one.
type tree string

func newTrees(entries []Entry) trees {
	t := trees{sources: map[mountpoint]string{}, same: map[tree]tree{}}
	for _, e := range entries {
		if e.Fields["msg"] == mounted {
			t.sources[mountpoint{e.Host, e.Fields["mount"]}] = e.Fields["source"]
		}
	}
	taken := map[string]Entry{}
	for _, e := range entries {
		if r := e.Fields["record"]; r != "" {
			taken[r] = e
		}
	}
	for _, e := range entries {
		if other, ok := taken[e.Fields["holder_record"]]; ok {
			t.unite(e, other)
		}
	}
	return t
}

// unite notes that two entries are of one directory.
func (t trees) unite(a, b Entry) {
	treeA, pathA := t.place(a)
	treeB, pathB := t.place(b)
	if treeA != treeB && pathA == pathB {
		t.same[tree(max(treeA, treeB))] = tree(min(treeA, treeB))
	}
}

// place returns the tree of an entry's directory, and its path therein. What
// a mount is of is known if the log begins with it.
func (t trees) place(e Entry) (source, dir string) {
	dir = path.Clean(e.Fields["dir"])
	source = t.sources[mountpoint{e.Host, e.Fields["mount"]}]
	if source == "" {
		return "", dir
	}
	rest, inside := strings.CutPrefix(dir, strings.TrimSuffix(source, "/"))
	if !inside || rest != "" && rest[0] != '/' {
		return "", dir
	}
	for t.same[tree(source)] != "" {
		source = string(t.same[tree(source)])
	}
	return source, cmp.Or(strings.TrimPrefix(rest, "/"), ".")
}
