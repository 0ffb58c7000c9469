// SPDX-License-Identifier: Apache-2.0

package wording

import (
	"net/netip"
	"testing"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// WHY says what a place's reason means, and what of the link is not up now.
func TestLossWhy(t *testing.T) {
	full := aggregate.LossPlace{Node: "r2", Port: "eth1", At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf"}
	none := aggregate.LossPlace{Node: "r2", Port: "eth1", At: record.AtEgress, Reason: "QDISC_DROP"}
	arp := aggregate.LossPlace{Node: "r2", Port: "eth1", At: record.AtNode, Reason: "NEIGH_FAILED"}
	refused := aggregate.LossPlace{Node: "r2", Port: "eth1", At: record.AtEgress, Reason: "NOT_SPECIFIED", Function: "__dev_forward_skb2"}
	hook := aggregate.LossPlace{Node: "r1", At: record.AtNode, Reason: "NETFILTER_DROP", Function: "nf_hook_slow"}
	noPort := []rules.NoFreePort{{NATRule: rules.NATRule{Rule: "ip n post: rule of handle 2", Low: 5000, High: 5003}, Proto: "tcp", To: netip.MustParseAddrPort("10.2.0.1:80"), From: netip.MustParseAddr("10.2.0.254"), Used: 4}}
	const noPortWords = "NAT of r1 has no free port for tcp to 10.2.0.1:80 (all 4 of 10.2.0.254, 5000-5003, are in use: ip n post: rule of handle 2)"
	queue := func(kind string) aggregate.LossPlace {
		return aggregate.LossPlace{Node: "r2", Port: "eth1", At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: kind}
	}
	port := func(name string, state topo.State) placenow.PortState {
		return placenow.PortState{Port: name, State: state}
	}
	for _, c := range []struct {
		place aggregate.LossPlace
		now   placenow.Place
		want  string
	}{
		{aggregate.LossPlace{Node: "h2", At: record.AtNode, Reason: "NOT_SPECIFIED", Function: "udp_destruct_common"}, placenow.Place{}, "socket closed"},
		{full, placenow.Place{}, "queue full, or larger than its burst"},
		{full, placenow.Place{Queue: &placenow.Queue{}}, "queue full"},
		{full, placenow.Place{Queue: &placenow.Queue{Qdisc: topo.Qdisc{BurstBytes: 1000}, OverBurst: placenow.OverBurstMaybe}}, "queue full, or larger than its burst (1000 bytes)"},
		{full, placenow.Place{Queue: &placenow.Queue{Qdisc: topo.Qdisc{BurstBytes: 1000}, OverBurst: placenow.OverBurstYes}}, "larger than the queue's burst (1000 bytes)"},
		{queue("pfifo"), placenow.Place{}, "queue full"},
		{queue("netem"), placenow.Place{}, "link loses, or queue full (netem)"},
		{queue("htb"), placenow.Place{}, "queue full, or refused by htb"},
		{aggregate.LossPlace{Node: "r1", At: record.AtEgress, Reason: "NOT_SPECIFIED", Function: "__rtnl_unlock"}, placenow.Place{}, "queue emptied: replaced, removed, or its port set down"},
		{aggregate.LossPlace{Node: "r1", At: record.AtNode, Reason: "NETFILTER_DROP", Function: "nft_do_chain"}, placenow.Place{}, "firewall rule"},
		{hook, placenow.Place{}, "firewall rule, or conntrack"},
		{hook, placenow.Place{Netfilter: &placenow.Netfilter{}}, "netfilter: no rule of now, nor conntrack's counters, say why"},
		{hook, placenow.Place{Netfilter: &placenow.Netfilter{Rules: true}}, "firewall rule"},
		{hook, placenow.Place{Netfilter: &placenow.Netfilter{ConntrackDrops: 9, ConntrackNotInserted: 7}}, "conntrack (7 not inserted: addresses and ports in use, 2 dropped)"},
		{hook, placenow.Place{Netfilter: &placenow.Netfilter{Rules: true, ConntrackDrops: 2}}, "firewall rule, or conntrack (2 dropped)"},
		{hook, placenow.Place{Netfilter: &placenow.Netfilter{Rules: true, ConntrackUnknown: true}}, "firewall rule, or conntrack (its drops since attach are not known)"},
		{hook, placenow.Place{Netfilter: &placenow.Netfilter{ConntrackUnknown: true}}, "netfilter: no rule of now says why, and conntrack's drops since attach are not known"},
		{hook, placenow.Place{Netfilter: &placenow.Netfilter{ConntrackDrops: 7, ConntrackNotInserted: 7, NoFreePort: noPort}}, noPortWords},
		{hook, placenow.Place{Netfilter: &placenow.Netfilter{Rules: true, ConntrackDrops: 9, ConntrackNotInserted: 7, NoFreePort: noPort}}, "firewall rule, or " + noPortWords + ", or conntrack (2 dropped)"},
		{hook, placenow.Place{Netfilter: &placenow.Netfilter{ConntrackUnknown: true, NoFreePort: noPort}}, noPortWords},
		{hook, placenow.Place{Netfilter: &placenow.Netfilter{ConntrackDrops: 7, ConntrackNotInserted: 7, NATRules: []rules.NATRule{noPort[0].NATRule}}},
			"conntrack (7 not inserted: addresses and ports in use, as where NAT has no free port: ip n post: rule of handle 2 has 5000-5003)"},
		{aggregate.LossPlace{Node: "r1", At: record.AtNode, Reason: "QUEUE_PURGE", Function: "neigh_invalidate"}, placenow.Place{}, "no ARP answer"},
		{full, placenow.Place{NotUp: []placenow.PortState{port("r2/eth1", topo.Down)}}, "queue full, or larger than its burst; port is down now"},
		{none, placenow.Place{}, "port was down, or without carrier"},
		{aggregate.LossPlace{Node: "r2", At: record.AtNode, Reason: "QDISC_DROP"}, placenow.Place{}, "queue full"}, // of an IFB
		{none, placenow.Place{NotUp: []placenow.PortState{port("r2/eth1", topo.NoCarrier)}}, "no carrier now"},
		{none, placenow.Place{Peer: "h2/eth0", NotUp: []placenow.PortState{port("r2/eth1", topo.NoCarrier), port("h2/eth0", topo.Down)}}, "no carrier now: h2/eth0 is down"},
		{arp, placenow.Place{Peer: "h2/eth0", NotUp: []placenow.PortState{port("r2/eth1", topo.NoCarrier), port("h2/eth0", topo.Down)}}, "no ARP answer; no carrier now: h2/eth0 is down"},
		{arp, placenow.Place{NotUp: []placenow.PortState{port("h2/eth0", topo.Down)}}, "no ARP answer; h2/eth0 is down now"},
		{arp, placenow.Place{NotUp: []placenow.PortState{port("a/0", topo.Down), port("a/1", topo.NoCarrier), port("a/2", topo.Down), port("a/3", topo.Down)}},
			"no ARP answer; a/0 is down now, a/1 has no carrier now, a/2 is down now, 1 more"},
		{refused, placenow.Place{}, "refused by the other end of the link (larger than its MTU, or it is down)"},
		{refused, placenow.Place{Peer: "h2/eth0", PeerMTU: 1400}, "refused by h2/eth0 (larger than its MTU of 1400, or it is down)"},
	} {
		if got := (*Names)(nil).LossWhy(&c.place, &c.now); got != c.want {
			t.Errorf("%+v, %+v: %q, want %q", c.place, c.now, got, c.want)
		}
	}
}
