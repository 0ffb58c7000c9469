#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Puts the figures that make bench has written into the pages that have them: each of their
# sections is named as a benchmark is. Of benchmarks that FILE has not, the pages keep what
# they say. What is made of several, the section "targets" and the lines of costs in
# README.md, stays unless FILE has all of them.
#
#   lab/performance.sh bin/bench.json
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: performance.sh FILE" >&2; exit 2; }
json=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/bench" ./cmd/bench

# figures BENCHMARK prints what FILE has of it. Its first lines say where the figures are from,
# and of what they are.
figures() { "$dir/bench" -from "$json" -run "^$1\$" 2>"$dir/error"; }

pages=(docs/performance.md docs/results/performance.md)
sections_of() { sed -n 's/^<!-- \([a-z0-9-]*\) -->$/\1/p' "$@"; }
missing=()
for section in $(sections_of "${pages[@]}"); do
	figures "$section" >/dev/null || missing+=("$section")
done

for page in "${pages[@]}"; do
	sections=$(sections_of "$page")
	[ -n "$sections" ] || { echo "performance.sh: $page has no sections" >&2; exit 1; }
	for section in $sections; do
		if [ "$section" = targets ] && [ ${#missing[@]} -gt 0 ]; then
			echo "$page: targets stays: there is no figure of ${missing[*]}" >&2
			continue
		fi
		if ! text=$(figures "$section"); then
			echo "$page: $section stays: $(cat "$dir/error")" >&2
			continue
		fi
		lab/section.sh "$page" "$section" <<-TEXT
			$(head -n 1 <<<"$text"):

			\`\`\`
			$(tail -n +3 <<<"$text")
			\`\`\`
		TEXT
	done
done

if [ ${#missing[@]} -gt 0 ]; then
	echo "README.md: cost stays: there is no figure of ${missing[*]}" >&2
	exit 0
fi
text=$(figures targets)
# measured TARGET prints a target's ratio.
measured() {
	awk -F '   *' -v target="$1" '$1 == target { split($3, ratio, " "); print ratio[1]; found = 1 }
		END { exit !found }' <<<"$text"
}
# hop ROW prints what a hop takes of a core at 1 Gbit/s.
hop() {
	figures rate | awk -F '   *' -v row="$1" '$1 == row && !found { split($3, share, "%"); print share[1] " %"; found = 1 }
		END { exit !found }'
}
from=$(head -n 1 <<<"$text")
hook=$(measured "per packet, of the floor's")
echo=$(measured "echo, of none's")
tcp=$(measured "TCP throughput, of none's")
singly=$(hop "one by one")
trains=$(hop "as trains")
lab/section.sh README.md cost <<TEXT
At 1 Gbit/s of full-size TCP, radar takes **$singly** of a core at each hop where segments pass one by one, and
**$trains** where they pass as trains (GSO). A packet costs **$hook** at each hook what a program costs that only
parses it and reads the clock. An echo through ten routers takes **$echo** as long as without radar, and TCP keeps
**$tcp** of its throughput ($from).
TEXT
