#!/usr/bin/env bash
# mount-test.sh [SOURCE MOUNTPOINT]: does lockfs work on this tree?
#
# SOURCE is a directory to which this user may write, on the export that is to
# be protected; MOUNTPOINT an empty directory on this machine. Without them it
# takes temporary directories. It works in a new directory below SOURCE only,
# which it removes again, and in a mount namespace of its own, so that no mount
# is seen by anybody else. It needs root, /dev/fuse and Go. Exit 0 if all is
# well, 1 if something is not, 64 for wrong use, 69 if it cannot run here.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if (($# != 0 && $# != 2)); then
	sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
	exit 64
fi
if ((EUID != 0)); then
	echo "mount-test: needs root (sudo $0 $*)" >&2
	exit 69
fi
if [ ! -e /dev/fuse ]; then
	echo "mount-test: needs /dev/fuse (modprobe fuse)" >&2
	exit 69
fi
if [ "${LOCKFS_MOUNT_TEST:-}" != inside ]; then
	LOCKFS_MOUNT_TEST=inside exec unshare -m --propagation private "$BASH" "${BASH_SOURCE[0]}" "$@"
fi

work=$(mktemp -d)
source=${1:-$work/source} mnt=${2:-$work/mnt}
[ $# = 2 ] || mkdir "$source" "$mnt"
# Created, not only named: what is there already is nobody's to remove.
tree=$(mktemp -d "$source/mount-test.XXXXXX")
daemon=
pids=()

finish() {
	local status=$?
	trap - EXIT
	exec 3>&- 4>&-
	for p in "${pids[@]}"; do kill -9 "$p" 2>/dev/null || true; done
	[ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null || true
	while umount -l "$mnt" 2>/dev/null; do :; done
	if ((status != 0)) && [ -s "$work/log" ]; then
		echo "what lockfs said last:"
		tail -n 20 "$work/log"
	fi
	rm -rf "$tree" "$work"
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

did() { echo "ok    $*"; }
fail() {
	echo "FAIL  $*" >&2
	exit 1
}

# until_true WHAT COMMAND...: waits until the command succeeds.
until_true() {
	local what=$1 end=$((SECONDS + 60))
	shift
	until "$@"; do
		((SECONDS < end)) || fail "not within 60 s: $what"
		sleep 0.05
	done
}

serves() {
	kill -0 "$daemon" 2>/dev/null || fail "lockfs has ended"
	[ "$(grep -c 'msg=mounted' "$work/log")" -ge "$mounts" ]
}
mounts=0
start() {
	"$work/lockfs" mount --foreground "$tree" "$mnt" >>"$work/log" 2>&1 &
	daemon=$!
	mounts=$((mounts + 1))
	until_true "the mount" serves
}
locked() { [ -n "$(ls -A "$tree/D/.lockfs" 2>/dev/null)" ]; }
unlocked() { [ ! -e "$tree/D/.lockfs" ]; }
waits() { "$work/lockfs" status --json "$mnt/D" | grep -q '"waiters"'; }
ended() { ! kill -0 "$1" 2>/dev/null; }

(cd "$top" && go build -o "$work/lockfs" ./cmd/lockfs)
did "built $("$work/lockfs" version | head -n 1)"
mkdir "$tree/D"
start
did "mounted $tree at $mnt"

echo hello >"$mnt/D/a"
[ "$(cat "$tree/D/a")" = hello ] || fail "what was written is not in the tree"
until_true "the end of the lock" unlocked
did "wrote a file, and no lock is left"

exec 3>>"$mnt/D/a"
until_true "the lock" locked
did "the lock stands while a file is open: $(ls "$tree/D/.lockfs" | cut -c1-60)..."
exec 3>&-
until_true "the end of the lock" unlocked
did "and is gone after the close"

exec 3>>"$mnt/D/a"
setsid sh -c "echo second >>'$mnt/D/b'" 3>&- &
second=$!
pids+=("$second")
until_true "a second job that waits" waits
did "a second job waits to write in the same directory"
[ "$(timeout 30 cat "$mnt/D/a")" = hello ] && timeout 30 ls "$mnt/D" >/dev/null || fail "a reader did not get on"
ended "$second" && fail "the second job did not wait for the first"
did "readers get on while it waits"
exec 3>&-
until_true "the second job's turn" ended "$second"
wait "$second" || fail "the second job failed"
[ "$(cat "$tree/D/b")" = second ] || fail "the second job's data is not there"
did "and it wrote when the first was done"

exec 4>>"$mnt/D/a"
until_true "the lock" locked
kill -9 "$daemon"
wait "$daemon" 2>/dev/null || true
if echo lost >&4 2>/dev/null; then fail "a write after the daemon's death succeeded"; fi
exec 4>&-
[ "$(cat "$tree/D/a")" = hello ] || fail "a write after the daemon's death reached the tree"
locked || fail "the lock of the dead daemon is gone"
did "killed lockfs: the writer fails, and its lock still stands"
start
echo again >"$mnt/D/c"
grep -q 'recovered the lock' "$work/log" || fail "nothing says that the lock was recovered"
until_true "the end of the lock" unlocked
did "mounted again: the lock was recovered, and writing works"

"$work/lockfs" umount "$mnt"
wait "$daemon" || fail "lockfs ended badly"
daemon=
left=$(find "$tree" -name '.lockfs*')
[ -z "$left" ] || fail "left behind: $left"
[ "$(ls "$tree/D" | tr '\n' ' ')" = "a b c " ] || fail "in the tree is: $(ls -A "$tree/D")"
did "unmounted: the files are there, and nothing else"
echo "all is well"
