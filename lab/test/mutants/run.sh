#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Whether the tests find bugs: puts one bug at a time, PATCH files beside this script, into a
# copy of the tree, and runs the tests that its line "Tests:" names. Each must fail, and by a
# test, not by the build. Needs root, as those tests do.
#
#   lab/test/mutants/run.sh                # all
#   lab/test/mutants/run.sh ecn-lost ...   # these
#
# Exit status: 0 if every bug was found, 1 if one was not, or could not be tried.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../.."

die() { echo "run.sh: $*" >&2; exit 1; }

[ "$(id -u)" -eq 0 ] || die "needs root: the tests load BPF programs"

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
	for patch in "$here"/*.patch; do names+=("$(basename "$patch" .patch)"); done
fi
for name in "${names[@]}"; do
	[ -f "$here/$name.patch" ] || die "no bug $name, there are: $(cd "$here" && echo ./*.patch | sed 's|\./||g; s|\.patch||g')"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT

# field NAME FILE prints what a line "NAME: ..." of the patch says.
field() { sed -n "s/^$1: //p" "$2" | head -n 1; }

# copy makes $work/tree: what is in the tree now, committed or not.
copy() {
	rm -rf "$work/tree"
	mkdir "$work/tree"
	git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$work/tree"
}

# passes checks that these tests find nothing where nothing was put in.
passes() {
	copy
	(cd "$work/tree" && go test -count=1 "$@" >"$work/log" 2>&1) || { cat "$work/log"; die "$* fails without any bug"; }
}

# try NAME prints the verdict.
try() {
	local patch=$here/$1.patch log=$work/log tests failed
	read -ra tests <<<"$(field Tests "$patch")"
	[ ${#tests[@]} -gt 0 ] || { echo "names no tests"; return; }
	copy
	cd "$work/tree"
	patch -s -p1 -F0 --no-backup-if-mismatch <"$patch" >"$log" 2>&1 || { echo "does not apply"; return; }
	if grep -q '^+++ b/bpf/' "$patch"; then
		go generate ./pkg/bpfobj >"$log" 2>&1 || { echo "does not compile"; return; }
	fi
	go vet "${tests[@]}" >"$log" 2>&1 || { echo "does not build"; return; }
	if go test -count=1 -failfast "${tests[@]}" >"$log" 2>&1; then
		echo "NOT FOUND"
	elif grep -qE 'load program:|program .*: permission denied' "$log"; then
		echo "does not load" # the verifier is no test of ours
	elif failed=$(sed -nE 's/^ *--- FAIL: ([^ ]+).*/\1/p' "$log" | head -n 1) && [ -n "$failed" ]; then
		echo "found by $failed"
	else
		echo "no test failed, the run did (timeout, crash)"
	fi
}

# shellcheck disable=SC2046 # one word for each package
passes $(for name in "${names[@]}"; do field Tests "$here/$name.patch"; done | sort -u)

found=0
printf '%-26s %-62s %s\n' BUG WHAT RESULT
for name in "${names[@]}"; do
	verdict=$(try "$name")
	case $verdict in "found by "?*) found=$((found + 1)) ;; esac
	printf '%-26s %-62s %s\n' "$name" "$(field What "$here/$name.patch")" "$verdict"
done
echo
echo "$found of ${#names[@]} found"
[ "$found" -eq ${#names[@]} ]
