#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The README's picture and sample, of one run of the demo: docs/demo.svg, and the section "demo" of README.md.
#
# usage: lab/picture.sh path/to/radar
set -euo pipefail

lab=$(dirname "$0")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
DEMO_RECORDS=$tmp/records NO_COLOR=1 "$lab/demo.sh" "${1:?usage: picture.sh path/to/radar}" | tee "$tmp/output"
"$lab/picture.py" "$tmp/records" >"$tmp/picture"
answer() { # answer COMMAND: it, and the rows that follow
	awk -v command="\$ $1" '$0 == command { on = 1; print; next } on && ($0 == "" || /^[$#]/ || /^radar:/) { exit } on' "$tmp/output"
}
{
	printf '```console\n# make demo\n...\n'
	answer "radar paths"
	answer "radar loss"
	printf '```\n'
} >"$tmp/sample"
for header in 'PACKETS.*PATH' 'PACKETS.*WHY'; do
	grep -qx "$header" "$tmp/sample" || { echo "picture.sh: the demo has printed no table $header" >&2; exit 1; }
done
"$lab/section.sh" "$lab/../README.md" demo <"$tmp/sample"
cat "$tmp/picture" >"$lab/../docs/demo.svg"
