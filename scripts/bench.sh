#!/usr/bin/env bash
# bench.sh [SOURCE MOUNTPOINT]: what does lockfs cost on this tree?
#
# SOURCE is a directory to which this user may write, MOUNTPOINT an empty
# directory on this machine; without them it takes temporary directories. Each
# job is done on the tree itself and through the mount in turn, ROUNDS times
# (5), and the medians are compared: "x 2.0" is twice the time. Then the lock
# itself is measured (go test -bench). It needs root, /dev/fuse and Go, and
# works as mount-test.sh does, in a directory and a mount namespace of its own.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rounds=${ROUNDS:-5}

if (($# != 0 && $# != 2)); then
	sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
	exit 64
fi
if ((EUID != 0)) || [ ! -e /dev/fuse ]; then
	echo "bench: needs root and /dev/fuse" >&2
	exit 69
fi
if [ "${LOCKFS_BENCH:-}" != inside ]; then
	LOCKFS_BENCH=inside exec unshare -m --propagation private "$BASH" "${BASH_SOURCE[0]}" "$@"
fi

work=$(mktemp -d)
source=${1:-$work/source} mnt=${2:-$work/mnt}
[ $# = 2 ] || mkdir "$source" "$mnt"
tree=$(mktemp -d "$source/bench.XXXXXX")
daemon=
finish() {
	local status=$?
	trap - EXIT
	if [ -n "$daemon" ]; then
		kill -9 "$daemon" 2>/dev/null || true
		wait "$daemon" 2>/dev/null || true
	fi
	while umount -l "$mnt" 2>/dev/null; do :; done
	rm -rf "$tree" "$work"
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

(cd "$top" && go build -o "$work/lockfs" ./cmd/lockfs)
"$work/lockfs" mount --foreground "$tree" "$mnt" >"$work/log" 2>&1 &
daemon=$!
for ((i = 0; i < 600; i++)); do
	! grep -q 'msg=mounted' "$work/log" || break
	kill -0 "$daemon" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
	sleep 0.1
done

small() { (cd "$1" && for ((i = 0; i < 1000; i++)); do echo "$i" >"f$i"; done); }
again() { (cd "$1" && for ((i = 0; i < 1000; i++)); do echo "$i" >>"f$i"; done); }
list() { ls -l "$1" >/dev/null; }
look() { (cd "$1" && for ((i = 0; i < 1000; i++)); do read -r _ <"f$i"; done); }
big() { dd if=/dev/zero of="$1/big" bs=1M count=256 conv=fsync 2>/dev/null; }
load() { cat "$1/big" >/dev/null; }
clear() { rm -rf "$1"/f* "$1/big"; }

# median NAME DIR: the last line of NAME's times, in microseconds.
median() { sort -n "$work/$1.$2" | sed -n "$(((rounds + 1) / 2))p"; }

mkdir "$tree/native" "$tree/locked"
jobs=(small again list look big load clear)
what=("make 1000 small files" "append to 1000 files" "ls -l of 1000 files" "read 1000 small files"
	"write 256 MiB" "read 256 MiB" "remove 1001 files")
for ((round = 0; round < rounds; round++)); do
	for side in native locked; do
		dir=$tree/native
		[ "$side" = native ] || dir=$mnt/locked
		for job in "${jobs[@]}"; do
			began=$(date +%s%N)
			"$job" "$dir"
			echo $((($(date +%s%N) - began) / 1000)) >>"$work/$job.$side"
		done
	done
done
printf '%-24s %12s %12s %8s\n' "median of $rounds" native lockfs ratio
for ((i = 0; i < ${#jobs[@]}; i++)); do
	n=$(median "${jobs[i]}" native) l=$(median "${jobs[i]}" locked)
	awk -v w="${what[i]}" -v n="$n" -v l="$l" 'BEGIN { printf "%-24s %9.1f ms %9.1f ms   x %.1f\n", w, n / 1e3, l / 1e3, l / n }'
done
echo
cd "$top" && go test -run '^$' -bench . -benchtime "${BENCHTIME:-5x}" ./lock
