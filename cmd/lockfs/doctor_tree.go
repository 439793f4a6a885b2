package main

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lockfs/lockfs/internal/cred"
	"github.com/lockfs/lockfs/lock"
	"github.com/lockfs/lockfs/procid"
)

// examineTree checks the tree source.
func examineTree(source string) []finding {
	m, err := treeMount(source)
	if err != nil {
		return []finding{fault("source", "name a directory that is there", "%v", err)}
	}
	if m.ours() {
		return []finding{fault("source", "name the tree itself, as lockfs mount was told it", "%s is in a mount of lockfs", source)}
	}
	findings := []finding{fileSystem(*m)}
	if isNFS(m.fsType) {
		findings = append(findings, nfsOptions(m.options)...)
		findings = append(findings, exported(source))
	}
	if slices.Contains(m.options, "ro") {
		findings = append(findings, warning("access", "mount it with rw if jobs are to write", "it is mounted read-only here"))
	}
	findings = append(findings, tryTree(source, true)...)
	return append(findings, examineGuests(source)...)
}

// tryTree tries in the tree what the locks rest on.
func tryTree(source string, thorough bool) []finding {
	const check = "trial"
	self, err := procid.Self()
	if err != nil {
		return nil // told by who looks at the host
	}
	d, err := lock.OpenPath(source, ownerOf(source))
	if err != nil {
		return []finding{fault(check, "see to it that "+source+" can be opened", "%v", err)}
	}
	defer d.Close() // of a directory: it has nothing to fail with
	var findings []finding
	for _, t := range lock.Try(d, self, thorough) {
		f := ok(t.Name, "%s", t.Text)
		switch t.Outcome {
		case lock.Awkward:
			f = warning(t.Name, "", "%s", t.Text)
		case lock.Broken:
			f = fault(t.Name, "do not use lockfs here: two jobs would hold one lock", "%s", t.Text)
		case lock.Unable:
			f = fault(t.Name, "lockfs does not work here: no lock could be taken", "%s", t.Text)
		case lock.Untried:
			f = warning(t.Name, "try a directory below it in which jobs may write", "not tried: %s", t.Text)
		}
		findings = append(findings, f)
	}
	return findings
}

// ownerOf is who may surely write in the directory, where root may not
// (root_squash).
func ownerOf(path string) cred.Cred {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return cred.Own()
	}
	return cred.Cred{UID: st.Uid, GID: st.Gid}
}

// localTypes are file systems that no other host shares.
var localTypes = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "bcachefs", "f2fs", "rootfs", "ramfs"}

func isNFS(fsType string) bool { return fsType == "nfs" || fsType == "nfs4" }

// fileSystem says what kind of file system the tree is in.
func fileSystem(m mountEntry) finding {
	const check = "file system"
	switch {
	case isNFS(m.fsType):
		return ok(check, "%s of %s at %s", m.fsType, m.source, m.point)
	case slices.Contains(localTypes, m.fsType):
		return ok(check, "%s at %s: local to this host, so that its locks are among the jobs of this host", m.fsType, m.point)
	}
	return warning(check, "run lockfs doctor on every host, and a trial of two hosts, before relying on it",
		"%s at %s: whether it keeps its promises between hosts cannot be tried on one", m.fsType, m.point)
}

// nfsOptions says what the options of a NFS mount mean (nfs(5)).
func nfsOptions(options []string) []finding {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(options, w) })
	}
	value := func(key string) string {
		for _, o := range options {
			if k, v, found := strings.Cut(o, "="); found && k == key {
				return v
			}
		}
		return ""
	}
	var findings []finding
	if has("soft", "softerr") {
		findings = append(findings, fault("nfs hard or soft", "mount it with hard",
			"soft: when the server is slow, writes fail half done and programs seldom look"))
	} else {
		findings = append(findings, ok("nfs hard or soft", "hard: a request waits for the server, however long"))
	}
	switch v := value("vers"); {
	case v == "":
		findings = append(findings, warning("nfs version", "see nfsstat -m", "it cannot be seen"))
	case v == "3" || v == "2" || v == "4.0" || v == "4":
		findings = append(findings, ok("nfs version", "%s: a request may be carried out twice, which costs each take two requests more; 4.1 and 4.2 have sessions", v))
	default:
		findings = append(findings, ok("nfs version", "%s", v))
	}
	switch {
	case has("noac") || value("actimeo") == "0" || slices.Contains([]string{"none", "pos", "positive"}, value("lookupcache")):
		findings = append(findings, ok("nfs caches", "noac, actimeo=0 or lookupcache is set: lockfs does not need it, and it is slow"))
	default:
		findings = append(findings, ok("nfs caches", "on: lockfs looks past them where it must"))
	}
	return append(findings, ok("nfs export", "not seen from here: the server must export it with sync (exportfs -v there), else its crash loses locks"))
}

// fuseUsable says whether FUSE file systems can be mounted.
func fuseUsable() finding {
	const check = "fuse"
	if err := fuseFits(); err != nil {
		return fault(check, "", "%v", err)
	}
	return ok(check, "/dev/fuse can be opened")
}

// descriptors says how many files the daemon can have open.
func descriptors() finding {
	const check, enough = "open files", 1 << 14
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return warning(check, "", "%v", err)
	}
	if l.Max < enough {
		return warning(check, "raise it: ulimit -Hn 65536, or LimitNOFILE= of the unit",
			"a daemon may have %d open, and needs one for each file that is open through it, two for each lock and one for each directory in use", l.Max)
	}
	return ok(check, "%d for a daemon", l.Max)
}
