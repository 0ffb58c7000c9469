// SPDX-License-Identifier: Apache-2.0

// Package quote reads what a telemetry report quotes: the beginning of a packet.
package quote

import (
	"encoding/binary"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/pkg/packet"
)

// Header is what a report's quote says of its packet: its first IP header (of a tunnel's
// packet the outer one: that is what the nodes have forwarded) and what names the flow.
type Header struct {
	Version          uint8 // of IP
	Src, Dst         netip.Addr
	Proto            uint8
	HasPorts         bool
	SrcPort, DstPort uint16
	HasTCP           bool
	TCP              packet.TCP
	HasICMP          bool
	ICMPType         uint8
	HasEcho          bool
	EchoID, EchoSeq  uint16

	Len            int // bytes from the IP header on, as it says
	L4Len          int // those of them behind the IP header and its extensions
	TTL, DSCP, ECN uint8
	ID             uint16 // IPv4
	FlowLabel      uint32 // IPv6
	Fragment       bool
	FragOff        int    // bytes
	IPFlags        int    // as packet.Packet.Flags has them
	FragID         uint32 // IPv6
}

const (
	ipv4Header = 20
	ipv6Header = 40
	maxTags    = 8
)

// Parser reads the headers of packets that reports quote. It is for one goroutine at a time.
type Parser struct {
	v4  layers.IPv4
	ext layers.IPv6ExtensionSkipper
}

// Header reads the header of a quote into h, and returns what is behind it. ok is false if
// there is none. A quote is the beginning of a packet: lengths may say more than is there.
func (q *Parser) Header(h *Header, b []byte) (l4 []byte, ok bool) {
	b = FromIP(b)
	*h = Header{}
	var proto layers.IPProtocol
	switch {
	case len(b) >= ipv4Header && b[0]>>4 == 4:
		if q.v4.DecodeFromBytes(b, gopacket.NilDecodeFeedback) != nil {
			return nil, false
		}
		q.ipv4(h)
		l4, proto = q.v4.Payload, q.v4.Protocol
		h.L4Len = h.Len - 4*int(q.v4.IHL)
	case len(b) >= ipv6Header && b[0]>>4 == 6:
		h.ipv6(b)
		inside := b[ipv6Header:min(len(b), h.Len)]
		l4, proto = q.extensions(h, inside, layers.IPProtocol(b[6]))
		h.L4Len = h.Len - ipv6Header - (len(inside) - len(l4))
	default:
		return nil, false
	}
	h.Proto = uint8(proto)
	if h.FragOff == 0 {
		h.Transport(l4)
	}
	return l4, true
}

// FromIP is a quote from its IP header on. It begins with that or with Ethernet's, whose first
// byte may look like IP's. nil: there is none.
func FromIP(b []byte) []byte {
	inside := BehindLink(b, 12)
	if inside != nil && (len(inside) == 0 || looksLikeIP(inside)) {
		return inside
	}
	if looksLikeIP(b) {
		return b
	}
	return inside
}

// BehindLink returns a packet from its IP header on: behind that of Ethernet and VLAN
// tags, or of a cooked capture, whose EtherType is at off. nil: it is none of IP.
func BehindLink(b []byte, off int) []byte {
	for range maxTags {
		if len(b) < off+2 {
			return nil
		}
		switch binary.BigEndian.Uint16(b[off:]) {
		case 0x0800, 0x86dd:
			return b[off+2:]
		case 0x8100, 0x88a8, 0x9100:
			off += 4
		default:
			return nil
		}
	}
	return nil
}

func looksLikeIP(b []byte) bool { return len(b) > 0 && (b[0]>>4 == 4 || b[0]>>4 == 6) }

// extensions passes over IPv6 extension headers and notes a fragment's.
func (q *Parser) extensions(h *Header, b []byte, next layers.IPProtocol) ([]byte, layers.IPProtocol) {
	for range maxTags {
		switch next {
		case layers.IPProtocolIPv6HopByHop, layers.IPProtocolIPv6Routing, layers.IPProtocolIPv6Destination, layers.IPProtocolIPv6Fragment:
		default:
			return b, next
		}
		if q.ext.DecodeFromBytes(b, gopacket.NilDecodeFeedback) != nil || len(q.ext.Contents) < 8 {
			return nil, next
		}
		if next == layers.IPProtocolIPv6Fragment { // RFC 8200, 4.5
			h.Fragment, h.FragOff = true, int(binary.BigEndian.Uint16(q.ext.Contents[2:])&^7)
			h.IPFlags = int(q.ext.Contents[3] & 1)
			h.FragID = binary.BigEndian.Uint32(q.ext.Contents[4:])
		}
		b, next = q.ext.Payload, q.ext.NextHeader
	}
	return nil, next
}

