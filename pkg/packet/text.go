// SPDX-License-Identifier: Apache-2.0

package packet

import "github.com/vnetradar/radar/pkg/record"

// FillHeader sets what r says of the packet's header. addr renders its addresses, keep keeps a
// number that r points to.
func (p *Packet) FillHeader(r *record.Record, addr func(Addr) string, keep func(int) *int) {
	r.IPVersion, r.Proto, r.Len = 4, record.ProtoName(p.Proto), int(p.Len)
	if p.IPv6 {
		r.IPVersion = 6
	}
	if !p.HasTuple {
		return
	}
	r.Src, r.Dst = addr(p.Src), addr(p.Dst)
	r.TTL, r.DSCP, r.ECN, r.IPID = int(p.TTL), int(p.TOS>>2), int(p.TOS&3), int(p.ID)
	for _, change := range [...]struct {
		field     **int
		was, sent int
	}{
		{&r.TTLSent, r.TTL, int(p.SentTTL)},
		{&r.DSCPSent, r.DSCP, int(p.SentTOS >> 2)},
		{&r.ECNSent, r.ECN, int(p.SentTOS & 3)},
	} {
		if change.sent != change.was {
			*change.field = keep(change.sent)
		}
	}
	if p.HasPorts() {
		r.Sport, r.Dport = keep(int(p.SrcPort)), keep(int(p.DstPort))
	}
	if p.HasTCP {
		p.fillTCP(r, keep)
	}
	if p.IsICMP() {
		r.ICMPType = keep(int(p.ICMP[0]))
		if p.Cut == NotCut {
			r.ICMPCode = keep(int(p.ICMP[1]))
		}
	}
	if p.IsEcho() {
		r.ICMPID, r.ICMPSeq = keep(int(p.SrcPort)), keep(int(p.DstPort))
	}
	if flags, ok := p.Flags(); ok {
		r.IPFlags = keep(flags)
	}
	offset, fragment := p.Offset()
	if fragment {
		r.FragOff = keep(offset)
	}
	if !p.IPv6 {
		return
	}
	r.FlowLabel = keep(int(p.Label))
	if fragment || p.FragID != 0 { // one fragment can be a whole packet (RFC 6946)
		r.FragID = keep(int(p.FragID))
	}
}

// fillTCP sets what r says of the packet's TCP header.
func (p *Packet) fillTCP(r *record.Record, keep func(int) *int) {
	r.TCPSeq, r.TCPFlags, r.TCPWindow, r.TCPPayload = keep(int(p.TCP.Seq)), keep(int(p.TCP.Flags)), keep(int(p.TCP.Window)), keep(int(p.TCP.Payload))
	if p.TCP.Flags&TCPAck != 0 {
		r.TCPAck = keep(int(p.TCP.Ack))
	}
}
