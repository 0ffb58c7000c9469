#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Puts what it reads into a section of docs/reliability.md, in place of what is there, with
# the date and the kernel.
#
#   make mutants | lab/reliability.sh mutants
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: reliability.sh SECTION < TEXT" >&2; exit 2; }
page=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/docs/reliability.md
grep -q "^<!-- $1 -->$" "$page" || { echo "reliability.sh: $page has no section $1" >&2; exit 1; }
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
awk -v section="$1" -v text="$text" '
	$0 == "<!-- /" section " -->" { inside = 0 }
	!inside { print }
	$0 == "<!-- " section " -->" { inside = 1; while ((getline line < text) > 0) print line }
' "$page" >"$page.new"
mv "$page.new" "$page"
