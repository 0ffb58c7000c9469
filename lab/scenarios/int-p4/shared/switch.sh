#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Starts BMv2 with radar's P4 program, and gives it the table entries of its input:
#   sh switch.sh NUMBER INTERFACE... <ENTRIES
# The first interface is port 1.
number=$1
program=$(dirname "$0")/radar_v1model
shift
port=0
for i in "$@"; do
	shift
	# The switch reads what is on the wire: nothing may be left to cut or to sum up later.
	ethtool -K "$i" rx off tx off tso off gso off gro off
	port=$((port + 1))
	set -- "$@" -i "$port@$i"
done

if command -v radar >/dev/null; then
	simple_switch_grpc --device-id "$number" --no-p4 "$@" --log-console -L warn -- --grpc-server-addr 127.0.0.1:9559 </dev/null &
	radar lab p4 --device-id "$number" --program "$program.json" --p4info "$program.p4info.txtpb" 127.0.0.1:9559
else # Kathará's image has no radar, but BMv2's own command line
	simple_switch_grpc --device-id "$number" "$@" -L off --thrift-port 9090 "$program.json" </dev/null &
	until echo help | simple_switch_CLI --thrift-port 9090 >/dev/null 2>&1; do sleep 1; done
	grep '^[a-z]' | simple_switch_CLI --thrift-port 9090 # which knows no comments
fi
