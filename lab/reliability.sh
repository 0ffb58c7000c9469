#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints what it reads as a section of docs/results/reliability.md, with the date, the commit and the
# kernel. The sections fuzz and endure are records: lines that begin with a date are added to
# those that are there, and summed.
#
#   lab/reliability.sh mutants <bin/mutants.txt            # prints it
#   RECORD=1 lab/reliability.sh mutants <bin/mutants.txt   # puts it into the page
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: reliability.sh SECTION < TEXT" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
page=$here/../docs/results/reliability.md

# lines prints those of a record that are there, and the new ones.
lines() {
	{ sed -n "/^<!-- $1 -->\$/,/^<!-- \/$1 -->\$/p" "$page"; cat; } |
		grep -E '^[0-9]{4}-[0-9]{2}-[0-9]{2}  ' | awk '!seen[$0]++'
}

# total adds a line: every number before one of these words, summed; those of lines that say
# FAILED in a line of its own.
total() {
	awk '{ print
		what = /  FAILED/ ? "failed" : "all"
		lines[what]++
		for (i = 2; i <= NF; i++) if ($i ~ /^(scripts|packets|hooks|s|wrong)$/) {
			if (!($i in seen)) { seen[$i]; order[++n] = $i }
			sum[what, $i] += $(i - 1)
		}
	}
	function write(what, title) {
		if (!lines[what]) return
		printf "%s:", title
		for (i = 1; i <= n; i++) printf "  %.0f %s", sum[what, order[i]], order[i]
		printf "  (%.1f h)\n", sum[what, "s"] / 3600
	}
	END {
		write("all", lines["failed"] ? "all that passed" : "all")
		write("failed", "all that failed")
	}'
}

case $1 in
fuzz | endure) text=$(lines "$1" | total) ;;
*) text=$(cat) ;;
esac
[ -n "$text" ] || { echo "reliability.sh: there is nothing to write" >&2; exit 1; }
section() {
	if [ -n "${RECORD:-}" ]; then "$here/section.sh" "$page" "$1"; else cat; fi
}
section "$1" <<TEXT
$(date -u +%Y-%m-%d), commit $(git -C "$here" describe --always --dirty), Linux $(uname -r | cut -d- -f1), $(nproc) CPUs:

\`\`\`
$text
\`\`\`
TEXT
