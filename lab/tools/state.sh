#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A checksum of what a test may depend on. lab/tools/test.sh and lab/tools/passed.sh take an earlier pass for
# the present one only where these are the same.
#
#   lab/tools/state.sh machine       # the kernel, its CPUs, what is installed, and RADAR_* of the environment
#   lab/tools/state.sh tree          # all files of this repository, and the radar that RADAR_BIN names
#   lab/tools/state.sh sources       # the same without Markdown
#   lab/tools/state.sh variables     # RADAR_MACHINE, RADAR_TREE, RADAR_SOURCES for lab/test/need, as the shell reads them
#   lab/tools/state.sh PATHSPEC...   # these files; deps:PACKAGE stands for the folders that its tests are built of
#
# Files count that git tracks or would track: by name, mode and contents, not by date or place.
#
# Exit status: not 0 where something could not be told: no files, or git or go fail. What is printed is no checksum then.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
self=lab/tools/state.sh
export LC_ALL=C

sum() { sha256sum | cut -d' ' -f1; }

machine() {
	local paths
	IFS=: read -ra paths <<<"$PATH"
	uname -srvm
	cat /proc/cmdline 2>/dev/null || true
	nproc
	id -u
	go version
	go env GOFLAGS CGO_ENABLED CC CXX
	dpkg-query -W 2>/dev/null || true
	# Programs that no package brings, and servers and Python environments of .cache.
	find -L "${paths[@]}" -maxdepth 1 -type f -printf '%f %s %T@\n' 2>/dev/null | sort || true
	find -L .cache/servers -type f -path '*/bin/*' -printf '%f %s\n' 2>/dev/null | sort || true
	cat .cache/*/done 2>/dev/null || true
	env | grep -E '^RADAR_' | grep -vE '^RADAR_(BIN|MACHINE|TREE|SOURCES)=' | sort || true
}

# files prints names, modes and checksums.
files() {
	local list
	list=$(mktemp)
	# shellcheck disable=SC2064 # the function has ended then
	trap "rm -f '$list'" EXIT # of the subshell that each caller is
	git ls-files -coz --exclude-standard -- "$@" | sort -zu >"$list"
	[ -s "$list" ] || { echo "state.sh: no files: $*" >&2; exit 1; }
	tr '\0' '\n' <"$list"
	xargs -0r stat -c '%A %N' <"$list" 2>/dev/null || [ $? = 123 ] # a file may have been removed
	xargs -0r sha256sum <"$list" 2>/dev/null || [ $? = 123 ]
}

# made reports whether bin/radar is younger than every file that it could be built of. Where that cannot be told it is
# not: a file of the same tick of the clock may have changed after the build, and so may one that is gone.
made() {
	git ls-files -coz --exclude-standard -- ':!*.md' | while IFS= read -rd '' file; do
		[ -e "$file" ] && [ bin/radar -nt "$file" ] || exit 1
	done
}

# radar prints what is not known of RADAR_BIN by the tree: nothing of one that make build has made of it.
radar() {
	[ -n "${RADAR_BIN:-}" ] && [ -e "$RADAR_BIN" ] || return 0
	go version -m "$RADAR_BIN" | grep -E 'build[[:space:]]+(-race|-tags|CGO_ENABLED)' || true
	if [ "$(realpath "$RADAR_BIN")" != "$PWD/bin/radar" ] || ! made; then
		sha256sum <"$RADAR_BIN"
	fi
}

case ${1:-} in
'') echo "usage: state.sh machine|tree|sources|variables|PATHSPEC..." >&2; exit 2 ;;
machine) machine | sum ;;
tree) { files .; radar; } | sum ;;
sources) { files . ':!*.md'; radar; } | sum ;;
variables)
	machine=$($self machine)
	tree=$($self tree)
	sources=$($self sources)
	echo "export RADAR_MACHINE=$machine RADAR_TREE=$tree RADAR_SOURCES=$sources" ;;
*)
	specs=()
	for spec in "$@"; do
		case $spec in
		deps:*)
			# A folder without those below it, but with testdata and what is embedded.
			# shellcheck disable=SC2016 # they are Go's
			found=$(go list -deps -test -f '{{$d := .Dir}}{{with .Module}}{{if .Main}}{{$d}}/*
{{$d}}/testdata/**{{range $.EmbedFiles}}
{{$d}}/{{.}}{{end}}{{range $.TestEmbedFiles}}
{{$d}}/{{.}}{{end}}{{range $.XTestEmbedFiles}}
{{$d}}/{{.}}{{end}}{{end}}{{end}}' "${spec#deps:}" | sed -n "s|^$PWD/||p" | sort -u)
			mapfile -t list <<<"$found"
			[ -n "$found" ] || { echo "state.sh: no package ${spec#deps:}" >&2; exit 2; }
			specs+=("${list[@]/#/:(glob)}" go.mod go.sum) ;;
		*) specs+=("$spec") ;;
		esac
	done
	files "${specs[@]}" | sum ;;
esac
