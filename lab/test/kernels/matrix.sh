#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Everything that is tried on other kernels, one kernel after the other, in parts: the tests
# of lab/test/kernels, the role tests of bpf/test, and the cases of lab/test/transparency that this
# machine's kernel lacks something for. Writes what came of it into a copy of docs/kernels.md,
# bin/kernels.md, in the rows of these kernels, after each part: what is there of the others,
# in bin/kernels, stays.
#
#   lab/test/kernels/matrix.sh                 # all that fetch.sh knows
#   KERNELS="6.12 sid" lab/test/kernels/matrix.sh
#   KERNELS=6.1 PARTS=runs lab/test/kernels/matrix.sh
#
# PARTS     of "tests role runs" (all)
# RECORD=1  docs/kernels.md itself is written, and lab/test/kernels/sizes.txt
# The other variables and the exit status are those of run.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

page=docs/kernels.md all="5.10 6.1 6.12 backports sid"
read -ra kernels <<<"${KERNELS:-$all}"
read -ra parts <<<"${PARTS:-tests role runs}"
for part in "${parts[@]}"; do
	case $part in
	tests | role | runs) ;;
	*) echo "matrix.sh: no part $part: use tests, role, runs" >&2; exit 2 ;;
	esac
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
kept=$PWD/bin/kernels # KERNEL.PART: what it printed, last of all a line "status: N"
mkdir -p "$kept"
if [ -z "${RECORD:-}" ]; then
	cp "$page" bin/kernels.md
	page=bin/kernels.md
fi

# lacking prints, as CASE wants them, the cases that this machine cannot run.
lacking() {
	RADAR_REQUIRE="root tools" RADAR_LACKING=1 RADAR_BIN=none go test -count=1 -v -run 'TestLacking$' ./lab/test/transparency >"$work/lacking" ||
		{ cat "$work/lacking" >&2; return 1; }
	sed -nE 's/^lacking: ([^ ]+) .*/\1/p' "$work/lacking" | awk '{ printf "%s%s$", sep, $0; sep = "|TestCases/" }'
}

# printed KERNEL PART...: what these parts printed, as far as they were run.
printed() {
	local kernel=$1 part
	for part in "${@:2}"; do
		[ ! -e "$kept/$kernel.$part" ] || cat "$kept/$kernel.$part"
	done
}

# row KERNEL prints its row. The programs' features are those that the tests found, what is
# lacking is in the words of the tests that asked for it; the date is that of the oldest part.
row() {
	local hooks=clsact reasons=none local_in=no package passed role held lacks verdict oldest
	local -a there
	package=$(printed "$1" tests role runs | sed -n "s/^== $1: //p" | tail -n 1)
	printed "$1" tests >"$work/tests"
	grep -q 'features: .* TCX:true' "$work/tests" && hooks+=", TCX"
	grep -q 'features: .* DropReason:true' "$work/tests" && reasons="by name"
	grep -q 'features: .* LocalIn:true' "$work/tests" && local_in=yes
	passed=$(grep -cE '^ *--- PASS' "$work/tests" || true)
	role=$(printed "$1" role | grep -cE '^ *--- PASS' || true)
	held=$(printed "$1" runs | grep -cE '^row: .*[|] ok[^|]*[|]$' || true)
	lacks=$(printed "$1" tests role runs | sed -nE 's/^ *[a-z0-9_]+\.go:[0-9]+: .*[^a-z]lacks (.*)$/\1/p; s/^lacks: //p
		/whose clock the test may set/d; s/^ *[a-z0-9_]+\.go:[0-9]+: needs (kernel|pcap): (.*)$/\2/p
		s/^row: .*[|] needs ([^|]*) [|]$/\1/p' | sort -u | paste -sd ';' | sed 's/;/; /g')
	verdict=ok
	! printed "$1" tests role runs | grep -q '^status: [^0]' || verdict="**FAILED**"
	there=("$kept/$1".*)
	oldest=$(stat -c %Y "${there[@]}" | sort -n | head -n 1)
	echo "| $1 | $package | $hooks | $reasons | $local_in | ${passed/#0/-} | ${role/#0/-} | ${held/#0/-} | ${lacks:--} | $verdict | $(date -u -d "@$oldest" +%Y-%m-%d) |"
}

# write puts the rows of these kernels in place of those that the page has.
write() {
	local kernel
	{
		echo "| kernel | package (Debian) | hooks | drop reason | \`LOCAL_IN\` | tests | role tests | difference runs | lacking there | result | date |"
		echo "|---|---|---|---|---|---|---|---|---|---|---|"
		for kernel in $all; do
			if compgen -G "$kept/$kernel.*" >/dev/null; then
				row "$kernel"
			else
				grep -m 1 -F "| $kernel | linux-" "$page" || true
			fi
		done
	} >"$work/results"
	lab/section.sh "$page" results <"$work/results"
	lab/test/kernels/sizes.sh table | lab/section.sh "$page" sizes
}

# try KERNEL PART runs it and prints what it prints.
try() {
	case $2 in
	tests) KERNELS=$1 PACKAGES=./lab/test/kernels lab/test/kernels/run.sh ;;
	role) KERNELS=$1 PACKAGES=./bpf/test lab/test/kernels/run.sh ;;
	runs) KERNELS=$1 CASE=$cases lab/test/transparency/kernels.sh ;;
	esac
}

cases=
case " ${parts[*]} " in
*" runs "*)
	cases=$(lacking)
	echo "cases that this machine lacks something for: $(grep -c ^lacking: "$work/lacking" || true)"
	;;
esac
status=0
for kernel in "${kernels[@]}"; do
	for part in "${parts[@]}"; do
		[ "$part" != runs ] || [ -n "$cases" ] || continue
		failed=0
		try "$kernel" "$part" 2>&1 | tee "$work/part" || failed=1
		[ $failed = 0 ] || status=1
		grep -q "^== $kernel: " "$work/part" || continue # no kernel, no row
		{ cat "$work/part"; echo "status: $failed"; } >"$kept/$kernel.$part"
		write # now: the rest takes long
	done
done
echo
cat "$work/results" 2>/dev/null || true
exit $status
