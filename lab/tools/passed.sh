#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command, unless it has passed before with the same inputs on the same machine.
#
#   lab/tools/passed.sh NAME 'PATHSPEC...' COMMAND
#
# Inputs are the files as lab/tools/state.sh takes them, or "tree" or "sources", the command itself and
# the machine. A pass is kept in .cache/passed for a month, for all clones of a user; a failure never is.
# FORCE=1, and RADAR_TIER=nightly, run it in any case.
#
# Exit status: that of the command; 0 if it has passed before.
set -euo pipefail
shopt -s inherit_errexit # a checksum of what could not be read is none
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
name=$1 command=$3
read -ra inputs <<<"$2"

now() {
	local machine files
	machine=$(lab/tools/state.sh machine)
	files=$(lab/tools/state.sh "${inputs[@]}")
	printf '%s\n' "$machine" "$files" "$command" | sha256sum | cut -d' ' -f1
}
state=$(now)
kept=.cache/passed/$name-$state
if [ -z "${FORCE:-}" ] && [ "${RADAR_TIER:-}" != nightly ] && [ -s "$kept" ]; then
	echo "$name: not run, it passed with the same inputs on $(cat "$kept") (FORCE=1 runs it)"
	exit
fi
bash -euo pipefail -c "$command"
after=$(now)
[ "$after" = "$state" ] || exit 0 # somebody has changed something meanwhile: it passed with nobody knows what
[ -e .cache ] || make --no-print-directory -s .cache
mkdir -p .cache/passed
date -u '+%Y-%m-%d %H:%M' >"$kept.$$"
mv "$kept.$$" "$kept"
find .cache/passed/ -type f -mtime +30 -delete
