#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# land.sh: what .ci/run asks of an old and a new kernel. Emulated kernels take many minutes, so they
# run only where something has changed since they passed: programs, hooks, what loads them, or
# these tests. passed.txt says which state passed, and when; with PASSED=record it is written.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
record=lab/test/kernels/passed.txt sizes=lab/test/kernels/sizes.txt
inputs=(bpf/objects.sum pkg/hook pkg/loader pkg/host/kernel pkg/vnet/datapath lab/test/kernels)

# state FILE...: a checksum of the inputs without these.
state() {
	git ls-files "${inputs[@]}" | grep -vxF -f <(printf '%s\n' "$@") | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d' ' -f1
}
state=$(state "$record")
if [ -z "${PASSED:-}" ] && [ -z "${FORCE:-}" ] && grep -q "^$state " "$record" 2>/dev/null; then
	echo "kernels: nothing has changed since they passed: $(cut -d' ' -f2- "$record")"
	exit
fi
before=$(state "$record" "$sizes")
KERNELS="${KERNELS:-5.10 6.12}" PACKAGES=./lab/test/kernels \
	TEST_RUN="TestProgramsLoad|TestLosses|TestAttach/(clsact|tcx)$" lab/test/kernels/run.sh
if [ "${PASSED:-}" = record ]; then
	# sizes.txt is an input, and with RECORD=1 the run has just written it: what counts is the state that is committed with the record.
	after=$(state "$record" "$sizes")
	[ "$after" = "$before" ] || { echo "kernels: something has changed since they began: not recorded" >&2; exit 1; }
	state=$(state "$record")
	echo "$state ${KERNELS:-5.10 6.12}, on $(date -u +%Y-%m-%d)" >"$record"
fi
