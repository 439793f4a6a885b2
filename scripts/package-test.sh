#!/usr/bin/env bash
# package-test.sh [ROOT]: do the packages work?
#
# Makes them twice, which must give the same bytes; then installs the .deb in a
# layer over ROOT, a directory with a Debian in it (or over this machine's own),
# mounts as an administrator does, removes it, and sees that nothing is left.
# Nothing outside of a temporary directory changes, and nobody else sees a mount.
# A clean ROOT is made by
#
#     mmdebstrap --variant=minbase --include=fuse3,man-db,bash-completion bookworm ROOT
#
# Needs root, dpkg, /dev/fuse, Go and git; with ROOT as this machine's own also
# fuse3, man-db and bash-completion where that is looked at. Exit 0 if all is
# well, 1 if something is not, 69 if it cannot run here.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
lower=${1:-/}

unfit() {
	echo "package-test: $*" >&2
	exit 69
}
((EUID == 0)) || unfit "needs root"
[ -e /dev/fuse ] || unfit "needs /dev/fuse (modprobe fuse)"
[ -x "$lower/usr/bin/dpkg" ] || unfit "no Debian in $lower: needs dpkg"
if [ "${LOCKFS_PACKAGE_TEST:-}" != inside ]; then
	LOCKFS_PACKAGE_TEST=inside exec unshare -m --propagation private "$BASH" "${BASH_SOURCE[0]}" "$@"
fi

work=$(mktemp -d)
finish() {
	local status=$?
	trap - EXIT
	((status == 0)) || cat "$work/said" 2>/dev/null || true
	# The daemon that a failed test leaves, by its mount.
	umount -l "$work/layer/root/locked/scratch" 2>/dev/null || true
	umount -R -l "$work/layer" 2>/dev/null || true
	rm -rf "$work"
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

did() { echo "ok    $*"; }
fail() {
	echo "FAIL  $*" >&2
	exit 1
}
# inside COMMAND...: runs it in the layer; what it says is shown if the test fails.
inside() {
	timeout -k 5 60 chroot "$work/layer/root" "$@" >"$work/said" 2>&1 </dev/null
}
# says TEXT COMMAND...: the command says TEXT.
says() {
	local text=$1
	shift
	inside "$@" || fail "$* failed with status $?"
	grep -q -- "$text" "$work/said" || fail "$* does not say $text"
}
# files lists what the layer has, but for what dpkg and man-db keep of all that
# was ever installed.
files() {
	(cd "$work/layer/root" && find bin/ sbin/ lib/ etc usr var -xdev 2>/dev/null |
		grep -vE '^var/(lib/dpkg/(status|lock|available|diversions|statoverride|triggers|info/lockfs)|log/|cache/man|cache/debconf)' | sort)
}

for n in 1 2; do
	"$top/scripts/package.sh" -o "$work/$n" >"$work/said" 2>&1 || fail "package.sh failed"
done
diff -r "$work/1" "$work/2" >&2 || fail "made twice, the packages differ"
deb=$(echo "$work"/1/*.deb)
did "made $(basename -a "$work"/1/* | tr '\n' ' ')twice, of the same bytes"

mkdir "$work/layer"
mount -t tmpfs tmpfs "$work/layer"
mkdir "$work"/layer/{upper,work,root}
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$work/layer/upper,workdir=$work/layer/work" "$work/layer/root"
root=$work/layer/root
for d in dev proc sys; do mount --rbind "/$d" "$root/$d"; done
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
[ -s "$root/etc/machine-id" ] || tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"
rm -rf "$root/etc/updatedb.conf" "$root/var/lib/lockfs" "$root"/etc/systemd/system/*/lockfs@*
echo 'PRUNEFS="nfs nfs4"' >"$root/etc/updatedb.conf"
inside mkdir -p /nfs/scratch/run7 /locked/scratch
files >"$work/before"

cp "$deb" "$root/tmp/lockfs.deb"
says 'fuse.lockfs to PRUNEFS' dpkg -i /tmp/lockfs.deb
did "installed it, and it says what updatedb.conf lacks"
says "commit $(git -C "$top" rev-parse HEAD)" lockfs version
if [ -x "$root/usr/bin/man" ]; then
	for page in lockfs lockfs-mount 'lockfs(7)' mount.lockfs umount.fuse.lockfs; do inside man -w "$page" || fail "man does not find $page"; done
	did "man finds the pages"
fi
says 'complete.* lockfs' bash -c '. /usr/share/bash-completion/completions/lockfs && complete -p lockfs'
says 'recover' lockfs __complete re
did "bash completes lockfs"

echo "/nfs/scratch /locked/scratch lockfs log=/var/log/lockfs.log,nofail 0 0" >>"$root/etc/fstab"
inside mount -a || fail "mount -a failed"
inside mount -a || fail "mount -a failed the second time"
[ "$(grep -c " /locked/scratch fuse.lockfs " <(chroot "$root" cat /proc/self/mounts))" = 1 ] || fail "there is not one mount"
did "mount -a mounts what /etc/fstab says, once"
inside sh -c 'echo hello >/locked/scratch/run7/a' || fail "writing failed"
[ "$(cat "$root/nfs/scratch/run7/a")" = hello ] || fail "what was written is not in the tree"
says 'held' sh -c 'exec 9>>/locked/scratch/run7/a; lockfs status /locked/scratch/run7'
did "a job writes, and lockfs status says who holds"
says '0 locks recovered' lockfs recover /locked/scratch
inside umount /locked/scratch || fail "umount failed"
[ -z "$(find "$root/nfs/scratch" -name '.lockfs*')" ] || fail "a lock is left"
inside mount -t lockfs -o log=/var/log/lockfs.log,ro /nfs/scratch /locked/scratch || fail "mount -t lockfs failed"
! inside touch /locked/scratch/b || fail "a write in a mount with -o ro succeeded"
inside lockfs umount /locked/scratch || fail "lockfs umount failed"
did "umount, and mount -t lockfs -o ro"

# The blocks of the operator's guide that are marked as tested, in their order.
awk '/^```sh tested/ {on = 1; next} /^```/ {on = 0} on' "$top/docs/operator.md" >"$root/tmp/guide"
[ "$(grep -c . "$root/tmp/guide")" -gt 20 ] || fail "the operator's guide has no commands"
inside umount /locked/scratch 2>/dev/null || true
sed -i /lockfs/d "$root/etc/fstab"
inside bash -exu /tmp/guide || fail "the commands of docs/operator.md do not work"
did "the commands of docs/operator.md"

inside dpkg -P lockfs || fail "removing it failed"
rm -f "$root/var/log/lockfs.log"
files >"$work/after"
diff "$work/before" "$work/after" >&2 || fail "left behind or taken away by its removal"
did "removed, and nothing is left"
echo "all is well"
