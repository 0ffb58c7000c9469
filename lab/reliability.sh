#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Puts what it reads into a section of docs/reliability.md, in place of what is there, with
# the date and the kernel. The sections fuzz and endure are records: lines that begin with a
# date are added to those that are there, and summed.
#
#   lab/reliability.sh mutants <bin/mutants.txt
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: reliability.sh SECTION < TEXT" >&2; exit 2; }
page=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/docs/reliability.md
for mark in "<!-- $1 -->" "<!-- /$1 -->"; do
	grep -qxF -e "$mark" "$page" || { echo "reliability.sh: $page has no line $mark" >&2; exit 1; }
done

# lines prints those of a record that are there, and the new ones.
lines() {
	{ sed -n "/^<!-- $1 -->\$/,/^<!-- \/$1 -->\$/p" "$page"; cat; } |
		grep -E '^[0-9]{4}-[0-9]{2}-[0-9]{2}  ' | awk '!seen[$0]++'
}

# total adds a line: every number before one of these words, summed.
total() {
	awk '{ print
		for (i = 2; i <= NF; i++) if ($i ~ /^(scripts|packets|hooks|s|wrong)$/) {
			if (!($i in sum)) order[++n] = $i
			sum[$i] += $(i - 1)
		}
	}
	END {
		printf "all:"
		for (i = 1; i <= n; i++) printf "  %.0f %s", sum[order[i]], order[i]
		printf "  (%.1f h)\n", sum["s"] / 3600
	}'
}

text=$(mktemp)
trap 'rm -f "$text" "$page.new"' EXIT
{
	echo
	echo "$(date -u +%Y-%m-%d), Linux $(uname -r | cut -d- -f1), $(nproc) CPUs:"
	echo
	echo '```'
	case $1 in
	fuzz | endure) lines "$1" | total ;;
	*) cat ;;
	esac
	echo '```'
	echo
} >"$text"
[ "$(wc -l <"$text")" -gt 6 ] || { echo "reliability.sh: there is nothing to write" >&2; exit 1; }
awk -v section="$1" -v text="$text" '
	$0 == "<!-- /" section " -->" { inside = 0 }
	!inside { print }
	$0 == "<!-- " section " -->" { inside = 1; while ((getline line < text) > 0) print line }
' "$page" >"$page.new"
mv "$page.new" "$page"
