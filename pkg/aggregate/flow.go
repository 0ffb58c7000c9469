// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// Bounds of what is kept of flows. With 50 packets whose latencies vary by a factor
// of three, so that they fill 50 buckets, a flow was measured to take 1,000 bytes, and
// 190 in each of two snapshots (TestMemoryOfFlows, BenchmarkSnapshot): a full table
// is 66 + 25 MB. About 540 bytes are fixed, 8 are for each bucket that there is memory
// for (50 to 57) and 16 for each path.
const (
	MaxFlowRows    = 65536
	MaxFlowBuckets = 4 << 20 // of all flows; 8 bytes each
	minFlowBuckets = 16      // that a flow may have also when these are used up
	MaxFlowPaths   = 16      // of one flow
)

// FlowKey is what makes a flow: one direction, as the source saw it, or as a place that counts saw it.
type FlowKey struct {
	src, dst     packet.Addr
	sport, dport uint16 // of an ICMP echo: identifier, 0
	ipv6         bool
	proto        uint8
	kind         flowKind
	icmp         uint8 // type
}

// flowKind says what of a FlowKey is there.
type flowKind uint8

// The kinds of flows. Later fragments do not show their ports or anything else of
// their datagram: those of one protocol between two addresses are a flow of their
// own, in which the first fragments are not.
const (
	plainFlow flowKind = iota
	portsFlow
	icmpFlow
	echoFlow
	fragmentFlow
)

// KeyOf is the key of the flow that a packet is of; of its header everything that makes a flow must be there, or said not
// to be.
func KeyOf(p *packet.Packet) FlowKey {
	k := FlowKey{src: p.Src, dst: p.Dst, ipv6: p.IPv6, proto: p.Proto}
	switch {
	case p.Later:
		k.kind = fragmentFlow
	case p.HasPorts():
		k.kind, k.sport, k.dport = portsFlow, p.SrcPort, p.DstPort
	case p.IsEcho():
		k.kind, k.icmp, k.sport = echoFlow, p.ICMP[0], p.SrcPort
	case p.IsICMP():
		k.kind, k.icmp = icmpFlow, p.ICMP[0]
	}
	return k
}

// flow is what is known of one flow.
type flow struct {
	key  FlowKey
	nat  packet.Tuple // as last seen changed on the way
	tail int32        // last of its arrivals that wait, -1: none
	head int32

	packets, bytes                          uint64
	delivered, left, lost, expired, ignored uint64
	localDrops                              uint64
	undated                                 uint64 // of reports, which say no time of their own

	first, last uint64 // stamps, CLOCK_MONOTONIC ns
	times       flowLatency
	order       order
	paths       []pathUse
	otherPaths  uint64 // packets on paths that did not fit

	// Of the last snapshot.
	number   uint32 // from 1
	same     bool   // nothing has changed since
	chunk    uint16 // where it stands
	from, to uint32
}

// pathUse is how many packets of a flow took one path.
type pathUse struct {
	id      uint32
	packets uint64
}

// flow returns the flow of a packet; nil if its header is not known, or there are
// too many flows.
func (a *Aggregates) flow(p *packet.Packet) *flow {
	if !p.HasTuple {
		a.totals.NoFlow += uint64(p.Segs)
		return nil
	}
	k := KeyOf(p)
	if f := a.lastFlow; f != nil && f.key == k {
		return f
	}
	f := a.flows[k]
	if f == nil {
		if len(a.flows) >= MaxFlowRows {
			a.totals.OverFlows += uint64(p.Segs)
			return nil
		}
		f = &flow{key: k, head: -1, tail: -1}
		a.flows[k] = f
	}
	a.lastFlow = f
	return f
}

// countFlow counts the packet in its flow.
func (a *Aggregates) countFlow(f *flow, way *path, p *packet.Packet) {
	n := uint64(p.Segs)
	f.same = false
	end := p.T0 + uint64(max(p.LatencyNs, 0))
	// Signed: what others have reported may be older than the clock.
	if f.packets == 0 || int64(p.T0) < int64(f.first) {
		f.first = p.T0
	}
	if f.packets == 0 || int64(end) > int64(f.last) {
		f.last = end
	}
	f.packets += n
	f.bytes += uint64(p.Len)
	if p.LocalDrop {
		f.localDrops += n
	}
	switch p.State {
	case record.Delivered:
		f.delivered += n
	case record.Left:
		f.left += n
	case record.Lost:
		f.lost += n
	case record.Expired:
		f.expired += n
	case record.Ignored:
		f.ignored += n
	}
	for i := range p.Drops {
		if p.Drops[i].Local {
			f.localDrops += n
		}
	}
	if (p.State == record.Delivered || p.State == record.Left) && p.LatencyNs != packet.NoTime {
		a.buckets += f.times.add(p.LatencyNs, n, a.buckets < MaxFlowBuckets)
		if !p.Undated {
			a.arrive(f, end, p.T0, n)
		}
	}
	if p.Undated {
		f.undated += n
		a.totals.Undated += n
	}
	for i := len(p.Hops) - 1; i >= 0; i-- {
		if p.Hops[i].Changed {
			f.nat = p.Hops[i].Tuple
			break
		}
	}
	f.take(way, n)
}

// take counts n packets on a path.
func (f *flow) take(way *path, n uint64) {
	for i := range f.paths {
		if f.paths[i].id == way.id {
			f.paths[i].packets += n
			return
		}
	}
	if way.id == noPath || len(f.paths) >= MaxFlowPaths {
		f.otherPaths += n
		way.overFlows += n
		return
	}
	f.paths = append(f.paths, pathUse{way.id, n})
}
