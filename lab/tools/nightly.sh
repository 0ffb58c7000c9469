#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Everything that takes too long for each change: hours. Each step is a command that one can
# call by itself. A step that fails does not stop those after it.
#
#   lab/tools/nightly.sh                   # all
#   lab/tools/nightly.sh transparency race # these
#
# RECORD=1  also writes the results into docs/reliability.md and docs/results, with the commit, and into
#           docs/kernels.md: once for each release (make bench-record writes docs/performance.md)
#
# What each step prints goes to bin/nightly/STEP.log.
# Exit status: 0 if every step passed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Steps, in the order in which they run, and their commands. This tier checks times, so
# nothing runs beside.
steps=(generated tests e2e transparency kathara packets install vulnerabilities race fuzz mutants kernels soak endure bench experiments)
# shellcheck disable=SC2016 # expands where the command runs
declare -A command=(
	[generated]='lab/tools/generated.sh all'
	[tests]='lab/tools/test.sh $(go list ./... | grep -v -e /lab/test/e2e -e /lab/kathara/e2e -e /lab/test/transparency)'
	[e2e]='lab/tools/test.sh ./lab/test/e2e -- -v'
	[transparency]='make --no-print-directory transparency'
	[kathara]='make --no-print-directory kathara ALL=1'
	[packets]='make --no-print-directory packets CHECK=1'
	[install]='lab/tools/packages_test.sh && lab/tools/install_test.sh'
	[vulnerabilities]='lab/tools/vulnerabilities.sh'
	[race]='make --no-print-directory race'
	[fuzz]='make --no-print-directory fuzz FUZZ=1000 PACKETS=10m INT=10m'
	[mutants]='make --no-print-directory mutants'
	[kernels]='make --no-print-directory kernels'
	[soak]='make --no-print-directory soak'
	[endure]='make --no-print-directory endure PIECE=1h'
	[bench]='make --no-print-directory bench bench-check'
	[experiments]='make --no-print-directory experiments'
)
export RADAR_TIER=nightly SIDE_BY_SIDE=1 RECORD=${RECORD:-}
export RADAR_BIN=${RADAR_BIN:-$PWD/bin/radar}

for name in "$@"; do
	[ -n "${command[$name]:-}" ] || { echo "nightly.sh: no step $name, there are: ${steps[*]}" >&2; exit 2; }
done
[ $# -eq 0 ] || steps=("$@")
[ "$(id -u)" -eq 0 ] || { echo "nightly.sh: needs root: most steps attach programs in network namespaces" >&2; exit 1; }

mkdir -p bin/nightly
: >bin/flaky.txt
trap 'exit 130' INT TERM # not on to the next step
table=$(printf '%-15s %-8s %s' STEP RESULT SECONDS)
status=0
for name in "${steps[@]}"; do
	printf '\n=== %s: %s\n' "$name" "${command[$name]}"
	start=$SECONDS result=ok
	bash -euo pipefail -c "${command[$name]}" 2>&1 | tee "bin/nightly/$name.log" || { result=FAILED status=1; }
	# Without a network there is no database of vulnerabilities: that is no ok.
	if [ $result = ok ] && grep -q 'NOT LOOKED AT' "bin/nightly/$name.log"; then result=UNSEEN; fi
	table+=$(printf '\n%-15s %-8s %s' "$name" "$result" "$((SECONDS - start))")
done
printf '\n%s\n' "$table" | tee bin/nightly/results.txt
grep -v '^#' bin/flaky.txt | sed 's/^/FLAKY: /' || true
[ $status -eq 0 ] || echo "what a step printed is in bin/nightly/STEP.log"
exit $status
