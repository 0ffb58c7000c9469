#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Everything that is tried on other kernels, one kernel after the other: the tests of
# run.sh, and the cases of lab/transparency that this machine's kernel lacks something
# for. Writes what came of it into docs/kernels.md, in the rows of these kernels.
#
#   lab/kernels/matrix.sh                 # all that fetch.sh knows
#   KERNELS="6.12 sid" lab/kernels/matrix.sh
#
# Variables and exit status are those of run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

page=docs/kernels.md all="5.10 6.1 6.12 backports sid"
read -ra kernels <<<"${KERNELS:-$all}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT

# lacking prints, as CASE wants them, the cases that this machine cannot run.
lacking() {
	RADAR_LACKING=1 RADAR_BIN=none go test -count=1 -v -run 'TestLacking$' ./lab/transparency >"$work/lacking" ||
		{ cat "$work/lacking" >&2; return 1; }
	sed -nE 's/^lacking: ([^ ]+) .*/\1/p' "$work/lacking" | awk '{ printf "%s%s$", sep, $0; sep = "|TestCases/" }'
}

# row KERNEL prints its row from the two logs. The programs' features are those that the
# tests found, what is lacking is in the words of the tests that asked for it.
row() {
	local tests=$work/$1.tests cases=$work/$1.cases hooks=clsact reasons=none local_in=no
	local package passed role lacks held verdict
	package=$(sed -n "s/^== $1: //p" "$tests")
	grep -q 'features: .* TCX:true' "$tests" && hooks+=", TCX"
	grep -q 'features: .* DropReason:true' "$tests" && reasons="by name"
	grep -q 'features: .* LocalIn:true' "$tests" && local_in=yes
	passed=$(awk '/^radar-kernels: .*\.test$/ { role = /bpf-test/ } /^ *--- PASS/ && !role { n++ } END { print n + 0 }' "$tests")
	role=$(awk '/^radar-kernels: .*\.test$/ { role = /bpf-test/ } /^ *--- PASS/ && role { n++ } END { print n + 0 }' "$tests")
	held=$(grep -cE '^row: .*[|] ok[^|]*[|]$' "$cases" || true)
	lacks=$({
		sed -nE 's/^ *[a-z0-9_]+\.go:[0-9]+: .*[^a-z]lacks (.*)$/\1/p; s/^lacks: //p' "$tests"
		sed -nE 's/^row: .*[|] needs ([^|]*) [|]$/\1/p' "$cases"
	} | sort -u | paste -sd ';' | sed 's/;/; /g')
	[ "$(cat "$work/$1.status")" = 0 ] && verdict="ok" || verdict="**FAILED**"
	echo "| $1 | $package | $hooks | $reasons | $local_in | ${passed/#0/-} | ${role/#0/-} | ${held/#0/-} | ${lacks:--} | $verdict | $(date -u +%Y-%m-%d) |"
}

# write puts the rows of these kernels in place of those that the page has.
write() {
	local kernel
	{
		echo "| kernel | package (Debian) | hooks | drop reason | \`LOCAL_IN\` | tests | role tests | difference runs | lacking there | result | date |"
		echo "|---|---|---|---|---|---|---|---|---|---|---|"
		for kernel in $all; do
			if [ -s "$work/$kernel.row" ]; then
				cat "$work/$kernel.row"
			else
				grep -m 1 -F "| $kernel | linux-" "$page" || true
			fi
		done
	} >"$work/results"
	lab/section.sh "$page" results <"$work/results"
	lab/kernels/sizes.sh table | lab/section.sh "$page" sizes
}

cases=$(lacking)
echo "cases that this machine lacks something for: $(grep -c ^lacking: "$work/lacking" || true)"
status=0
for kernel in "${kernels[@]}"; do
	failed=0
	KERNELS=$kernel lab/kernels/run.sh | tee "$work/$kernel.tests" || failed=1
	: >"$work/$kernel.cases"
	if [ -n "$cases" ]; then
		KERNELS=$kernel CASE=$cases lab/transparency/kernels.sh | tee "$work/$kernel.cases" || failed=1
	fi
	echo $failed >"$work/$kernel.status"
	[ $failed = 0 ] || status=1
	grep -q "^== $kernel: " "$work/$kernel.tests" || continue # no kernel, no row
	row "$kernel" >"$work/$kernel.row"
	write # now: the rest takes long
done
echo
cat "$work/results" 2>/dev/null || true
exit $status
