// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"net/netip"
	"strconv"

	"github.com/vnetradar/radar/pkg/record"
)

// IP protocols whose backpacks hold more than addresses.
const (
	protoICMP = 1
	protoTCP  = 6
	protoUDP  = 17
	protoSCTP = 132

	icmpEchoReply = 0
	icmpEcho      = 8
)

// fragMask is the offset, fragMore the flag, of a header's fragment field.
const (
	fragMask = 0x1fff
	fragMore = 0x2000
)

// Fragment says that this is a fragment other than the first: its ports and ICMP
// fields are not known.
func (p *Packet) Fragment() bool { return p.Flags&slotFragment != 0 }

// HasPorts says whether SrcPort and DstPort are ports.
func (p *Packet) HasPorts() bool {
	return p.HasTuple && !p.Fragment() &&
		(p.Proto == protoTCP || p.Proto == protoUDP || p.Proto == protoSCTP)
}

// IsEcho says whether SrcPort and DstPort are an ICMP echo's identifier and
// sequence number.
func (p *Packet) IsEcho() bool {
	return p.isICMP() && (p.ICMP[0] == icmpEcho || p.ICMP[0] == icmpEchoReply)
}

func (p *Packet) isICMP() bool {
	return p.HasTuple && !p.Fragment() && p.Proto == protoICMP
}

// Record makes the record of a packet. It shares no memory with p.
func (d *Decoder) Record(p *Packet) record.Record {
	unix := int64(p.T0) + wallOffset()
	r := record.Record{
		V:         record.Version,
		ID:        d.id(p.Pos),
		GUID:      "0x" + strconv.FormatUint(p.Pos&(d.slots-1), 16),
		Source:    "ebpf",
		State:     p.State,
		Time:      record.TimeString(unix),
		TNs:       unix,
		IPVersion: 4,
		Proto:     record.ProtoName(p.Proto),
		Len:       int(p.Len),
		Segs:      p.Segs,
		LatencyNs: known(p.LatencyNs),
		Truncated: p.Truncated,
	}
	if p.HasTuple {
		d.recordSource(&r, p)
	}
	d.recordHops(&r, p)
	if p.Lost {
		r.Loss = d.loss(&p.Loss)
	}
	if p.LocalDrop {
		r.LocalDrop = d.loss(&p.Loss)
	}
	return r
}

// id is unique for ever: the domain's random epoch and the ring position.
func (d *Decoder) id(pos uint64) string {
	b := make([]byte, 0, 25)
	const hex = "0123456789abcdef"
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, hex[d.epoch>>shift&0xf])
	}
	return string(strconv.AppendUint(append(b, '-'), pos, 16))
}

func (d *Decoder) recordSource(r *record.Record, p *Packet) {
	r.Src, r.Dst = d.addrString(p.Src), d.addrString(p.Dst)
	r.TTL, r.DSCP, r.ECN, r.IPID = int(p.TTL), int(p.TOS>>2), int(p.TOS&3), int(p.ID)
	n := new([4]int)
	*n = [4]int{int(p.SrcPort), int(p.DstPort), int(p.ICMP[0]), int(p.FragOff&fragMask) * 8}
	if p.HasPorts() {
		r.Sport, r.Dport = &n[0], &n[1]
	}
	if p.isICMP() {
		r.ICMPType = &n[2]
	}
	if p.IsEcho() {
		r.ICMPID, r.ICMPSeq = &n[0], &n[1]
	}
	if p.FragOff&(fragMask|fragMore) != 0 {
		r.FragOff = &n[3]
	}
}

func (d *Decoder) recordHops(r *record.Record, p *Packet) {
	r.Hops = make([]record.Hop, len(p.Hops))
	times := make([]int64, 0, 4*len(p.Hops))
	put := func(ns int64) *int64 {
		if ns == NoTime {
			return nil
		}
		times = append(times, ns)
		return &times[len(times)-1]
	}
	tuple := p.Tuple
	for i := range p.Hops {
		h := &p.Hops[i]
		r.Hops[i] = record.Hop{
			Node:      d.NodeName(h.Node),
			NodeID:    int(h.Node),
			InPort:    d.PortName(h.In),
			Port:      d.PortName(h.Out),
			Role:      p.role(i),
			AtNs:      put(p.StampNs(i)),
			NodeNs:    put(h.NodeNs()),
			LinkNs:    put(p.LinkNs(i)),
			LatencyNs: put(p.HopNs(i)),
		}
		if h.Node == NoNode {
			r.Hops[i].NodeID = -1
		}
		if h.Changed {
			d.recordChange(&r.Hops[i], p, tuple, h.Tuple)
			tuple = h.Tuple
		}
	}
}

// recordChange names what of the tuple changed in a hop.
func (d *Decoder) recordChange(h *record.Hop, p *Packet, from, to Tuple) {
	if !p.HasTuple || from.Src != to.Src {
		h.Src = d.addrString(to.Src)
	}
	if !p.HasTuple || from.Dst != to.Dst {
		h.Dst = d.addrString(to.Dst)
	}
	if !p.HasPorts() {
		return
	}
	if from.SrcPort != to.SrcPort {
		n := int(to.SrcPort)
		h.Sport = &n
	}
	if from.DstPort != to.DstPort {
		n := int(to.DstPort)
		h.Dport = &n
	}
}

// role is the role that hop i played.
func (p *Packet) role(i int) record.Role {
	switch {
	case i == 0 && p.HasTuple: // with the head, the log begins with the source
		return record.Source
	case i == len(p.Hops)-1 && !p.open && (p.State == record.Delivered || p.State == record.Left):
		return record.Sink
	}
	return record.Transit
}

func (d *Decoder) loss(dr *Drop) *record.Loss {
	l := &record.Loss{
		Node:     d.NodeName(dr.Node),
		Port:     d.PortName(dr.Port),
		At:       dr.At,
		Reason:   dr.Reason,
		Qdisc:    dr.Qdisc,
		Function: dr.Function,
		AtNs:     known(dr.AtNs),
	}
	if dr.First {
		l.Skbs = 1
	}
	return l
}

// addrString renders an address, out of a bounded cache: few hosts send most.
func (d *Decoder) addrString(a [4]byte) string {
	s, ok := d.addrs[a]
	if !ok {
		s = netip.AddrFrom4(a).String()
		if len(d.addrs) < maxNames {
			d.addrs[a] = s
		}
	}
	return s
}

// known is a time that may be unknown, as the record model wants it.
func known(ns int64) *int64 {
	if ns == NoTime {
		return nil
	}
	return &ns
}
