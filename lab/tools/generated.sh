#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Holds generated files against their sources.
#
#   lab/tools/generated.sh check   # makes anew what is out of date, and fails if that changed a file
#   lab/tools/generated.sh all     # the same, with the BPF objects in any case
#   lab/tools/generated.sh sums    # prints what bpf/objects.sum must say
#
# Compiling the BPF objects takes most of the time, and needs clang. So bpf/objects.sum has
# the checksums of their sources and of what was made from them: where these agree, the
# objects are up to date. The other files (docs/cli, tables of docs/int, the page's
# bundle) are made in seconds, so they are always made.
#
# Exit status: 1 if a file had to change. It has changed then, and wants to be committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

objects=(pkg/bpfobj cmd/bench cmd/bench/inband) # packages with a go:generate line for clang
pages=(docs/cli docs/int pkg/api/page/static)
export LC_ALL=C

# sums prints a line for each source, each object, and the commands between them.
sums() {
	local package
	{
		git ls-files --cached --others --exclude-standard 'bpf/*.c' 'bpf/*.h'
		for package in "${objects[@]}"; do printf '%s\n' "$package"/*_bpfel.{go,o}; done
	} | sort | while read -r file; do [ ! -e "$file" ] || sha256sum "$file"; done
	printf '%s  commands\n' "$({
		grep -rhE '^//go:generate .*(bpf2go|bpfel)' --include='*.go' "${objects[@]}"
		grep -E '^[[:space:]]+github.com/cilium/ebpf ' go.mod
	} | sort | sha256sum | cut -d' ' -f1)"
}

# state prints the checksums of all generated files.
state() {
	find "${pages[@]}" bpf/objects.sum "${objects[@]}" -type f \( -path 'docs/*' -o -name page.js -o -name '*_bpfel.*' -o -name objects.sum \) -print0 |
		sort -z | xargs -0 sha256sum
}

make_pages() {
	go generate ./pkg/intwire ./pkg/telemetry/export ./pkg/api/page
	CGO_ENABLED=0 go run ./cmd/radar docs cli docs/cli # linking with DuckDB would take longer than all else
}

case ${1:-} in
sums) sums; exit ;;
check | all) ;;
*) echo "usage: generated.sh check|all|sums" >&2; exit 2 ;;
esac
before=$(state)
if [ "$1" = all ] || ! sums | cmp -s - bpf/objects.sum; then
	echo "generated files: the BPF objects are made anew"
	make --no-print-directory objects
fi
make_pages
after=$(state)
changed=$(diff <(echo "$before") <(echo "$after") | sed -nE 's/^[<>] [0-9a-f]+  //p' | sort -u) || true
if [ -n "$changed" ]; then
	echo "generated files were out of date, and have been made anew. Commit them:"
	echo "$changed"
	exit 1
fi
