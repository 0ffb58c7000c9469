#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tries faults as often as docs/reliability.md says, and writes the results there.
#
#   lab/soak.sh                # all: some fifteen minutes
#   lab/soak.sh AgentEnds      # those whose name matches, without writing
#
# RADAR_BIN  the binary to test (one is built)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

faults='AgentEnds|RingWraps|InterfacesComeAndGo|ReadersBesideWriters|TwoDomains|SinkGoesFirst|ForeignPrograms|Upgrade|Environments|PathsTaken|Permissions'
# Faults that are tried closer to the programs, or to the commands.
units='KeysFull|SweepKeysFull|EventsFull|IPv6EventsFull|IPv6Full|LogFull|HeaderFullLog|MemoryLimits|InFlightNeverReused|Lease|LeaseThatNeverEnds|ReadWhileWritten'
units+='|Unprivileged|ChecksUnprivileged|ChecksOfOtherKernels|HalfAttached|InterruptedAttach|RollbackOf[A-Za-z]*|QueueHookAfterKill|ForeignFilter[A-Za-z]*'
units+='|ContainersOfAnotherDomain|BridgeOfTwoDomainsAtOnce|LoadWhatCannotBeUsed|FromMapsOfTheWrongKind|Claim[A-Za-z]*|Version'

[ $# -le 1 ] || { echo "usage: soak.sh [REGEXP]" >&2; exit 2; }
text=$(mktemp)
trap 'rm -f "$text" "$text.units"' EXIT
RADAR_SOAK=1 RADAR_E2E_TABLES=$text go test -count=1 -v -timeout 8h -run "^Test(${1:-$faults})" ./lab/e2e
[ $# -eq 0 ] || exit 0
go test -count=1 -v -run "^Test($units)\$" ./bpf/test ./pkg/... ./cmd/radar >"$text.units" || { cat "$text.units"; exit 1; }
{
	printf '\ncloser to the programs and commands\n'
	sed -nE 's/^--- PASS: (Test[A-Za-z0-9]+).*/  \1: ok/p' "$text.units" | sort -u
} >>"$text"
lab/reliability.sh soak <"$text"
