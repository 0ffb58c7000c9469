// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/backpack"
	"github.com/vnetradar/radar/pkg/record"
)

// What has no row in "radar loss" is said beside it: packets that expired, and drops
// after delivery, TCP's own apart from those that may be a fault.
func TestLossNotes(t *testing.T) {
	const none = backpack.NoPort
	packet := func(n int, state record.State, hops ...backpack.Hop) *backpack.Packet {
		return &backpack.Packet{State: state, Hops: hops, Segs: n, LatencyNs: backpack.NoTime}
	}
	local := func(n int, reason, function string) *backpack.Packet {
		p := packet(n, record.Delivered, backpack.Hop{Node: 2, In: 1, Out: none})
		p.LocalDrop, p.Loss = true, backpack.Drop{Node: 2, Port: none, At: record.AtNode, Reason: reason, Function: backpack.NamedFunction(function)}
		return p
	}
	expired := []*backpack.Packet{
		packet(7, record.Expired, backpack.Hop{Node: 1, In: none, Out: 0}),
		packet(20, record.Expired, backpack.Hop{Node: 1, In: none, Out: 4}, backpack.Hop{Node: 4, In: 5, Out: none}),
		packet(30, record.Expired, backpack.Hop{Node: 1, In: none, Out: 4}, backpack.Hop{Node: 4, In: 5, Out: 6}),
	}
	moved := packet(9, record.Expired, backpack.Hop{Node: 4, In: 5, Out: none})
	moved.Moved = true
	arrived := packet(5, record.Delivered, backpack.Hop{Node: 2, In: 1, Out: none})
	drop, closed := local(1, "NO_SOCKET", "udp_rcv"), local(3, "QUEUE_PURGE", "sk_stream_kill_queues")
	purged, timeWait := local(2, "QUEUE_PURGE", "inet_sock_destruct"), local(4, "NOT_SPECIFIED", "tcp_v4_rcv")
	const (
		last  = "radar: 57 packets expired (not seen for the timeout), last seen in r1 (30 out by eth1, 20 in by eth0), c1 (7 out by eth0): radar packets --state expired\n"
		drops = "packets were dropped (rules, full buffers, no socket)"
	)
	gone := packet(1, record.Lost, backpack.Hop{Node: 1, In: none, Out: 0})
	for name, c := range map[string]struct {
		packets []*backpack.Packet
		want    string
	}{
		"nothing": {nil, ""},
		"no loss": {[]*backpack.Packet{arrived}, "radar: nothing was lost on the way of 5 packets\n"},
		"expired": {expired, last},
		"moved": {[]*backpack.Packet{moved}, "radar: 9 packets expired (not seen for the timeout), last seen in r1 (9 in by eth0): radar packets --state expired\n" +
			"radar: 9 packets of these came to a node just as it got their address, or lost it: whether they were delivered is not known\n"},
		"and drop": {append(expired, drop), last + "radar: after delivery 1 packet was dropped (rules, full buffers, no socket): radar loss --local\n"},
		"drops":    {[]*backpack.Packet{drop, purged}, "radar: nothing was lost on the way of 3 packets; after delivery 3 " + drops + ": radar loss --local\n"},
		"both": {[]*backpack.Packet{drop, purged, closed}, "radar: nothing was lost on the way of 6 packets; after delivery 3 " + drops +
			", and 3 freed by TCP itself (old data, connection closed): radar loss --local\n"},
		"beside losses":          {[]*backpack.Packet{gone, drop, closed}, "radar: besides, after delivery 1 packet was dropped (rules, full buffers, no socket): radar loss --local\n"},
		"beside losses, nothing": {[]*backpack.Packet{gone, closed}, ""},
		"TCP":                    {[]*backpack.Packet{closed, timeWait}, "radar: nothing was lost on the way of 7 packets; after delivery only 7 freed by TCP itself (old data, connection closed), which is no fault\n"},
	} {
		agg := aggregate.New(0)
		for _, p := range c.packets {
			agg.Add(p)
		}
		var out bytes.Buffer
		newApp(nil, nil, &out).noteOtherLosses(&answer{Aggregates: agg, names: backpack.NewDecoder(bridgedDomain(), nil)}, agg.Totals().Lost > 0)
		if out.String() != c.want {
			t.Errorf("%s: it said\n%s, want\n%s", name, out.String(), c.want)
		}
	}
}
