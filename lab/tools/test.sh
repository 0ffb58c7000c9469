#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs Go tests, several packages side by side: most of the time they wait.
#
#   lab/tools/test.sh                         # all that make test runs
#   lab/tools/test.sh ./lab/kathara/e2e ...   # these packages
#   lab/tools/test.sh -- -race                # more flags for go test
#   lab/tools/test.sh --flaky                 # runs nothing, names what was flaky
#
# A test that fails runs once more. If it passes then, it is flaky: the end of the run
# names it, and so does bin/flaky.txt, to which every run adds (make test and .ci/run
# begin a new one). A test that fails twice fails the run, and so does, the first time, a data
# race, or a package that fails though none of its tests does.
#
# A package is not run whose tests have passed before with the same inputs: go test has the pass in its cache, and package
# lab/test/need says what it depends on. The run names these packages. A package in which a test failed, even once, is
# never kept.
#
# FORCE=1        runs all packages; so does RADAR_TIER=nightly
# SIDE_BY_SIDE   how many packages at once (6)
# RADAR_REQUIRE  what tests must not be skipped for (root tools docker pcap)
# RADAR_TIER     of lab/test/need (test)
# bin/test.json has all that was printed, as go test -json; of a run of some packages,
# bin/test-FIRST.json, by the letters of the first.
#
# Exit status: 0 if every test passed, at least the second time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

export RADAR_REQUIRE=${RADAR_REQUIRE-root tools docker pcap}

# flaky names the tests that are known to be flaky until their cause is fixed, and those that
# this run found to be.
flaky() {
	[ -e bin/flaky.txt ] || : >bin/flaky.txt
	echo
	grep -v '^#' lab/tools/flaky.txt | sed 's/^/known to be flaky: /' || true
	grep -v '^#' bin/flaky.txt | sed 's/^/FLAKY: /' || true
	[ -s bin/flaky.txt ] || echo "flaky tests: none"
}
if [ "${1:-}" = --flaky ]; then
	flaky
	exit
fi
packages=() json=bin/test.json
while [ $# -gt 0 ] && [ "$1" != -- ]; do packages+=("$1"); shift; done
[ $# -eq 0 ] || shift

[ ${#packages[@]} -eq 0 ] || json=bin/test-$(tr -dc 'a-z0-9' <<<"${packages[0]}").json
# Those that take longest begin first: else the last of them would run alone.
if [ ${#packages[@]} -eq 0 ]; then
	first=(./pkg/vnet/datapath ./lab/test/browser ./lab/test/e2e ./lab/test/transparency ./pkg/cli/domain ./pkg/cli/ask ./pkg/cli/collect ./bpf/test)
	module=$(go list -m)
	rest=$(go list ./... | sed "s|^$module|.|" | grep -vxF -f <(printf '%s\n' "${first[@]}" ./lab/kathara/e2e))
	mapfile -t rest <<<"$rest"
	packages=("${first[@]}" "${rest[@]}")
fi

fresh=()
if [ -n "${FORCE:-}" ] || [ "${RADAR_TIER:-}" = nightly ]; then fresh=(-count=1); fi
variables=$(lab/tools/state.sh variables) # a failure ends the run here, not within eval
eval "$variables"

mkdir -p bin
report=$(mktemp)
tests=$(mktemp) # a program: go test of all packages, or again of "-run=TEST PACKAGE"
trap 'rm -f "$report" "$tests"' EXIT
failed=0
# make lint has vetted everything. A second run is never an earlier pass, which would hide that a test fails each time.
# Nobody reads the debug information of these programs, and to write it is most of the linker's work.
flags=(-vet=off -ldflags=-w -p "${SIDE_BY_SIDE:-6}" -parallel 6 -timeout 30m "$@")
{
	printf 'if [ $# -gt 0 ]; then exec go test -json'
	printf ' %q' -count=1 "${flags[@]}"
	printf ' "$@"; fi\nexec go test -json'
	printf ' %q' ${fresh[@]+"${fresh[@]}"} "${flags[@]}" "${packages[@]}"
} >"$tests"
go tool gotestsum --format pkgname --format-hide-empty-pkg --hide-summary skipped \
	--jsonfile "$json" --rerun-fails=1 --rerun-fails-report "$report" --rerun-fails-run-root-test \
	--rerun-fails-abort-on-data-race --raw-command -- bash "$tests" || failed=$?

# A second run of failed tests says nothing of a package that failed without one (its TestMain:
# something was left behind), nor of tests that a killed program had not begun.
broken=$(jq -rs '[.[] | select(.Package)] | group_by(.Package)[]
	| select((any(.Action == "fail" and .Test == null) and (any(.Action == "fail" and .Test != null) | not))
		or any(.Action == "output" and (.Output // "" | startswith("signal: "))))
	| .[0].Package' "$json" 2>/dev/null || echo "$json cannot be read")
if [ -n "$broken" ]; then
	awk '{ print "FAILED as a package, or was killed: " $0 }' <<<"$broken"
	[ "$failed" -ne 0 ] || failed=1
fi

kept=$(jq -r 'select(.Action == "output" and .Test == null and (.Output | test("^ok .*\\(cached\\)"))) | .Package' "$json" 2>/dev/null | sed "s|^$(go list -m)/||" | sort -u)
if [ -n "$kept" ]; then
	echo "$(wc -l <<<"$kept") packages passed before with the same inputs, and were not run (FORCE=1 runs them):"
	paste -sd' ' <<<"$kept" | fold -s -w 120 | sed 's/^/  /'
fi

# Lines of the report: PACKAGE.TEST: N runs, M failures
found=$(sed -nE 's/^(.*): ([0-9]+) runs?, ([0-9]+) failures?$/\2 \3 \1/p' "$report" | awk '$1 > $2 { print $3 }')
if [ -n "$found" ]; then
	{ echo "# $(date -u '+%Y-%m-%d %H:%M'), commit $(git describe --always --dirty 2>/dev/null || echo unknown)"; echo "$found"; } >>bin/flaky.txt
fi
flaky
exit "$failed"
