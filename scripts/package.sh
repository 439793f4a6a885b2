#!/usr/bin/env bash
# package.sh [-o DIRECTORY] [GOARCH...]: makes a .deb and an .rpm of the commit
# that is checked out, for this machine's architecture or for those named.
#
# The packages hold what is committed, not what the work tree has besides, and
# are the same bytes wherever and whenever they are made of one commit by one
# version of Go. They are put into DIRECTORY (dist), which is made. Needs Go, git
# and gzip; nfpm is built from its module.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2

out=$top/dist
while getopts o: flag; do
	case $flag in
	o) out=$OPTARG ;;
	*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2 && exit 64 ;;
	esac
done
shift $((OPTIND - 1))
mkdir -p "$out"
out=$(cd "$out" && pwd)
(($# > 0)) || set -- "$(go env GOHOSTARCH)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A clone, so that nothing comes in that is not committed, and so that the
# program is stamped with its commit, which go build does in no git worktree.
git clone -q "$top" "$work/source"
cd "$work/source"
[ -z "$(git -C "$top" status --porcelain)" ] || echo "package: what is not committed is left out" >&2
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH GOFLAGS=-buildvcs=true LC_ALL=C TZ=UTC
# A tagged commit is that version; another one sorts before each version.
version=$(git describe --exact-match --match 'v[0-9]*' 2>/dev/null || true)
version=${version#v}
version=${version:-0.0.0~git$(date -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$(git rev-parse --short=12 HEAD)}

GOBIN=$work/bin go install "$nfpm"

# build ARCHITECTURE PROGRAM
build() {
	GOOS=linux GOARCH=$1 CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$2" ./cmd/lockfs
}
build "$(go env GOHOSTARCH)" "$work/lockfs"

# put MODE FILE PATH: FILE is to be PATH on the host where it is installed.
put() {
	install -D -m "$1" "$2" "$work/root/$3"
}
# page FILE: a manual page, by the section that its name ends with.
page() {
	local to=$work/root/usr/share/man/man${1##*.}
	install -d "$to"
	gzip -9nc "$1" >"$to/$(basename "$1").gz"
}

shopt -s nullglob
install -d "$work/man"
"$work/lockfs" man "$work/man"
for f in "$work"/man/* packaging/man/*; do page "$f"; done
"$work/lockfs" completion bash >"$work/bash"
"$work/lockfs" completion zsh >"$work/zsh"
"$work/lockfs" completion fish >"$work/fish"
put 644 "$work/bash" usr/share/bash-completion/completions/lockfs
put 644 "$work/fish" usr/share/fish/vendor_completions.d/lockfs.fish
for f in packaging/systemd/*.{service,mount,target}; do put 644 "$f" "usr/lib/systemd/system/$(basename "$f")"; done
for f in packaging/systemd/*.example; do put 644 "$f" "usr/share/doc/lockfs/examples/$(basename "$f" .example)"; done
for f in README.md docs/*; do put 644 "$f" "usr/share/doc/lockfs/$(basename "$f")"; done
for d in grafana prometheus; do
	for f in packaging/$d/*; do put 644 "$f" "usr/share/doc/lockfs/examples/$d/$(basename "$f")"; done
done

for arch; do
	build "$arch" "$work/lockfs.$arch"
	put 755 "$work/lockfs.$arch" usr/bin/lockfs
	find "$work/root" "$work/zsh" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
	{
		sed -e "s/@VERSION@/$version/" -e "s/@ARCH@/$arch/" packaging/nfpm.yaml
		echo "  - {src: $work/zsh, dst: /usr/share/zsh/vendor-completions/_lockfs, packager: deb, file_info: {mode: 0644}}"
		echo "  - {src: $work/zsh, dst: /usr/share/zsh/site-functions/_lockfs, packager: rpm, file_info: {mode: 0644}}"
		(cd "$work/root" && find . -type f -printf '%P %m\n' | sort) | while read -r path mode; do
			echo "  - {src: $work/root/$path, dst: /$path, file_info: {mode: 0$mode}}"
		done
	} >"$work/nfpm.yaml"
	for kind in deb rpm; do
		"$work/bin/nfpm" package -f "$work/nfpm.yaml" -p "$kind" -t "$out"
	done
done
