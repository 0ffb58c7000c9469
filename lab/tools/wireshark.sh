#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts radar's plugins and its capture program where Wireshark looks for everyone's, or takes them
# from there. Where that cannot be, this says so and is no failure: radar does not need it.
#
# usage: lab/tools/wireshark.sh install|uninstall RADAR INSTALLED [DESTDIR]
# RADAR is the program to ask, INSTALLED the one that Wireshark is to run.
set -euo pipefail

usage='usage: wireshark.sh install|uninstall RADAR INSTALLED [DESTDIR]'
what=${1:?$usage} radar=${2:?$usage} installed=${3:?$usage} destdir=${4:-}
own='radar wireshark --install puts it into a user'\''s own folders'

folders=$(tshark -G folders 2>/dev/null || true)
plugins=$(sed -n 's/^Global Lua Plugins:[[:space:]]*//p' <<<"$folders")
extcap=$(sed -n 's/^\(Global \)\{0,1\}Extcap path:[[:space:]]*//p' <<<"$folders")
if [ -z "$plugins" ] || [ -z "$extcap" ]; then
	[ "$what" = uninstall ] || echo "without Wireshark: no tshark is here, which knows its folders ($own)"
	exit
fi
plugins=$destdir$plugins extcap=$destdir$extcap

# writable DIR: whether it, or what is there above it, can be written to
writable() {
	local above=$1
	while [ ! -e "$above" ]; do above=$(dirname "$above"); done
	[ -w "$above" ]
}

case $what in
install)
	if writable "$plugins" && writable "$extcap"; then
		"$radar" wireshark --install --folder "$plugins" --extcap-folder "$extcap" --program "$installed" || echo "without Wireshark ($own)"
	else
		echo "without Wireshark: $plugins or $extcap is not writable ($own)"
	fi
	;;
uninstall) # nothing but radar's: other files of these names stay
	for plugin in radar_int radar_packets; do
		if grep -qs "^-- Made of the files in p4/wireshark/$plugin " "$plugins/$plugin.lua"; then rm -f "$plugins/$plugin.lua"; fi
	done
	if grep -qs '^# Made by radar wireshark --install' "$extcap/radar"; then rm -f "$extcap/radar"; fi
	;;
*) echo "wireshark.sh: no action $what" >&2; exit 2 ;;
esac
