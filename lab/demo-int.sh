#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A mixed network in one set of answers: a virtual network that radar measures itself, and
# switches whose telemetry reports radar collect takes. Then the other way round: radar sends
# reports about what it measured, and a second collector says of every packet the same.
#
# It is a test, too: it fails if an answer lacks a line that must be there.
#
# usage: lab/demo-int.sh path/to/radar
set -euo pipefail

lab=radar-demo-int-$$
domain=demo-int-$$
# shellcheck source=lab/demolib.sh
. "$(dirname "$0")/demolib.sh"
tmp=$(mktemp -d)

forget() {
	"$radar" collect --forget --domain "$domain" >/dev/null 2>&1 || true
	"$radar" collect --forget --domain "$domain-second" >/dev/null 2>&1 || true
	rm -rf "$tmp"
}

# In h3 with the file system as it is: ip netns exec would hide radar's maps.
h3() {
	show 'h3$' "$@"
	(cd "$tmp" && nsenter --net="/run/netns/$lab-h3" "$@")
}
beside() { # beside NAME PATTERN CMD...: in h3, until stop NAME; waits until it says PATTERN
	show 'h3$' "${@:3}" '&'
	nsenter --net="/run/netns/$lab-h3" "${@:3}" >"$tmp/$1.out" 2>"$tmp/$1.err" &
	background[$1]=$!
	await grep -q "$2" "$tmp/$1.err"
}
finish() { # finish NAME PATTERN...: as Ctrl-C does; shows what it says at its end
	stop "$1" || { cat "$tmp/$1.err" >&2; return 1; }
	grep -v -e collecting -e sending "$tmp/$1.err" | wants "${@:2}"
}
# capture NAME FRAME...: NAME.pcap with frames of the decoder's tests, 0.1 s apart: some quote
# the same packet, and would be taken for reports of one.
capture() {
	local frame size from=pkg/intwire/testdata/frames.json when=0 hex=a1b2c3d40002000400000000000000000000ffff00000001
	for frame in "${@:2}"; do
		frame=$(jq -er --arg name "$frame" '.[] | select(.name == $name).hex' "$(dirname "$0")/../$from")
		size=$((${#frame} / 2))
		hex+=$(printf '%08x%08x%08x%08x' 1795000000 "$when" "$size" "$size")$frame
		when=$((when + 100000))
	done
	# shellcheck disable=SC2001 # every two digits
	printf '%b' "$(sed 's/../\\x&/g' <<<"$hex")" >"$tmp/$1.pcap"
}
# What radar and a collector can both know of a packet; what a collector sees leave, came through.
packets() { # packets DOMAIN SOURCE
	"$radar" packets --domain "$1" --last 0 -o json | jq -r --arg source "$2" 'select(.source == $source and .state != "in_flight") |
		[.proto, .src, .sport, .dst, .dport, .len, .ip_id, (.state | sub("left"; "delivered")), ([.hops[].node] | join(" > ")), .loss.node] | @tsv' | sort
}
all_came() { # the 400 echoes, answers, and the 20 that the firewall dropped
	packets "$domain" ebpf >"$tmp/measured"
	packets "$domain-second" int >"$tmp/reported"
	[ "$(grep -c ^icmp "$tmp/measured")" -gt 400 ] && [ "$(grep -c ^udp "$tmp/measured")" -eq 20 ] &&
		[ "$(wc -l <"$tmp/measured")" -eq "$(wc -l <"$tmp/reported")" ]
}

say "A virtual network: h1, h3 - r1 - r2 - r3 - h2; a bottleneck at r2, a firewall at r1; radar in every node"
run "$radar" lab up bottleneck --name "$lab" | sed -n 1,2p
run "$radar" attach -d --domain "$domain" --lab "$lab" | sed -n 1,2p

say "In h3 a collector of reports; another one, and radar sends it reports about this network"
beside collect collecting "$radar" collect --domain "$domain" --all --show events --threshold all=10% --congested 300 --source 192.0.2.1=switch-p4-16 \
	--node 0x11111111=tofino1,1=s1,2=s2,4=s4,5=s5,6=s6,9=nic9,101=tor1,102=spine1,103=tor2,104=fw1
beside second collecting "$radar" collect --domain "$domain-second" --all --port 6000 --source 127.0.0.1=radar --node 1=h1,2=r1,3=r2,4=r3,5=h2,6=h3
beside export sending "$radar" export int --domain "$domain" --collector 127.0.0.1:6000 --node-id h1=1,r1=2,r2=3,r3=4,h2=5,h3=6

say "Traffic: a burst of echoes through the bottleneck, UDP that the firewall drops"
in_node h1 ping -q -c 400 -l 400 -s 1400 -W 1 10.0.4.2
in_node h3 bash -c 'for i in {1..20}; do echo blocked >/dev/udp/10.0.4.2/9999; done'

say "Reports in the formats of fabric-tna, INTCollector, GEANT, ONOS and Host-INT, which are recognised; of switch-p4-16, told by its address"
capture switches fabric-tna-local-report intcollector-e2e-p0 geant-bmv2-report onos-basic-int-report
capture host hostint-report-ipv4
capture tofino p4studio-switch-v2-drop
for address in 192.0.2.1 192.0.2.2; do # what is sent to it, comes from it
	nsenter --net="/run/netns/$lab-h3" ip address add "$address/32" dev lo
done
h3 "$radar" collect generate --to 127.0.0.1:32766 -r switches.pcap --port 32766,54321,8090
h3 "$radar" collect generate --to 192.0.2.2:32766 -r host.pcap
h3 "$radar" collect generate --to 192.0.2.1:32766 -r tofino.pcap

say "Of a fabric tor1 - spine1 - tor2: quiet; queues grow, packets are dropped, the way leads through fw1, too; quiet again, IPv6, a report of each node"
fabric=("$radar" collect generate --to 192.0.2.1:32766 --first-node 101 --flows 2)
h3 "${fabric[@]}" --count 500 --latency 2000-2040 --queue 40-42 --queue-step 1
h3 "${fabric[@]}" --count 500 --latency 9000-9040 --queue 400-402 --queue-step 1 --hops 4 --drops 0.04
h3 "${fabric[@]}" --count 300 --latency 2000-2040 --queue 40-42 --queue-step 1 --mode xd --ipv6

say "Ctrl-C: what the exporter and the collectors say at the end"
await all_came # of a loss inside a node 2 s later: a copy might live on
finish export ' 127\.0\.0\.1:6000: [0-9]+ sent$'
finish second ', 0 of them no report; .* kept$'
finish collect ' 1306 datagrams, 0 of them no report; 1306 reports'

say "Paths of both kinds"
run "$radar" paths --domain "$domain" | wants ' h1 > r1 > r2 > r3 > h2$' ' 20 +0 +- +- +h3 > r1$' ' 6[0-9][0-9] .* tor1 > spine1 > tor2$' \
	' tor1 > spine1 > tor2 > fw1$' ' 408ns +s6 > s5 > s4$' ' s2 > nic9$' ' 1 +0 +- +- +tofino1$'
say "Latency inside nodes"
run "$radar" latency --domain "$domain" --by node | wants ' r2$' ' tor1$' ' spine1$' ' fw1$' ' 400ns +s4$'
say "Losses: the kernel's reasons where radar measures, the switches' where they report"
run "$radar" loss --domain "$domain" | wants ' r2 +eth1 +queue +QDISC_DROP ' '^ +20 .* r1 +eth2 +node +NETFILTER_DROP ' ' spine1 +2 +node +ACL_DROP ' ' tofino1 +511 +node +ACL_DROP '
say "Metrics of what is reported"
run "$radar" int metrics --domain "$domain" --node spine1 | wants '^hop_latency .* 198\.18\.0\.0:10000 .* at spine1$' '^queue_occupancy .* spine1/2 queue 0$' '^link_utilization .* spine1/2$'
say "Events: new values, and those further than 10 % from what was reported last (of one flow and one queue)"
grep -E -e VALUE -e 'flow_.*198\.18\.0\.0:10000 ' -e 'queue_.* spine1/2 queue 0$' "$tmp/collect.out" |
	wants ': tor1 > spine1 > tor2 > fw1, was tor1 > spine1 > tor2$' ' queue_congestion +1 +0 +spine1/2 queue 0' ' queue_congestion +0 +1 +spine1/2 queue 0'

say "What the second collector knows of the packets that radar has measured"
run "$radar" paths --domain "$domain-second" | wants ' h1 > r1 > r2 > r3 > h2$' ' 20 +0 +- +- +h3 > r1$'
run "$radar" loss --domain "$domain-second" | wants ' r2 .* TRAFFIC_MANAGER ' '^ +20 .* r1 .* ACL_DROP '
if ! diff "$tmp/measured" "$tmp/reported" >"$tmp/diff"; then
	head -n 20 "$tmp/diff" >&2
	echo "demo: radar and the collector differ" >&2
	exit 1
fi
echo "Packet by packet, $(wc -l <"$tmp/measured") of $(wc -l <"$tmp/reported"): the same headers, way, end and place of loss as radar's own."

say "Nothing stays"
run "$radar" detach --domain "$domain"
