#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job, on real traffic: a virtual network with a bottleneck and a firewall,
# radar attached to every node, ping, iperf3 TCP and UDP, and what became of each packet.
#
# usage: lab/demo.sh path/to/radar
# DEMO_RECORDS=FILE keeps the record of each packet (lab/picture.sh).
set -euo pipefail

lab=radar-demo-$$
domain=demo-$$
# shellcheck source=lab/demolib.sh
. "$(dirname "$0")/demolib.sh"

say "A virtual network: h1, h3 - r1 - r2 - r3 - h2; a 20 Mbit/s bottleneck at r2, a firewall at r1"
run "$radar" lab up bottleneck --name "$lab"

say "Attach radar to every node"
run "$radar" attach -d --domain "$domain" --lab "$lab"

say "Traffic: ping, TCP with offloads, UDP above the bottleneck's rate, UDP that the firewall drops"
in_node h1 ping -q -c 20 -i 0.02 10.0.4.2
"$radar" lab exec "$lab" h2 -- iperf3 -s -D -I "/run/$lab-iperf3.pid"
for _ in $(seq 50); do in_node h2 sh -c 'ss -ltn | grep -q :5201' && break; sleep 0.1; done
in_node h1 iperf3 -c 10.0.4.2 -t 3
# shellcheck disable=SC2016 # expands in the node
in_node h3 sh -c 'i=0; while [ $i -lt 50 ]; do echo blocked | timeout 1 bash -c "cat >/dev/udp/10.0.4.2/9999"; i=$((i+1)); done' &
blocked=$!
in_node h1 iperf3 -c 10.0.4.2 -u -b 30M -l 1000 -t 3
wait "$blocked"
rm -f "/run/$lab-iperf3.pid"
sleep 0.3

say "Each packet's way (three packets of each kind; -o wide shows every hop, -o json everything)"
for proto in icmp tcp udp; do run "$radar" packets --domain "$domain" --proto "$proto" --last 3; done
say "The story of a packet that came through, and of one that was lost"
run "$radar" trace --domain "$domain" --last --state delivered
run "$radar" trace --domain "$domain" --last --state lost

say "Paths"
run "$radar" paths --domain "$domain"
say "Flows: rate, latency, jitter, losses, reordering"
run "$radar" flows --domain "$domain" --top 5
say "Throughput of links, in their busiest second too"
run "$radar" throughput --domain "$domain" --by link
say "Where packets waited: in queues, inside nodes, on links"
run "$radar" latency --domain "$domain" --by queue
run "$radar" latency --domain "$domain" --by node
run "$radar" latency --domain "$domain" --by link
say "Where packets were lost, and why"
run "$radar" loss --domain "$domain"
say "The same losses, counted by the kernel's own queue and firewall"
"$radar" lab exec "$lab" r2 -- tc -s qdisc show dev eth1 | grep -E 'qdisc|dropped'
"$radar" lab exec "$lab" r1 -- nft list table ip lab | grep counter

say "Everything that radar saw, and what it did not measure"
run "$radar" status --domain "$domain"
if [ -n "${DEMO_RECORDS:-}" ]; then "$radar" packets --domain "$domain" --last 0 -o json >"$DEMO_RECORDS"; fi
run "$radar" detach --domain "$domain"
