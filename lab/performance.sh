#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Puts the figures that make bench has written into the pages that tell of them: each of
# their sections is named as a benchmark is. Of benchmarks that FILE has not, the pages
# keep what they say.
#
#   lab/performance.sh bin/bench.json
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: performance.sh FILE" >&2; exit 2; }
json=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/bench" ./pkg/bench

for page in README.md docs/performance.md; do
	sections=$(sed -n 's/^<!-- \([a-z0-9-]*\) -->$/\1/p' "$page")
	[ -n "$sections" ] || { echo "performance.sh: $page has no sections" >&2; exit 1; }
	for section in $sections; do
		if ! text=$("$dir/bench" -from "$json" -run "^$section\$" 2>"$dir/error"); then
			echo "$page: $section stays: $(cat "$dir/error")" >&2
			continue
		fi
		# Its first lines say where the figures are from, and of what they are.
		lab/section.sh "$page" "$section" <<-TEXT
			$(head -n 1 <<<"$text"):

			\`\`\`
			$(tail -n +3 <<<"$text")
			\`\`\`
		TEXT
	done
done
