#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Puts what it reads into a section of docs/reliability.md, in place of what is there, with
# the date and the kernel.
#
#   lab/reliability.sh mutants <bin/mutants.txt
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: reliability.sh SECTION < TEXT" >&2; exit 2; }
page=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/docs/reliability.md
for mark in "<!-- $1 -->" "<!-- /$1 -->"; do
	grep -qxF -e "$mark" "$page" || { echo "reliability.sh: $page has no line $mark" >&2; exit 1; }
done
text=$(mktemp)
trap 'rm -f "$text" "$page.new"' EXIT
{
	echo
	echo "$(date -u +%Y-%m-%d), Linux $(uname -r | cut -d- -f1), $(nproc) CPUs:"
	echo
	echo '```'
	cat
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
