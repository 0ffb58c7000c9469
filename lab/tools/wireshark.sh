#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts the Wireshark plugin where Wireshark looks for everyone's, or takes it from there. Where
# that cannot be, this says so and is no failure: radar does not need it.
#
# usage: lab/tools/wireshark.sh install|uninstall RADAR [DESTDIR]
set -euo pipefail

what=${1:?usage: wireshark.sh install|uninstall RADAR [DESTDIR]} radar=${2:?the program} destdir=${3:-}
own='radar int wireshark --install puts it into a user'\''s own folder'

folder=$(tshark -G folders 2>/dev/null | sed -n 's/^Global Lua Plugins:[[:space:]]*//p' || true)
if [ -z "$folder" ]; then
	[ "$what" = uninstall ] || echo "without the Wireshark plugin: no tshark is here, which knows its folder ($own)"
	exit
fi
folder=$destdir$folder
case $what in
install)
	above=$folder
	while [ ! -e "$above" ]; do above=$(dirname "$above"); done
	if [ -w "$above" ]; then
		"$radar" int wireshark --install --folder "$folder" || echo "without the Wireshark plugin ($own)"
	else
		echo "without the Wireshark plugin: $folder is not writable ($own)"
	fi
	;;
uninstall) # nothing but the plugin: another file of that name stays
	if grep -qs '^-- Made of the files in p4/wireshark/radar_int' "$folder/radar_int.lua"; then rm -f "$folder/radar_int.lua"; fi
	;;
*) echo "wireshark.sh: no action $what" >&2; exit 2 ;;
esac
