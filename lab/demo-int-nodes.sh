#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# INT nodes in eBPF: routers of a virtual network put INT into packets, and report to radar
# collect. Beside them reports of P4 switches, as BMv2 has sent them (p4/testdata). Then the same
# packets with INT-XD, where nothing is in them.
#
# It is a test, too: it fails if an answer lacks a line that must be there.
#
# usage: lab/demo-int-nodes.sh path/to/radar
set -euo pipefail

lab=radar-demo-nodes-$$
domain=demo-nodes-$$
# shellcheck source=lab/demolib.sh
. "$(dirname "$0")/demolib.sh"
tmp=$(mktemp -d)

forget() {
	"$radar" int detach --domain "$domain" >/dev/null 2>&1 || true
	"$radar" collect --forget --domain "$domain" >/dev/null 2>&1 || true
	rm -rf "$tmp"
}
says() { "${@:2}" 2>/dev/null | grep -qE "$1"; } # says PATTERN CMD...: whether the command does
node() { echo "$1=netns:$lab-$1"; }
datagrams() { # datagrams N: from h1 to h2, which listens
	in_node h1 bash -c "for i in {1..$1}; do echo hello >/dev/udp/10.0.4.2/5001; done"
}

say "A virtual network: h1 - r1 - r2 - r3 - h2"
run "$radar" lab up chain --name "$lab" | sed -n 1,2p

say "Hosts are behind r1/eth0 and r3/eth1; all other ports lead to INT nodes"
run "$radar" int attach --domain "$domain" --role source,sink --collector 127.0.0.1:6000 --via "$(node h2)" "$(node r1)/eth0" "$(node r3)/eth1"
run "$radar" int attach --domain "$domain" --role transit r1 "$(node r2)" r3

say "In h2 a collector, and somebody who listens"
show 'h2$' radar collect --all --port 6000 --node 1=r1,2=r3,3=r2,161=s1,162=s2,163=s3,164=s4 '&'
nsenter --net="/run/netns/$lab-h2" "$radar" collect --domain "$domain" --all --port 6000 --node 1=r1,2=r3,3=r2,161=s1,162=s2,163=s3,164=s4 >"$tmp/collect.out" 2>"$tmp/collect.err" &
background[collect]=$!
await says collecting cat "$tmp/collect.err"
nsenter --net="/run/netns/$lab-h2" tcpdump -n -U --immediate-mode -i eth0 -w "$tmp/h2.pcap" 'udp port 5001' >/dev/null 2>"$tmp/h2.err" &
background[h2]=$!
nsenter --net="/run/netns/$lab-r3" tcpdump -n -U --immediate-mode -i eth0 -w "$tmp/r3.pcap" 'udp port 5001' >/dev/null 2>"$tmp/r3.err" &
background[r3]=$!
await says 'listening on' cat "$tmp/h2.err"
await says 'listening on' cat "$tmp/r3.err"

say "Twenty datagrams"
datagrams 20
await says ' 20 .* r1 > r2 > r3$' "$radar" paths --domain "$domain"
run "$radar" paths --domain "$domain" | wants ' 20 .* r1 > r2 > r3$'
run "$radar" latency --domain "$domain" --by node | wants ' r1$' ' r2$' ' r3$'
run "$radar" int status --domain "$domain" | wants 'r1' 'r3'

say "What was on the link between r2 and r3, and what h2 got"
stop r3 || true
stop h2 || true
tcpdump -n -r "$tmp/r3.pcap" 2>/dev/null | tail -n 1 | wants 'UDP, length 86$'
tcpdump -n -r "$tmp/h2.pcap" 2>/dev/null | tail -n 1 | wants 'UDP, length 6$'
run "$radar" int decode -r "$tmp/r3.pcap" | head -n 30

say "P4 switches (s1 to s4 of lab int-p4) report to the same collector"
for name in 01-md-ipv4 06-mx-ipv6; do
	from=$(dirname "$0")/../p4/testdata/$name.pcapng
	show 'h2$' radar collect generate --to 127.0.0.1:6000 -r "${from##*/}"
	nsenter --net="/run/netns/$lab-h2" "$radar" collect generate --to 127.0.0.1:6000 -r "$from"
done
await says ' s1 > s2 > s4$' "$radar" paths --domain "$domain"
run "$radar" paths --domain "$domain" | wants ' r1 > r2 > r3$' ' s1 > s2 > s4$' ' s1 > s3 > s4$'

say "Postcards instead: packets stay as they are, and each node reports"
run "$radar" int attach --domain "$domain" --mode xd
datagrams 20
await says ' 40 .* r1 > r2 > r3$' "$radar" paths --domain "$domain"
run "$radar" paths --domain "$domain" | wants ' 40 .* r1 > r2 > r3$'

say "Nothing stays"
run "$radar" int detach --domain "$domain"
stop collect || true
