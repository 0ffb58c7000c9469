#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The page of radar serve: a virtual network with a bottleneck and a firewall under load, radar
# attached to every node, and a second one whose routers speak INT by intents. It prints the page's
# address, and goes on until Ctrl-C.
#
# usage: lab/demo-web.sh path/to/radar [--check]
#   --check   asks the server what the page asks, and ends: for machines without a browser
#   ADDRESS   where it listens (127.0.0.1:8480; with --check a port that is free)
set -euo pipefail

lab=radar-web-$$
domain=$lab
inband=radar-web-int-$$ # the second network, and its domain
# shellcheck source=lab/demolib.sh
. "$(dirname "$0")/demolib.sh"
command -v iperf3 >/dev/null || { echo "demo: needs iperf3: apt-get install iperf3" >&2; exit 1; }
tmp=$(mktemp -d)
forget() {
	"$radar" int stop --domain "$inband" --force >/dev/null 2>&1 || true
	"$radar" collect --forget --domain "$inband" >/dev/null 2>&1 || true
	"$radar" lab down "$inband" >/dev/null 2>&1 || true
	rm -rf "$tmp"
}
check=${2:-}
address=${ADDRESS:-127.0.0.1:8480}
[ -z "$check" ] || address=127.0.0.1:0

say "A virtual network: h1, h3 - r1 - r2 - r3 - h2; a 20 Mbit/s bottleneck at r2, a firewall at r1; radar in every node"
run "$radar" lab up bottleneck --name "$lab"
run "$radar" attach -d --domain "$domain" --lab "$lab" | sed -n 1,2p

# until NAME COMMAND...: runs a command in a loop beside, until the demo ends.
until_end() {
	setsid bash -c 'trap "kill 0" EXIT; while :; do "$@" >/dev/null 2>&1; sleep 0.1; done' loop "${@:2}" &
	background[$1]=$!
}
node() { echo ip netns exec "$lab-$1" "${@:2}"; }

say "Traffic: UDP above the bottleneck's rate, TCP, echoes, and what the firewall drops"
# shellcheck disable=SC2046 # words of the commands
{
	until_end server $(node h2 iperf3 -s)
	until_end servers $(node h2 iperf3 -s -p 5202)
	until_end udp $(node h1 iperf3 -c 10.0.4.2 -u -b 16M -l 1000 -t 60)
	until_end tcp $(node h3 iperf3 -c 10.0.4.2 -p 5202 -t 60 -b 8M)
	until_end echoes $(node h3 ping -q -i 0.05 -c 100 10.0.4.2)
	until_end blocked $(node h3 timeout 1 bash -c 'echo>/dev/udp/10.0.4.2/9999')
}

say "A second network, h1 - r1 - r2 - r3 - h2, whose routers speak INT: one says what to observe"
run "$radar" lab up chain --name "$inband" | sed -n 1p
run "$radar" int topology set --domain "$inband" --lab "$inband" >/dev/null
port=$((20000 + $$ % 10000))
run "$radar" int config set --domain "$inband" --collector "127.0.0.1:$port" 2>/dev/null
run "$radar" int intent add video --domain "$inband" --proto udp --dport 5201 --states node-id,l1-ports,hop-latency,queue,ingress-time,egress-time --sample 10 2>/dev/null
run "$radar" int start --domain "$inband"
show '$' "$radar" collect --all --domain "$inband" --port "$port" '&'
"$radar" collect --all --domain "$inband" --listen 127.0.0.1 --port "$port" --node 1=r1,2=r2,3=r3 >/dev/null 2>"$tmp/collect.err" &
background[collect]=$!
until_end video-server ip netns exec "$inband-h2" iperf3 -s
until_end video ip netns exec "$inband-h1" iperf3 -c 10.0.4.2 -u -b 2M -l 1000 -t 60

show '$' "$radar" serve --listen "$address" '&'
"$radar" serve --domain "$domain" --listen "$address" --token-file "$tmp/token" 2>"$tmp/serve.err" &
background[serve]=$!
await grep -q http "$tmp/serve.err"
url=$(grep -oE 'https?://[^/ ]+' "$tmp/serve.err" | head -n 1)

if [ -n "$check" ]; then
	say "What the page asks for"
	asks() { # asks PATH PATTERN: waits until the answer matches
		await sh -c "curl -fsS --max-time 5 '$url$1' | grep -qE -e '$2'"
		echo "$1: $2"
	}
	asks / '<title>radar</title>'
	asks /assets/page.js 'No domain is attached'
	asks "/api/v1/domains/$domain/topology?load=true" '"name": ?"r2"'
	asks "/api/v1/domains/$domain/loss" 'QDISC_DROP'
	asks "/api/v1/domains/$domain/packets?state=lost&limit=1" '"port": ?"eth1"'
	asks "/api/v1/domains/$inband/int/devices" '"state": ?"ready"'
	asks "/api/v1/domains/$inband/int/intents" '"video"'
	asks "/api/v1/domains/$inband/paths" '"r1".*"r2".*"r3"'
	await sh -c "curl -sN --max-time 4 '$url/api/v1/domains/$domain/events?topic=load' | grep -q '^event: load'"
	echo "events: load"
	say "Nothing stays"
	exit
fi
printf '\n%sOpen %s/#/topology?domain=%s%s\n  or %s/#/int?domain=%s\nThe token for changes is in %s. Ctrl-C ends it.\n' "$bold" "$url" "$domain" "$plain" "$url" "$inband" "$tmp/token"
wait "${background[serve]}"
