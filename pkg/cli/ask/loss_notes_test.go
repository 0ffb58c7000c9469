// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"bytes"
	"testing"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
)

// What has no row in "radar loss" is said beside it: packets that expired, and drops
// after delivery, TCP's own apart from those that may be a fault.
func TestLossNotes(t *testing.T) {
	const none = packet.NoPort
	made := func(n int, state record.State, hops ...packet.Hop) *packet.Packet {
		return &packet.Packet{State: state, Hops: hops, Segs: n, LatencyNs: packet.NoTime}
	}
	local := func(n int, reason, function string) *packet.Packet {
		p := made(n, record.Delivered, packet.Hop{Node: 2, In: 1, Out: none})
		p.LocalDrop, p.Loss = true, packet.Drop{Node: 2, Port: none, At: record.AtNode, Reason: reason, Function: packet.NamedFunction(function)}
		return p
	}
	expired := []*packet.Packet{
		made(7, record.Expired, packet.Hop{Node: 1, In: none, Out: 0}),
		made(20, record.Expired, packet.Hop{Node: 1, In: none, Out: 4}, packet.Hop{Node: 4, In: 5, Out: none}),
		made(30, record.Expired, packet.Hop{Node: 1, In: none, Out: 4}, packet.Hop{Node: 4, In: 5, Out: 6}),
	}
	moved := made(9, record.Expired, packet.Hop{Node: 4, In: 5, Out: none})
	moved.Moved = true
	arrived := made(5, record.Delivered, packet.Hop{Node: 2, In: 1, Out: none})
	drop, closed := local(1, "NO_SOCKET", "udp_rcv"), local(3, "QUEUE_PURGE", "sk_stream_kill_queues")
	purged, timeWait := local(2, "QUEUE_PURGE", "inet_sock_destruct"), local(4, "NOT_SPECIFIED", "tcp_v4_rcv")
	const (
		last  = "radar: 57 packets expired (not seen for the timeout), last seen in r1 (30 out by eth1, 20 in by eth0), c1 (7 out by eth0): radar packets --state expired\n"
		drops = "packets were dropped (rules, full buffers, no socket)"
	)
	gone := made(1, record.Lost, packet.Hop{Node: 1, In: none, Out: 0})
	for name, c := range map[string]struct {
		packets []*packet.Packet
		want    string
	}{
		"nothing": {nil, ""},
		"no loss": {[]*packet.Packet{arrived}, "radar: nothing was lost on the way of 5 packets\n"},
		"expired": {expired, last},
		"moved": {[]*packet.Packet{moved}, "radar: 9 packets expired (not seen for the timeout), last seen in r1 (9 in by eth0): radar packets --state expired\n" +
			"radar: 9 packets of these came to a node just as it got their address, or lost it: whether they were delivered is not known\n"},
		"and drop": {append(expired, drop), last + "radar: after delivery 1 packet was dropped (rules, full buffers, no socket): radar loss --after-delivery\n"},
		"drops":    {[]*packet.Packet{drop, purged}, "radar: nothing was lost on the way of 3 packets; after delivery 3 " + drops + ": radar loss --after-delivery\n"},
		"both": {[]*packet.Packet{drop, purged, closed}, "radar: nothing was lost on the way of 6 packets; after delivery 3 " + drops +
			", and 3 freed by TCP itself (old data, connection closed): radar loss --after-delivery\n"},
		"beside losses":          {[]*packet.Packet{gone, drop, closed}, "radar: besides, after delivery 1 packet was dropped (rules, full buffers, no socket): radar loss --after-delivery\n"},
		"beside losses, nothing": {[]*packet.Packet{gone, closed}, ""},
		"TCP":                    {[]*packet.Packet{closed, timeWait}, "radar: nothing was lost on the way of 7 packets; after delivery only 7 freed by TCP itself (old data, connection closed), which is no fault\n"},
	} {
		agg := aggregate.New(0)
		for _, p := range c.packets {
			agg.Add(p)
		}
		var out bytes.Buffer
		kit.New(nil, nil, &out).Note(answer.NewCounts(agg, backpack.NewDecoder(clitest.BridgedDomain(), nil)).Losses(false).Notes)
		if out.String() != c.want {
			t.Errorf("%s: it said\n%s, want\n%s", name, out.String(), c.want)
		}
	}
}
