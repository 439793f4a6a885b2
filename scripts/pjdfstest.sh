#!/usr/bin/env bash
# pjdfstest.sh [SOURCE MOUNT]: which tests of pjdfstest pass on a directory and
# not through a file system over it?
#
# SOURCE and MOUNT are the same directory, beside lockfs and through it. Without
# them a tmpfs and a lockfs over it are mounted, in a mount namespace of their
# own; with FSTYPE=ext4 an ext4 in a file. The tests run in new directories,
# which are removed again. PJDFSTEST is where the suite is, built (a temporary
# directory: it is fetched with git and built with autoreconf, make and gcc).
# JOBS tests run at a time (2). ONLY is a pattern of the tests' paths ("chmod/").
#
# Needs root. Exit 0 if there is no difference but links to other directories
# (link/03, 06 and 07), which lockfs refuses; 1 if there is one; 69 if it cannot
# run here.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
suite=https://github.com/pjd/pjdfstest
expected='^(link/03.t|link/06.t|link/07.t) '

if (($# != 0 && $# != 2)); then
	sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
	exit 64
fi
if ((EUID != 0)); then
	echo "pjdfstest: needs root (sudo $0 $*)" >&2
	exit 69
fi
if (($# == 0)) && [ "${LOCKFS_PJDFSTEST:-}" != inside ]; then
	LOCKFS_PJDFSTEST=inside exec unshare -m --propagation private "$BASH" "${BASH_SOURCE[0]}"
fi

work=$(mktemp -d)
daemon='' native='' through=''
finish() {
	local status=$?
	trap - EXIT
	cd /
	rm -rf ${native:+"$native"} ${through:+"$through"}
	if [ -n "$daemon" ]; then
		kill "$daemon" 2>/dev/null || true
		wait "$daemon" 2>/dev/null || true
	fi
	while umount -l "$work/source" 2>/dev/null; do :; done
	rm -rf "$work"
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

pjd=${PJDFSTEST:-$work/pjdfstest}
if [ ! -x "$pjd/pjdfstest" ]; then
	if ! { [ -d "$pjd" ] || git clone -q --depth 1 "$suite" "$pjd"; } ||
		! (cd "$pjd" && autoreconf -i && ./configure && make pjdfstest) >"$work/build" 2>&1; then
		echo "pjdfstest: the suite cannot be built (apt-get install git autoconf automake make gcc libc6-dev)" >&2
		[ ! -e "$work/build" ] || tail -n 5 "$work/build" >&2
		exit 69
	fi
fi

source=${1:-$work/source} mnt=${2:-$work/mnt}
chmod 755 "$work"
if (($# == 0)); then
	mkdir "$source" "$mnt"
	case ${FSTYPE:-tmpfs} in
	ext4)
		truncate -s 600M "$work/image"
		mkfs.ext4 -q "$work/image"
		mount -o loop "$work/image" "$source"
		;;
	*) mount -t tmpfs none "$source" ;;
	esac
	chmod 755 "$source"
	(cd "$top" && go build -o "$work/lockfs" ./cmd/lockfs)
	"$work/lockfs" mount -o dev,suid "$source" "$mnt" >"$work/log" 2>&1 &
	daemon=$!
	for ((i = 0; i < 300; i++)); do
		! mountpoint -q "$mnt" || break
		kill -0 "$daemon" 2>/dev/null || {
			cat "$work/log" >&2
			exit 69
		}
		sleep 0.1
	done
fi
native=$(mktemp -d "$source/pjdfstest.XXXXXX")
through=$(mktemp -d "$mnt/pjdfstest.XXXXXX")
chmod 755 "$native" "$through"

# one TEST DIR OUT: runs a test in a directory of its own.
one='
t=$1 out=$3/${1//\//_}
d=$(mktemp -d "$2/t.XXXXXX") && chmod 755 "$d" && cd "$d" || exit
timeout -k 5 300 sh "$PJD/tests/$t" >"$out" 2>/dev/null || echo "not ok - status $?" >>"$out"
cd / && rm -rf "$d"'
export PJD=$pjd
tests() { (cd "$pjd/tests" && find . -name '*.t' | cut -c3- | sort | grep -E "${ONLY:-.}"); }
mkdir "$work/native" "$work/through"
tests | xargs -P "${JOBS:-2}" -I{} bash -c "$one" one {} "$native" "$work/native"
tests | xargs -P "${JOBS:-2}" -I{} bash -c "$one" one {} "$through" "$work/through"

# Which numbers of a test passed, and which failed. One that is not asked for
# (the suite goes by the name of the file system) is no failure.
passed() { sed -nE 's/^ok ([0-9]+).*/\1/p' "$1" | sort; }
failed() { sed -nE 's/^not ok ([0-9]+).*/\1/p' "$1" | sort; }
differences=0
while read -r t; do
	f=${t//\//_}
	lost=$(comm -12 <(passed "$work/native/$f") <(failed "$work/through/$f") | sort -n | tr '\n' ' ')
	grep -q '^not ok - ' "$work/native/$f" || ! grep '^not ok - ' "$work/through/$f" || lost="$lost(did not end)"
	[ -n "$lost" ] || continue
	if grep -qE "$expected" <<<"$t $lost"; then
		echo "expected: $t $lost"
		continue
	fi
	differences=1
	echo "DIFFERS: $t $lost"
	grep '^not ok' "$work/through/$f" | cut -c1-200 | sed 's/^/	/'
done < <(tests)
count() { cat "$work/$1"/* | grep -c '^ok' || true; }
echo "passed: $(count native) without, $(count through) through the mount"
exit "$differences"
