// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/binary"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/vnetradar/radar/pkg/record"
)

// quotedParser reads the headers of packets that reports quote.
type quotedParser struct {
	v4  layers.IPv4
	ext layers.IPv6ExtensionSkipper
}

// header fills r with what the packet's first IP header says (of a tunnel's packet the outer
// one: that is what the nodes have forwarded), and returns what is behind it. ok is false if
// there is none. A quote is the beginning of a packet: lengths may say more than is there.
func (q *quotedParser) header(r *record.Record, b []byte) (l4 []byte, ok bool) {
	b = fromIP(b)
	var proto layers.IPProtocol
	switch {
	case len(b) >= ipv4Header && b[0]>>4 == 4:
		if q.v4.DecodeFromBytes(b, gopacket.NilDecodeFeedback) != nil {
			return nil, false
		}
		q.ipv4(r)
		l4, proto = q.v4.Payload, q.v4.Protocol
	case len(b) >= ipv6Header && b[0]>>4 == 6:
		ipv6(r, b)
		l4, proto = q.extensions(r, b[ipv6Header:min(len(b), r.Len)], layers.IPProtocol(b[6]))
	default:
		return nil, false
	}
	r.Proto = record.ProtoName(uint8(proto))
	if r.FragOff == nil || *r.FragOff == 0 {
		ports(r, proto, l4)
	}
	return l4, true
}

// fromIP is a quote from its IP header on. It begins with that or with Ethernet's, whose first
// byte may look like IP's. nil: there is none.
func fromIP(b []byte) []byte {
	inside := behindLink(b, 12)
	if inside != nil && (len(inside) == 0 || looksLikeIP(inside)) {
		return inside
	}
	if looksLikeIP(b) {
		return b
	}
	return inside
}

func looksLikeIP(b []byte) bool { return len(b) > 0 && (b[0]>>4 == 4 || b[0]>>4 == 6) }

// extensions passes over IPv6 extension headers and notes a fragment's.
func (q *quotedParser) extensions(r *record.Record, b []byte, next layers.IPProtocol) ([]byte, layers.IPProtocol) {
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
			offset := int(binary.BigEndian.Uint16(q.ext.Contents[2:]) &^ 7)
			id := int(binary.BigEndian.Uint32(q.ext.Contents[4:]))
			r.FragOff, r.FragID = &offset, &id
		}
		b, next = q.ext.Payload, q.ext.NextHeader
	}
	return nil, next
}

func (q *quotedParser) ipv4(r *record.Record) {
	r.IPVersion, r.Len, r.IPID, r.TTL = 4, int(q.v4.Length), int(q.v4.Id), int(q.v4.TTL)
	r.DSCP, r.ECN = int(q.v4.TOS>>2), int(q.v4.TOS&3)
	r.Src, r.Dst = netip.AddrFrom4([4]byte(q.v4.SrcIP)).String(), netip.AddrFrom4([4]byte(q.v4.DstIP)).String()
	if q.v4.FragOffset != 0 || q.v4.Flags&layers.IPv4MoreFragments != 0 {
		offset := 8 * int(q.v4.FragOffset)
		r.FragOff = &offset
	}
}

// ipv6 reads the fixed header (RFC 8200, 3). By hand: gopacket refuses one before an extension
// that is cut.
func ipv6(r *record.Record, b []byte) {
	label := int(binary.BigEndian.Uint32(b) & 0xfffff)
	r.IPVersion, r.Len, r.FlowLabel, r.TTL = 6, 40+int(binary.BigEndian.Uint16(b[4:])), &label, int(b[7])
	class := b[0]<<4 | b[1]>>4
	r.DSCP, r.ECN = int(class>>2), int(class&3)
	r.Src, r.Dst = netip.AddrFrom16([16]byte(b[8:])).String(), netip.AddrFrom16([16]byte(b[24:])).String()
}

// ports sets what of the transport header names the flow.
func ports(r *record.Record, proto layers.IPProtocol, b []byte) {
	two := func(off int) (*int, *int) {
		x, y := int(binary.BigEndian.Uint16(b[off:])), int(binary.BigEndian.Uint16(b[off+2:]))
		return &x, &y
	}
	switch proto {
	case layers.IPProtocolTCP, layers.IPProtocolUDP, layers.IPProtocolSCTP:
		if len(b) >= 4 {
			r.Sport, r.Dport = two(0)
		}
	case layers.IPProtocolICMPv4, layers.IPProtocolICMPv6:
		if len(b) < 1 {
			return
		}
		kind := int(b[0])
		r.ICMPType = &kind
		echo := proto == layers.IPProtocolICMPv4 && (kind == 0 || kind == 8) || proto == layers.IPProtocolICMPv6 && (kind == 128 || kind == 129)
		if echo && len(b) >= 8 {
			r.ICMPID, r.ICMPSeq = two(4)
		}
	}
}
