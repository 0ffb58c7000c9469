// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// SampleLosses are two places.
func SampleLosses() []aggregate.LossRow {
	return []aggregate.LossRow{
		{
			LossPlace: aggregate.LossPlace{Node: "r1", NodeID: 2, Port: "eth1", At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf", Function: "__dev_queue_xmit"},
			Packets:   40, Skbs: 4, Bytes: 60000, Flows: 2, FlowsMore: true,
			TopFlows: []aggregate.LossFlow{{Flow: sampleFlow(), Packets: 30, Bytes: 45000}, {Flow: aggregate.Flow{Proto: "icmp", Src: "10.0.1.1", Dst: "10.0.2.2", ICMPType: Ptr(8), ICMPID: Ptr(7)}, Packets: 9, Bytes: 13500}},
		},
		{LossPlace: aggregate.LossPlace{Node: "r1", NodeID: 2, At: record.AtNode, Reason: "NETFILTER_DROP"}, Packets: 2, Skbs: 2, Bytes: 200, Flows: 1},
	}
}

func sampleFlow() aggregate.Flow {
	return aggregate.Flow{Proto: "udp", Src: "10.0.1.1", Dst: "10.0.2.2", Sport: Ptr(40001), Dport: Ptr(9000)}
}

// SampleFlows: one with everything, and later fragments that were all lost.
func SampleFlows() []aggregate.FlowRow {
	first := time.Date(2026, 3, 2, 10, 15, 4, 123456789, time.UTC).UnixNano()
	return []aggregate.FlowRow{
		{
			Flow: sampleFlow(), NATSrc: "192.0.2.1", NATSport: Ptr(1024), Packets: 900, Bytes: 1_234_567,
			Delivered: 800, Left: 60, Lost: 30, Expired: 10, LocalDrops: 5, Dropped: 3,
			FirstNs: first, LastNs: first + 1_500_000_000, DurationNs: 1_500_000_000, RateBps: Ptr(uint64(6_584_357)),
			Latency:  &aggregate.Quantiles{Count: 860, MinNs: 900, P50Ns: 12300, P90Ns: 20000, P99Ns: 45600, P999Ns: 50000, MaxNs: 60000},
			JitterNs: Ptr(int64(1234)), Reordered: 43, ReorderedRatio: Ptr(0.05), Paths: 2,
			PathList: []aggregate.FlowPath{{Path: "h1 > r1 > h2", Packets: 890}, {Path: "h1", Packets: 10}},
		},
		{
			Flow:    aggregate.Flow{Proto: "89", Src: "10.0.1.1", Dst: "10.0.2.2", Fragments: true},
			Packets: 2, Bytes: 200, Expired: 2, FirstNs: first, LastNs: first, Paths: 1, PathsMore: true,
			PathList: []aggregate.FlowPath{{Path: "h1", Packets: 2}},
		},
	}
}

// Ptr returns a pointer to v.
func Ptr[T any](v T) *T { return &v }

// SampleRecords are one packet of each kind that prints differently.
func SampleRecords() []*record.Record {
	t0 := time.Date(2026, 3, 2, 10, 15, 4, 123456789, time.UTC)
	base := func(n int, proto string) *record.Record {
		ns := t0.Add(time.Duration(n) * time.Millisecond).UnixNano()
		return &record.Record{
			V: 1, ID: "5f3a9c01-" + string(rune('a'+n)), GUID: "0x1a2b", Source: "ebpf",
			TNs: ns, Time: record.TimeString(ns), IPVersion: 4,
			Src: "10.0.1.1", Dst: "10.0.4.2", Proto: proto, Len: 106, Segs: 1, TTL: 64, IPID: 7,
		}
	}
	delivered := base(0, "udp")
	delivered.State, delivered.Sport, delivered.Dport = record.Delivered, Ptr(40001), Ptr(9000)
	delivered.LatencyNs = Ptr(int64(851300))
	delivered.Hops = []record.Hop{
		{Node: "h1", NodeID: 1, Port: "e0", Role: record.Source, AtNs: Ptr(int64(0))},
		{Node: "r1", NodeID: 2, InPort: "e0", Port: "e1", Role: record.Transit, AtNs: Ptr(int64(4600)), NodeNs: Ptr(int64(1200)), LinkNs: Ptr(int64(3400)), LatencyNs: Ptr(int64(4600))},
		{Node: "h2", NodeID: 4, InPort: "e0", Role: record.Sink, AtNs: Ptr(int64(851300)), LinkNs: Ptr(int64(846700)), LatencyNs: Ptr(int64(846700))},
	}
	lost := base(1, "tcp")
	lost.State, lost.Sport, lost.Dport, lost.Len, lost.Segs = record.Lost, Ptr(40002), Ptr(80), 14600, 10
	lost.TCPSeq, lost.TCPAck, lost.TCPFlags, lost.TCPWindow, lost.TCPPayload = Ptr(4294967000), Ptr(77), Ptr(24), Ptr(501), Ptr(14080)
	lost.LatencyNs, lost.Hops = Ptr(int64(4700)), delivered.Hops[:2]
	lost.Loss = &record.Loss{Node: "r1", Port: "e1", At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf", Function: "__dev_queue_xmit", AtNs: Ptr(int64(4700))}
	echo := base(2, "icmp")
	echo.State, echo.ICMPType, echo.ICMPID, echo.ICMPSeq = record.InFlight, Ptr(8), Ptr(77), Ptr(1)
	echo.Hops = delivered.Hops[:1]
	nat := base(3, "udp")
	nat.State, nat.Sport, nat.Dport = record.Left, Ptr(40001), Ptr(53)
	nat.Hops = []record.Hop{
		{Node: "h1", Port: "e0", Role: record.Source, AtNs: Ptr(int64(0))},
		{Node: "r1", InPort: "e0", Port: "e1", Role: record.Sink, NodeNs: Ptr(int64(900)), Src: "192.0.2.1", Sport: Ptr(1024)},
	}
	tree := base(4, "89")
	tree.State, tree.Truncated, tree.FragOff = record.Expired, true, Ptr(1480)
	tree.Hops = []record.Hop{{Node: "h1"}, {Node: "s1"}, {Node: "h2"}, {Node: "h3", Prev: Ptr(1)}}
	local := base(5, "udp")
	local.State, local.Hops = record.Delivered, delivered.Hops[2:]
	local.LocalDrop = &record.Loss{Node: "h2", At: record.AtNode, Reason: "SOCKET_RCVBUFF"}
	six := base(6, "icmpv6")
	six.State, six.IPVersion, six.Src, six.Dst, six.IPID = record.Delivered, 6, "2001:db8:1::1", "2001:db8:4::2", 0
	six.FlowLabel, six.ICMPType, six.ICMPID, six.ICMPSeq = Ptr(0xa1234), Ptr(128), Ptr(77), Ptr(1)
	six.Hops = delivered.Hops
	piece := base(7, "udp")
	piece.State, piece.IPVersion, piece.Src, piece.Dst, piece.IPID = record.Left, 6, "2001:db8:1::1", "2001:db8:4::2", 0
	piece.Sport, piece.Dport, piece.FragOff, piece.FragID, piece.Hops = Ptr(4000), Ptr(53), Ptr(0), Ptr(0xdeadbeef), nat.Hops[:1]
	return []*record.Record{delivered, lost, echo, nat, tree, local, six, piece}
}

// BridgedDomain has two containers on a bridge that the host closes, a third whose
// other end is not attached, and a router behind the first.
func BridgedDomain() *domain.Domain {
	return &domain.Domain{
		Version: 1, Name: "default", Epoch: 1, Options: domain.Options{Slots: 64},
		Nodes: []domain.Node{
			{ID: 1, Name: "c1", Spec: "docker:c1"}, {ID: 2, Name: "c2", Spec: "docker:c2"},
			{ID: 3, Name: "host", Spec: "netns:host", Auto: true}, {ID: 4, Name: "r1", Spec: "netns:r1"},
			{ID: 5, Name: "gone", Spec: "netns:gone", Removed: true},
		},
		Ports: []domain.Port{
			{ID: 0, Node: 1, Name: "eth0", Ifindex: 2, Kind: "veth", Role: domain.Internal, Peer: -1, Link: "host/docker0"},
			{ID: 1, Node: 2, Name: "eth0", Ifindex: 2, Kind: "veth", Role: domain.Internal, Peer: -1, Link: "host/docker0"},
			{ID: 2, Node: 3, Name: "docker0", Ifindex: 3, Kind: "bridge", Role: domain.Edge, Peer: -1, Link: "host/docker0", Place: "bridge"},
			{ID: 3, Node: 3, Name: "veth77", Ifindex: 9, Kind: "veth", Role: domain.Edge, Peer: -1, Link: "host/docker0", Place: "bridge-port"},
			{ID: 4, Node: 1, Name: "eth1", Ifindex: 3, Kind: "veth", Role: domain.Internal, Peer: 5},
			{ID: 5, Node: 4, Name: "eth0", Ifindex: 2, Kind: "veth", Role: domain.Internal, Peer: 4},
			{ID: 6, Node: 4, Name: "eth1", Ifindex: 3, Kind: "veth", Role: domain.Edge, Forced: true, Peer: 7},
			{ID: 7, Node: 5, Name: "eth0", Ifindex: 2, Kind: "veth", Role: domain.Internal, Peer: 6, Removed: true},
		},
	}
}

// NetworkBridge is the bridge of a network of Docker's.
const NetworkBridge = "br-ed1512852e24"

// NetworkDomain is bridgedDomain with a bridge that Docker calls otherwise.
func NetworkDomain() *domain.Domain {
	d := BridgedDomain()
	for i := range d.Ports {
		p := &d.Ports[i]
		if p.Link != "" {
			p.Link = "host/" + NetworkBridge
		}
		if p.Place == domain.Bridge {
			p.Name, p.Network = NetworkBridge, "shop"
		}
	}
	return d
}

// BridgedLoad is traffic of every kind that bridgedDomain has.
func BridgedLoad() *aggregate.Aggregates {
	agg := aggregate.New(0)
	hop := func(node, in, out uint16, inNs, outNs int64) packet.Hop {
		return packet.Hop{Node: node, In: in, Out: out, InNs: inNs, OutNs: outNs, DequeueNs: packet.NoTime}
	}
	const none = packet.NoPort
	add := func(n int, state record.State, loss packet.Drop, hops ...packet.Hop) {
		agg.Add(&packet.Packet{State: state, Hops: hops, Segs: n, Lost: state == record.Lost, Loss: loss, LatencyNs: packet.NoTime})
	}
	// From c1 by the bridge to c2, and to the host itself.
	add(10, record.Delivered, packet.Drop{}, hop(1, none, 0, -1, 0), hop(2, 1, none, 1500, -1))
	add(3, record.Delivered, packet.Drop{}, hop(1, none, 0, -1, 0), hop(3, 2, none, 900, -1))
	// The host to c2; another host on the bridge to c1, and c1's answers.
	add(4, record.Delivered, packet.Drop{}, hop(3, none, 2, -1, 0), hop(2, 1, none, 700, -1))
	add(5, record.Delivered, packet.Drop{}, hop(3, 3, none, 0, -1), hop(1, 0, none, 600, -1))
	add(6, record.Left, packet.Drop{}, hop(1, none, 0, -1, 0), hop(3, none, 3, -1, 800))
	// Through the domain's other edge: c1's, and what r1 forwards to it.
	add(7, record.Left, packet.Drop{}, hop(1, none, 4, -1, 0), hop(4, 5, 6, 2000, 2500))
	add(8, record.Delivered, packet.Drop{}, hop(4, 6, 5, 0, 400), hop(1, 4, none, 1400, -1))
	// Lost: in c1's queue to the bridge, before c2 had it, by r1's rules.
	add(2, record.Lost, packet.Drop{Node: 1, Port: 0, At: record.AtQueue}, hop(1, none, 0, -1, 0))
	add(1, record.Lost, packet.Drop{Node: 2, Port: 1, At: record.AtIngress}, hop(1, none, 0, -1, 0))
	add(9, record.Lost, packet.Drop{Node: 4, Port: none, At: record.AtNode}, hop(1, none, 4, -1, 0), hop(4, 5, none, 2000, -1))
	// Not seen again: behind c1's port on the bridge, inside r1.
	add(11, record.Expired, packet.Drop{}, hop(1, none, 0, -1, 0))
	add(12, record.Expired, packet.Drop{}, hop(1, none, 4, -1, 0), hop(4, 5, none, 2000, -1))
	return agg
}
