#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs Kathará as setup.sh prepared it, for example: kathara.sh lstart -d DIR
#
# Kathará takes its settings from .config in the home of the user that /etc/passwd
# names, whatever HOME says. In a mount namespace of its own it finds ours there,
# and the user's stay as they are.
set -euo pipefail
cache=$(cd "$(dirname "$0")/../.." && pwd)/.cache/kathara
[ -f "$cache/config/kathara.conf" ] || { echo "kathara: run setup.sh up first" >&2; exit 1; }
config=$(getent passwd "${SUDO_UID:-0}" | cut -d: -f6)/.config
mkdir -p "$config"
# shellcheck disable=SC2016 # the inner shell's own arguments
exec unshare --mount --propagation private bash -euc \
	'mount --bind "$1" "$2"; shift 2; exec "$@"' kathara "$cache/config" "$config" \
	"$cache/venv/bin/python" -m kathara "$@"
