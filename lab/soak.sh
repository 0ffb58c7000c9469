#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tries every fault of the table in docs/reliability.md as often as it says. The page with
# the results is bin/reliability.md.
#
#   lab/soak.sh                # all: some half an hour
#   lab/soak.sh AgentEnds      # those of lab/test/e2e whose name matches, without a page
#
# RECORD=1   the results go into docs/reliability.md and docs/results/reliability.md
# RADAR_BIN  the binary to test (one is built)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ $# -le 1 ] || { echo "usage: soak.sh [REGEXP]" >&2; exit 2; }
mkdir -p bin
e2e=$PWD/bin/soak.json units=bin/soak-units.json page=docs/reliability.md
if [ $# -eq 1 ]; then
	RADAR_SOAK=1 go test -count=1 -v -timeout 8h -run "^Test($1)\$" ./lab/test/e2e
	exit
fi
names=$(lab/soak.py names e2e)
RADAR_SOAK=1 RADAR_E2E_JSON=$e2e go test -count=1 -v -timeout 8h -run "$names" ./lab/test/e2e
names=$(lab/soak.py names units)
mapfile -t packages < <(go list ./bpf/test ./pkg/... | grep -v /lab/test/kernels)
go test -count=1 -json -run "$names" "${packages[@]}" >"$units" || { cat "$units"; exit 1; }
lab/soak.py tables "$e2e" >bin/soak.txt
lab/soak.py write "$e2e" "$units" <"$page" >bin/reliability.md
[ -z "${RECORD:-}" ] || cp bin/reliability.md "$page" # only now that both are there
lab/reliability.sh soak <bin/soak.txt
