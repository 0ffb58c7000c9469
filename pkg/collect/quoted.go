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
	v6  layers.IPv6
	ext layers.IPv6ExtensionSkipper
}

// header fills r with what the packet's first IP header says (of a tunnel's packet the outer
// one: that is what the nodes have forwarded), and returns what is behind it. ok is false if
// there is none. A quote is the beginning of a packet: lengths may say more than is there.
func (q *quotedParser) header(r *record.Record, b []byte) (l4 []byte, ok bool) {
	if !beginsWithIP(b) {
		b = behindLink(b, 12)
	}
	var proto layers.IPProtocol
	switch {
	case len(b) >= ipv4Header && b[0]>>4 == 4:
		if q.v4.DecodeFromBytes(b, gopacket.NilDecodeFeedback) != nil {
			return nil, false
		}
		q.ipv4(r)
		l4, proto = q.v4.Payload, q.v4.Protocol
	case len(b) >= 40 && b[0]>>4 == 6:
		// By hand: gopacket refuses a header before an extension that is cut.
		copyIPv6(&q.v6, b)
		q.ipv6(r)
		l4, proto = q.extensions(r, b[40:min(len(b), 40+int(q.v6.Length))], q.v6.NextHeader)
	default:
		return nil, false
	}
	r.Proto = record.ProtoName(uint8(proto))
	if r.FragOff == nil || *r.FragOff == 0 {
		ports(r, proto, l4)
	}
	return l4, true
}

// beginsWithIP tells a quote that begins with IP from one that begins with Ethernet, whose
// first byte may look like IP's.
func beginsWithIP(b []byte) bool {
	if len(b) >= 14 && behindLink(b, 12) != nil {
		if inside := behindLink(b, 12); len(inside) == 0 || inside[0]>>4 == 4 || inside[0]>>4 == 6 {
			return false
		}
	}
	return len(b) > 0 && (b[0]>>4 == 4 || b[0]>>4 == 6)
}

// copyIPv6 reads the fixed header (RFC 8200, 3).
func copyIPv6(v6 *layers.IPv6, b []byte) {
	v6.TrafficClass, v6.FlowLabel = b[0]<<4|b[1]>>4, binary.BigEndian.Uint32(b)&0xfffff
	v6.Length, v6.NextHeader, v6.HopLimit = binary.BigEndian.Uint16(b[4:]), layers.IPProtocol(b[6]), b[7]
	v6.SrcIP, v6.DstIP = b[8:24], b[24:40]
}

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

func (q *quotedParser) ipv6(r *record.Record) {
	label := int(q.v6.FlowLabel)
	r.IPVersion, r.Len, r.FlowLabel, r.TTL = 6, 40+int(q.v6.Length), &label, int(q.v6.HopLimit)
	r.DSCP, r.ECN = int(q.v6.TrafficClass>>2), int(q.v6.TrafficClass&3)
	r.Src, r.Dst = netip.AddrFrom16([16]byte(q.v6.SrcIP)).String(), netip.AddrFrom16([16]byte(q.v6.DstIP)).String()
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
