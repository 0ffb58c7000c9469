#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Puts what it reads into a section of a page, in place of what is there: between the
# lines <!-- SECTION --> and <!-- /SECTION -->.
#
#   lab/section.sh docs/transparency.md cases <TEXT
set -euo pipefail

[ $# -eq 2 ] || { echo "usage: section.sh PAGE SECTION < TEXT" >&2; exit 2; }
page=$1 section=$2
for mark in "<!-- $section -->" "<!-- /$section -->"; do
	grep -qxF -e "$mark" "$page" || { echo "section.sh: $page has no line $mark" >&2; exit 1; }
done
text=$(mktemp)
trap 'rm -f "$text" "$page.new"' EXIT
cat >"$text"
[ -s "$text" ] || { echo "section.sh: there is nothing to write" >&2; exit 1; }
awk -v section="$section" -v text="$text" '
	$0 == "<!-- /" section " -->" { inside = 0; print "" }
	!inside { print }
	$0 == "<!-- " section " -->" { inside = 1; print ""; while ((getline line < text) > 0) print line }
' "$page" >"$page.new"
mv "$page.new" "$page"
