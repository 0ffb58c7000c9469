// SPDX-License-Identifier: Apache-2.0

package packet

import "github.com/vnetradar/radar/pkg/record"

// Types of ICMP and ICMPv6 messages.
const (
	icmpEchoReply   = 0
	icmpEcho        = 8
	icmpv6Echo      = 128
	icmpv6EchoReply = 129
)

// fragMask is the offset in 8 bytes, fragMore the flag, of a header's fragment field
// (RFC 791, 3.1); fragMask6 the offset in bytes and fragMore6 the flag of IPv6's
// fragment header (RFC 8200, 4.5).
const (
	fragMask  = 0x1fff
	fragMore  = 0x2000
	fragMask6 = 0xfff8
	fragMore6 = 0x0001
)

// Offset returns the fragment's offset in bytes; ok is false if it is no fragment.
func (p *Packet) Offset() (bytes int, ok bool) {
	if p.IPv6 {
		return int(p.FragOff & fragMask6), p.FragOff&(fragMask6|fragMore6) != 0
	}
	return int(p.FragOff&fragMask) * 8, p.FragOff&(fragMask|fragMore) != 0
}

// SetFragment makes it a fragment with that offset in bytes, of which more follow.
func (p *Packet) SetFragment(offset int) {
	p.FragOff = uint16(offset/8) | fragMore
	if p.IPv6 {
		p.FragOff = uint16(offset) | fragMore6
	}
	if offset > 0 {
		p.Later = true
	}
}

// HasPorts says whether SrcPort and DstPort are ports.
func (p *Packet) HasPorts() bool {
	return p.HasTuple && !p.Later && p.Cut == NotCut &&
		(p.Proto == record.ProtoTCP || p.Proto == record.ProtoUDP || p.Proto == record.ProtoSCTP)
}

// IsEcho says whether SrcPort and DstPort are an ICMP echo's identifier and
// sequence number.
func (p *Packet) IsEcho() bool {
	if !p.IsICMP() || p.Cut != NotCut {
		return false
	}
	if p.Proto == record.ProtoICMPv6 {
		return p.ICMP[0] == icmpv6Echo || p.ICMP[0] == icmpv6EchoReply
	}
	return p.ICMP[0] == icmpEcho || p.ICMP[0] == icmpEchoReply
}

// IsICMP says whether ICMP is the type and code of an ICMP or ICMPv6 packet.
func (p *Packet) IsICMP() bool {
	own := uint8(record.ProtoICMP)
	if p.IPv6 {
		own = record.ProtoICMPv6
	}
	return p.HasTuple && !p.Later && p.Cut != CutAll && p.Proto == own
}
