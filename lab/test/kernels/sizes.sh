#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# sizes.sh KERNEL RELEASE: holds what the programs cost on a kernel, read from a log of
# lab/test/kernels, against sizes.txt: 10 % more of anything is too much. With RECORD=1 it
# is recorded instead.
# sizes.sh table: what is recorded, for docs/kernels.md.
set -euo pipefail
record=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/sizes.txt

if [ "${1:-}" = table ]; then
	exec awk '
		/^#/ { next }
		!($1 in seen) { seen[$1] = 1; kernels[++n] = $1 }
		!($3 in known) { known[$3] = 1; programs[++m] = $3 }
		{ cell[$1, $3] = $4 " / " $5 }
		END {
			line = "| program |"; rule = "|---|"
			for (i = 1; i <= n; i++) { line = line " " kernels[i] " |"; rule = rule "---|" }
			print line; print rule
			for (j = 1; j <= m; j++) {
				line = "| `" programs[j] "` |"
				for (i = 1; i <= n; i++) line = line " " ((kernels[i], programs[j]) in cell ? cell[kernels[i], programs[j]] : "-") " |"
				print line
			}
		}' "$record"
fi
[ $# -eq 2 ] || { echo "usage: sizes.sh KERNEL RELEASE < LOG" >&2; exit 2; }
kernel=$1 release=$2
found=$(mktemp)
trap 'rm -f "$found" "$record.new"' EXIT
# Lines of the log: size: PROGRAM LOOKED-AT INSTRUCTIONS BYTES
sed -n 's/^size: //p' | LC_ALL=C sort >"$found"
[ -s "$found" ] || { echo "sizes.sh: the log names no sizes" >&2; exit 1; }

if [ -n "${RECORD:-}" ]; then
	{
		grep '^#' "$record"
		{
			awk -v kernel="$kernel" '!/^#/ && $1 != kernel { print $1, $2, $3, $4, $5, $6 }' "$record"
			awk -v kernel="$kernel" -v release="$release" '{ print kernel, release, $0 }' "$found"
		} | LC_ALL=C sort -k1,1V -k3,3 | column -t
	} >"$record.new"
	mv "$record.new" "$record"
	exit
fi
awk -v kernel="$kernel" '
	FNR == NR { if ($1 == kernel) { on[$3] = $2; for (i = 1; i <= 3; i++) was[$3, i] = $(i + 3) } next }
	!($1 in on) { print $1 " is not recorded"; bad = 1; next }
	{
		tried[$1] = 1
		for (i = 1; i <= 3; i++)
			if ($(i + 1) > was[$1, i] * 1.1) {
				printf "%s: %s %d, recorded on %s: %d\n", $1,
					i == 1 ? "instructions that the verifier looked at:" : i == 2 ? "instructions:" : "bytes of machine code:",
					$(i + 1), on[$1], was[$1, i]
				bad = 1
			}
	}
	END {
		for (p in on) if (!(p in tried)) { print p " is recorded, but was not loaded"; bad = 1 }
		exit bad
	}' "$record" "$found" >&2 || {
	echo "sizes.sh: $kernel: programs have grown by more than 10 %: if they must," \
		"RECORD=1 KERNELS=$kernel PACKAGES=./lab/test/kernels lab/test/kernels/run.sh records it" >&2
	exit 1
}
