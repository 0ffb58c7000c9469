#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# land.sh: what .ci/run asks of an old and a new kernel. Emulated kernels take many minutes, so they
# run only where something has changed since they passed: programs, hooks, what loads them, or
# these tests. passed.txt says which state passed, and when; with PASSED=record it is written.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
record=lab/test/kernels/passed.txt
inputs=(bpf/objects.sum pkg/hook pkg/loader pkg/host/kernel pkg/vnet/datapath lab/test/kernels)

state=$(git ls-files "${inputs[@]}" | grep -vxF "$record" | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d' ' -f1)
if [ -z "${PASSED:-}" ] && [ -z "${FORCE:-}" ] && grep -q "^$state " "$record" 2>/dev/null; then
	echo "kernels: nothing has changed since they passed: $(cut -d' ' -f2- "$record")"
	exit
fi
KERNELS="${KERNELS:-5.10 6.12}" PACKAGES=./lab/test/kernels \
	TEST_RUN="TestProgramsLoad|TestLosses|TestAttach/(clsact|tcx)$" lab/test/kernels/run.sh
if [ "${PASSED:-}" = record ]; then
	echo "$state ${KERNELS:-5.10 6.12}, on $(date -u +%Y-%m-%d)" >"$record"
fi
