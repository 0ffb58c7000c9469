#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the licences and notices of all that is compiled into radar: of Go itself, of each
# module, as `go list` names them, from the files that the modules bring, and of each library of
# the page (pkg/api/page). make install puts
# them beside the program, as these licences ask.
#
#   lab/tools/notices.sh >THIRD-PARTY.txt
#
# Exit status: 1 if a module brings no licence.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export LC_ALL=C

# texts NAME FOLDER: its files, each under a title.
texts() {
	local file found=
	while read -r file; do
		found=1
		printf '\n%s\n%s: %s\n%s\n\n' "$line" "$1" "${file##*/}" "$line"
		cat "$file"
	done < <(find -L "$2" -maxdepth 1 -type f -regextype posix-extended -iregex '.*/(licen[cs]e|copying|copyright|notice|patents|authors)[^/]*' | sort)
	[ -n "$found" ] || { echo "notices.sh: $1 brings no licence: look for it in $2" >&2; return 1; }
}
line=$(printf '=%.0s' {1..80})

modules=$(go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}	{{.Version}}	{{.Dir}}{{end}}{{end}}' ./cmd/radar | sort -u)
printf 'radar is compiled from the modules below, besides its own source. Each comes with these terms.\n'
# Distributions move Go's own files elsewhere.
texts "Go $(go env GOVERSION)" "$(go env GOROOT)" 2>/dev/null || printf '\nGo %s: the terms of golang.org/x/sys, below.\n' "$(go env GOVERSION)"
while IFS=$'\t' read -r path version folder; do
	texts "$path $version" "$folder"
done <<<"$modules"
lib=pkg/api/page/src/lib
while IFS=$'\t' read -r folder name version _; do
	texts "$name $version" "$lib/$folder"
done < <(grep -v '^#' "$lib/versions.txt")
