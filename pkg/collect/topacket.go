// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"net/netip"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// ToPacket makes of a record of a report what aggregates count. offset is that of
// aggregate.New. names gives its nodes and ports numbers. It uses p's memory again.
func ToPacket(p *packet.Packet, r *record.Record, names *packet.Registry, offset int64) {
	*p = packet.Packet{
		T0: uint64(r.TNs - offset), State: r.State, LatencyNs: packet.NoTime, IPv6: r.IPVersion == 6,
		TTL: uint8(r.TTL), TOS: uint8(r.DSCP<<2 | r.ECN), ID: uint16(r.IPID), SentTTL: uint8(r.TTL), SentTOS: uint8(r.DSCP<<2 | r.ECN),
		Len: uint32(max(r.Len, 0)), Segs: r.Segs, Hops: p.Hops[:0], Apart: true, Truncated: r.Truncated,
	}
	if r.LatencyNs != nil {
		p.LatencyNs = *r.LatencyNs
	}
	p.Proto, _ = record.ParseProto(r.Proto)
	p.HasTuple = setTuple(p, r)
	for i := range r.Hops {
		h := &r.Hops[i]
		node := names.Node(h.Node)
		hop := packet.Hop{
			Node: node, In: names.Port(node, h.InPort), Out: names.Port(node, h.Port),
			InNs: packet.NoTime, OutNs: packet.NoTime, DequeueNs: packet.NoTime,
		}
		if h.NodeNs != nil {
			hop.InNs, hop.OutNs = 0, *h.NodeNs
		}
		p.Hops = append(p.Hops, hop)
	}
	if r.Unordered {
		p.Unorder()
	}
	if l := r.Loss; l != nil {
		node := names.Node(l.Node)
		p.Lost = true
		p.Loss = packet.Drop{Node: node, Port: names.Port(node, l.Port), At: l.At, Reason: l.Reason, AtNs: packet.NoTime, First: l.Skbs > 0}
	}
}

func setTuple(p *packet.Packet, r *record.Record) bool {
	src, err1 := netip.ParseAddr(r.Src)
	dst, err2 := netip.ParseAddr(r.Dst)
	if err1 != nil || err2 != nil {
		return false
	}
	if p.IPv6 {
		p.Src, p.Dst = src.As16(), dst.As16()
	} else {
		p.Src, p.Dst = packet.AddrFrom4(src.As4()), packet.AddrFrom4(dst.As4())
	}
	if r.Sport != nil && r.Dport != nil {
		p.SrcPort, p.DstPort = uint16(*r.Sport), uint16(*r.Dport)
	}
	if r.ICMPID != nil && r.ICMPSeq != nil {
		p.SrcPort, p.DstPort = uint16(*r.ICMPID), uint16(*r.ICMPSeq)
	}
	if r.ICMPType != nil {
		p.ICMP[0] = uint8(*r.ICMPType)
	}
	if r.FragOff != nil {
		p.SetFragment(*r.FragOff)
	}
	return true
}
