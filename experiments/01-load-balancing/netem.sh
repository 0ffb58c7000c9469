#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The delays of this experiment by netem, on a Debian kernel in an emulated machine, and
# what radar tells of them: bin/experiments/01-netem.json.
#
#   KERNEL=6.12 experiments/01-load-balancing/netem.sh    # see lab/test/kernels/fetch.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=bin/experiments/01-netem.json

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A shell and an nsenter of their own: busybox's would call its own ip and tc.
export KERNELS=${KERNEL:-6.12} PACKAGES=./experiments/netem COMMANDS=./cmd/radar
export TOOLS="sh nsenter ip tc tcpdump" TEST_ENV="RADAR_BIN=/tools/radar"
if ! lab/test/kernels/run.sh | tee "$work/log"; then
	echo "netem.sh: the test failed on Linux $KERNELS" >&2
	exit 1
fi
sed -n 's/^netem: //p' "$work/log" >"$work/result"
[ -s "$work/result" ] || { echo "netem.sh: the test on Linux $KERNELS printed no result" >&2; exit 1; }
mkdir -p "$(dirname "$out")"
mv "$work/result" "$out"