func (q *Parser) ipv4(h *Header) {
	h.Version, h.Len, h.ID, h.TTL = 4, int(q.v4.Length), q.v4.Id, q.v4.TTL
	h.DSCP, h.ECN = q.v4.TOS>>2, q.v4.TOS&3
	h.Src, h.Dst = netip.AddrFrom4([4]byte(q.v4.SrcIP)), netip.AddrFrom4([4]byte(q.v4.DstIP))
	h.Fragment = q.v4.FragOffset != 0 || q.v4.Flags&layers.IPv4MoreFragments != 0
	h.FragOff, h.IPFlags = 8*int(q.v4.FragOffset), int(q.v4.Flags&(layers.IPv4DontFragment|layers.IPv4MoreFragments))
}

// ipv6 reads the fixed header (RFC 8200, 3). By hand: gopacket refuses one before an extension
// that is cut.
func (h *Header) ipv6(b []byte) {
	h.Version, h.Len, h.FlowLabel, h.TTL = 6, 40+int(binary.BigEndian.Uint16(b[4:])), binary.BigEndian.Uint32(b)&0xfffff, b[7]
	class := b[0]<<4 | b[1]>>4
	h.DSCP, h.ECN = class>>2, class&3
	h.Src, h.Dst = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
}

// Transport sets what of the transport header names the flow, and what TCP's says. b is its beginning, Proto and
// L4Len are known.
func (h *Header) Transport(b []byte) {
	h.HasPorts, h.HasTCP, h.HasICMP, h.HasEcho = false, false, false, false
	if h.Proto == uint8(layers.IPProtocolTCP) {
		h.TCP, h.HasTCP = packet.ReadTCP(b, h.L4Len)
	}
	switch proto := layers.IPProtocol(h.Proto); proto {
	case layers.IPProtocolTCP, layers.IPProtocolUDP, layers.IPProtocolSCTP:
		if len(b) >= 4 {
			h.HasPorts, h.SrcPort, h.DstPort = true, binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
		}
	case layers.IPProtocolICMPv4, layers.IPProtocolICMPv6:
		if len(b) < 1 {
			return
		}
		h.HasICMP, h.ICMPType = true, b[0]
		echo := proto == layers.IPProtocolICMPv4 && (b[0] == 0 || b[0] == 8) || proto == layers.IPProtocolICMPv6 && (b[0] == 128 || b[0] == 129)
		if echo && len(b) >= 8 {
			h.HasEcho, h.EchoID, h.EchoSeq = true, binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b[6:])
		}
	}
}

// Fill sets what a packet has of the header.
func (h *Header) Fill(p *packet.Packet) {
	p.HasTuple, p.IPv6, p.Proto, p.Len = true, h.Version == 6, h.Proto, uint32(max(h.Len, 0))
	p.Src, p.Dst = h.Src.As16(), h.Dst.As16()
	p.TTL, p.TOS, p.ID, p.Label = h.TTL, h.DSCP<<2|h.ECN, h.ID, h.FlowLabel
	p.SentTTL, p.SentTOS = p.TTL, p.TOS
	p.SetFragment(h.FragOff, h.IPFlags)
	p.FragID = h.FragID
	switch {
	case h.HasPorts:
		p.TCP, p.HasTCP = h.TCP, h.HasTCP
		p.SrcPort, p.DstPort = h.SrcPort, h.DstPort
	case h.HasEcho:
		p.ICMP[0], p.SrcPort, p.DstPort = h.ICMPType, h.EchoID, h.EchoSeq
	case h.HasICMP:
		p.ICMP[0], p.Cut = h.ICMPType, packet.CutAfterType
	default:
		p.Cut = packet.CutAll
	}
}
