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
	fragBits  = 13 // below the flags
	fragDF    = 2  // of the flags
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

// Flags returns the flags of IPv4's header, DF 2 and MF 1, or of IPv6's fragment header, M 1; ok is false
// if IPv6 has none.
func (p *Packet) Flags() (flags int, ok bool) {
	if !p.IPv6 {
		return int(p.FragOff >> fragBits & (fragDF | 1)), true
	}
	_, fragment := p.Offset()
	return int(p.FragOff & fragMore6), fragment || p.FragID != 0
}

// SetFragment sets the offset in bytes and the flags, as Flags has them; 0 and no M make it no fragment.
func (p *Packet) SetFragment(offset, flags int) {
	p.FragOff = uint16(flags)<<fragBits | uint16(offset/8)
	if p.IPv6 {
		p.FragOff = uint16(offset) | uint16(flags&fragMore6)
	}
	if offset > 0 {
		p.Later = true
	}
}

// HasPorts reports whether SrcPort and DstPort are ports.
func (p *Packet) HasPorts() bool {
	return p.HasTuple && !p.Later && p.Cut == NotCut &&
		(p.Proto == record.ProtoTCP || p.Proto == record.ProtoUDP || p.Proto == record.ProtoSCTP)
}

// IsEcho reports whether SrcPort and DstPort are an ICMP echo's identifier and
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

// IsICMP reports whether ICMP is the type and code of an ICMP or ICMPv6 packet.
func (p *Packet) IsICMP() bool {
	own := uint8(record.ProtoICMP)
	if p.IPv6 {
		own = record.ProtoICMPv6
	}
	return p.HasTuple && !p.Later && p.Cut != CutAll && p.Proto == own
}
