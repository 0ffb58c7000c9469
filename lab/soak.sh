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

faults='AgentEnds|RingWraps|InterfacesComeAndGo|ReadersBesideWriters|TwoDomains|SinkGoesFirst|ForeignPrograms|Upgrade|UpgradeWithoutAgent|Environments|PathsTaken|Permissions'
# Faults that are tried closer to the programs, or to the commands.
units='KeysFull|SweepKeysFull|EventsFull|IPv6EventsFull|IPv6Full|LogFull|HeaderFullLog|MemoryLimits|InFlightNeverReused|Lease|LeaseThatNeverEnds|ReadWhileWritten'
units+='|Unprivileged|ChecksUnprivileged|ChecksOfOtherKernels|HalfAttached|InterruptedAttach|RollbackOf[A-Za-z]*|QueueHookAfterKill|ForeignFilter[A-Za-z]*'
units+='|ContainersOfAnotherDomain|BridgeOfTwoDomainsAtOnce|LoadWhatCannotBeUsed|FromMapsOfTheWrongKind|Claim[A-Za-z]*|Version'

[ $# -le 1 ] || { echo "usage: soak.sh [REGEXP]" >&2; exit 2; }
mkdir -p bin
text=$PWD/bin/soak.txt
RADAR_SOAK=1 RADAR_E2E_TABLES=$text go test -count=1 -v -timeout 8h -run "^Test(${1:-$faults})\$" ./lab/e2e
[ $# -eq 0 ] || exit 0
go test -count=1 -json -run "^Test($units)\$" ./bpf/test ./pkg/... ./cmd/radar >bin/soak-units.json || { cat bin/soak-units.json; exit 1; }
python3 - "$units" >>"$text" <<'END'
import json, re, sys

passed, other = {}, []
for line in open("bin/soak-units.json"):
    e = json.loads(line)
    name = e.get("Test", "")
    if not name or "/" in name or e["Action"] not in ("pass", "skip", "fail"):
        continue
    if e["Action"] == "pass":
        passed.setdefault(e["Package"].split("/", 3)[-1], []).append(name)
    else:
        other.append(f"{name}: {e['Action']}")
names = {n for list in passed.values() for n in list}
other += [f"Test{want}: no such test" for want in sys.argv[1].split("|")
          if not any(re.fullmatch("Test" + want, n) for n in names)]
if other:
    sys.exit("soak.sh: " + ", ".join(other))
print("\ncloser to the programs and commands: tests that passed")
for package, tests in sorted(passed.items()):
    print(f"  {package}: {', '.join(sorted(tests))}")
END
lab/reliability.sh soak <"$text"
