// SPDX-License-Identifier: Apache-2.0

package words

import (
	"testing"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// WHY says what a place's reason means, and what of the link is not up now.
func TestLossWhy(t *testing.T) {
	full := aggregate.LossPlace{Node: "r2", Port: "eth1", At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf"}
	none := aggregate.LossPlace{Node: "r2", Port: "eth1", At: record.AtEgress, Reason: "QDISC_DROP"}
	arp := aggregate.LossPlace{Node: "r2", Port: "eth1", At: record.AtNode, Reason: "NEIGH_FAILED"}
	refused := aggregate.LossPlace{Node: "r2", Port: "eth1", At: record.AtEgress, Reason: "NOT_SPECIFIED", Function: "__dev_forward_skb2"}
	port := func(name string, state topo.State) answer.PortState {
		return answer.PortState{Port: name, State: state}
	}
	for _, c := range []struct {
		place aggregate.LossPlace
		now   answer.LinkNow
		want  string
	}{
		{aggregate.LossPlace{Node: "h2", At: record.AtNode, Reason: "NOT_SPECIFIED", Function: "udp_destruct_common"}, answer.LinkNow{}, "socket closed"},
		{full, answer.LinkNow{}, "queue full"},
		{aggregate.LossPlace{Node: "r1", At: record.AtNode, Reason: "QUEUE_PURGE", Function: "neigh_invalidate"}, answer.LinkNow{}, "no ARP answer"},
		{full, answer.LinkNow{NotUp: []answer.PortState{port("r2/eth1", topo.Down)}}, "queue full; port is down now"},
		{none, answer.LinkNow{}, "port was down, or without carrier"},
		{aggregate.LossPlace{Node: "r2", At: record.AtNode, Reason: "QDISC_DROP"}, answer.LinkNow{}, "queue full"}, // of an IFB
		{none, answer.LinkNow{NotUp: []answer.PortState{port("r2/eth1", topo.NoCarrier)}}, "no carrier now"},
		{none, answer.LinkNow{Peer: "h2/eth0", NotUp: []answer.PortState{port("r2/eth1", topo.NoCarrier), port("h2/eth0", topo.Down)}}, "no carrier now: h2/eth0 is down"},
		{arp, answer.LinkNow{Peer: "h2/eth0", NotUp: []answer.PortState{port("r2/eth1", topo.NoCarrier), port("h2/eth0", topo.Down)}}, "no ARP answer; no carrier now: h2/eth0 is down"},
		{arp, answer.LinkNow{NotUp: []answer.PortState{port("h2/eth0", topo.Down)}}, "no ARP answer; h2/eth0 is down now"},
		{arp, answer.LinkNow{NotUp: []answer.PortState{port("a/0", topo.Down), port("a/1", topo.NoCarrier), port("a/2", topo.Down), port("a/3", topo.Down)}},
			"no ARP answer; a/0 is down now, a/1 has no carrier now, a/2 is down now, 1 more"},
		{refused, answer.LinkNow{}, "refused by the other end of the link (larger than its MTU, or it is down)"},
		{refused, answer.LinkNow{Peer: "h2/eth0", PeerMTU: 1400}, "refused by h2/eth0 (larger than its MTU of 1400, or it is down)"},
	} {
		if got := (*Names)(nil).LossWhy(&c.place, &c.now); got != c.want {
			t.Errorf("%+v, %+v: %q, want %q", c.place, c.now, got, c.want)
		}
	}
}
