#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A Go that can build radar, as go.mod asks for.
#
# usage: lab/tools/go.sh check [GOAL...]
#        lab/tools/go.sh install DIR
#
# check says nothing if go on PATH can, itself or by the toolchain that it gets for this module
# (1.21 and newer do, unless GOTOOLCHAIN is local). Otherwise it says in one line what to type,
# for make's GOALs (demo).
#
# install makes DIR such a Go. Whatever go is there gets it, Debian's if there is none, as the
# module golang.org/toolchain: through the user's module proxy, and compared with the checksum
# database as any module is. Debian 12's Go 1.19, too old for radar, is good enough for that.
set -euo pipefail

# What install gets, unless go.mod asks for a newer one.
release=1.26.11

tools=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$tools/../.." && pwd)
wanted=$(awk '$1 == "go" { print $2; exit }' "$root/go.mod")

die() {
	echo "$0: $*" >&2
	exit 1
}

newest() { printf '%s\n' "$@" | sort -V | tail -n 1; }

# version GO: 1.26.8, of the Go that it is in radar's folder; nothing if it does not run, or
# cannot get the toolchain that go.mod asks for.
version() { (cd "$root" && "$1" version 2>/dev/null) | sed -nE 's/^go version .*go([0-9][0-9a-z.]*).*/\1/p'; }

enough() { # GO
	local is
	is=$(version "$1") || return 1
	[ -n "$is" ] && [ "$(newest "$is" "$wanted")" = "$is" ]
}

check() {
	local finds=none goals=${*:-demo}
	enough go && return
	# sudo has a PATH of its own, without the folder where Go's own archive goes.
	if enough /usr/local/go/bin/go; then
		echo "radar needs Go ${wanted%.0}, which is in /usr/local/go/bin but not first on PATH: type: PATH=/usr/local/go/bin:\$PATH make $goals" >&2
		exit 1
	fi
	! command -v go >/dev/null || finds=$(GOTOOLCHAIN=local version go || echo 'one that does not run')
	echo "radar needs Go ${wanted%.0}, and finds $finds: type: make go $goals" >&2
	exit 1
}

tmp=''
# Old go commands write modules that not even their owner can remove.
cleanup() {
	trap '' INT TERM
	[ -z "$tmp" ] || { chmod -R u+w "$tmp" && rm -rf "$tmp"; }
}
trap cleanup EXIT
trap 'cleanup; exit 130' INT TERM # packages.sh says why

install_go() {
	local dir=${1%/} go='' g is mod module got
	release=$(newest "$release" "$wanted")
	mkdir -p "$(dirname "$dir")"
	dir=$(cd "$(dirname "$dir")" && pwd)/$(basename "$dir")
	# Clones share the folder: one of them downloads.
	exec 9>"$dir.lock"
	flock -n 9 || { echo "waiting for another make that gets Go $release ..."; flock 9; }
	is=$(GOTOOLCHAIN=local version "$dir/bin/go" || true)
	if [ -n "$is" ] && [ "$(newest "$is" "$release")" = "$is" ]; then
		"$dir/bin/go" version
		return
	fi

	for g in "$(command -v go || true)" /usr/local/go/bin/go; do
		if [ -n "$(GOTOOLCHAIN=local version "$g")" ]; then
			go=$g
			break
		fi
	done
	if [ -z "$go" ]; then
		# Without certificates it could not tell who answers.
		"$tools/packages.sh" golang-go ca-certificates
		go=/usr/bin/go
	fi

	# Another GOROOT would be that of another Go; what a newer go command would switch to is
	# what this gets.
	unset GOROOT
	export GOTOOLCHAIN=local GOWORK=off GO111MODULE=on
	# Beside DIR, so that it is moved there only once complete; with a module of its own, since
	# old go commands cannot read radar's go.mod; with a module cache of its own, of which
	# nothing stays.
	tmp=$(mktemp -d "$dir.XXXXXX")
	echo "module toolchain" >"$tmp/go.mod"
	cd "$tmp"
	module=golang.org/toolchain@v0.0.1-go$release.$("$go" env GOHOSTOS)-$("$go" env GOHOSTARCH)
	echo "getting Go $release (70 MB, $module), with $("$go" version)"
	GOMODCACHE=$tmp/cache "$go" mod download "$module" ||
		die "could not get $module: see above, and: $go env GOPROXY GOSUMDB"

	# What a go command that switches to it would do: modules have no executables, and no
	# other module's go.mod.
	got=$tmp/cache/$module
	chmod -R u+w "$got"
	find "$got/bin" "$got/pkg/tool" -type f -exec chmod a+x {} +
	find "$got" -name _go.mod | while read -r mod; do mv "$mod" "${mod%_go.mod}go.mod"; done
	"$got/bin/go" version >/dev/null

	rm -rf "$dir"
	mv -T "$got" "$dir"
	"$dir/bin/go" version
}

case "${1:-}:$#" in
check:*)
	shift
	check "$@"
	;;
install:2) install_go "$2" ;;
*) die "usage: $0 check [GOAL...] | install DIR" ;;
esac
