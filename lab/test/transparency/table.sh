#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Writes the table of cases in docs/transparency.md anew: runs every case here, and those for
# which this machine's kernel lacks something in a machine of lab/test/kernels (KERNEL, 6.12).
#
#   lab/test/transparency/table.sh           # the whole table
#   lab/test/transparency/table.sh HERE THERE  # from what those runs printed (two files)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

doc=docs/transparency.md kernel=${KERNEL:-6.12}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

rows() { tr -d '\r' <"$1" | grep -E '^\| [0-9]+ \| ' || true; }

if [ $# -eq 2 ]; then
	cp "$1" "$work/here.log"
	cp "$2" "$work/there.log"
else
	make transparency MARKDOWN=1 | tee "$work/here.log"
	lacking=$(rows "$work/here.log" | awk -F' [|] ' '/needs / { printf "%s%s$", sep, $2; sep = "|TestCases/" }')
	: >"$work/there.log"
	if [ -n "$lacking" ]; then
		KERNELS=$kernel CASE=$lacking MARKDOWN=1 lab/test/transparency/kernels.sh | tee "$work/there.log"
	fi
fi
rows "$work/here.log" >"$work/here"
rows "$work/there.log" >"$work/there"

{
	echo "| point | case | shows | \`--carry mark\` | \`--carry header\` | known | \`make transparency\` ... |"
	echo "|---|---|---|---|---|---|---|"
	awk -F' [|] ' -v kernel="$kernel" '
		FILENAME == ARGV[1] { there[$2] = $0; next } # which may be empty
		{
			name = $2
			where = ""
			if (/needs / && name in there) {
				$0 = there[name]
				where = " KERNELS=" kernel
			}
			print $0 " `CASE=" name where "` |"
		}' "$work/there" "$work/here"
} | lab/section.sh "$doc" cases
if grep -E '^\| [0-9]+ \| .*(needs |FAILED)' "$doc"; then
	echo "$doc: these cases have no result" >&2
	exit 1
fi
