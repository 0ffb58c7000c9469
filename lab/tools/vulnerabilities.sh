#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Looks for known vulnerabilities in what radar is compiled from, as far as radar calls what is
# vulnerable: govulncheck, with the database of the Go project (GOVULNDB names another).
# Where the program or the database cannot be reached, it says so and does not fail: a machine
# without a network has no other answer.
#
#   lab/tools/vulnerabilities.sh [PACKAGE]     (./cmd/radar)
#
# Exit status: 1 if there is a vulnerability, or govulncheck does not work.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=v1.9.0
bin=$PWD/bin/govulncheck-$version
database=${GOVULNDB:-https://vuln.go.dev}
package=${1:-./cmd/radar}

unseen() {
	printf 'vulnerabilities.sh: NOT LOOKED AT: %s\n' "$1"
	exit 0
}

# Before govulncheck is built, and looks at the whole program: that takes minutes.
! command -v curl >/dev/null || curl -fsSL --max-time 60 -o /dev/null "$database/index/db.json" 2>/dev/null || unseen "fetching vulnerabilities: $database cannot be reached"
if [ ! -x "$bin/govulncheck" ]; then
	out=$(GOBIN=$bin go install "golang.org/x/vuln/cmd/govulncheck@$version" 2>&1) || unseen "govulncheck cannot be fetched: ${out##*$'\n'}"
fi
status=0
out=$("$bin/govulncheck" -db "$database" "$package" 2>&1) || status=$?
case $status in
0 | 3) ;; # 3: there are some
*) case $out in *'fetching vulnerabilities'* | *'creating client'*) unseen "${out##*$'\n'}" ;; esac ;;
esac
printf '%s\n' "$out"
[ $status -eq 0 ] || exit 1
