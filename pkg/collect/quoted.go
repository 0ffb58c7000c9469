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
	parse map[gopacket.LayerType]*gopacket.DecodingLayerParser // by what comes first
	eth   layers.Ethernet
	vlan  layers.Dot1Q
	v4    layers.IPv4
	v6    layers.IPv6
	ext   layers.IPv6ExtensionSkipper
	icmp4 layers.ICMPv4
	icmp6 layers.ICMPv6
	found []gopacket.LayerType
}

func (q *quotedParser) from(first gopacket.LayerType) *gopacket.DecodingLayerParser {
	p := q.parse[first]
	if p == nil {
		if q.parse == nil {
			q.parse = make(map[gopacket.LayerType]*gopacket.DecodingLayerParser)
		}
		p = gopacket.NewDecodingLayerParser(first, &q.eth, &q.vlan, &q.v4, &q.v6, &q.ext, &q.icmp4, &q.icmp6)
		p.IgnoreUnsupported = true
		q.parse[first] = p
	}
	return p
}

// header fills r with what the packet's headers say, and returns what is behind that of IP. ok
// is false if there is none.
func (q *quotedParser) header(r *record.Record, b []byte) (l4 []byte, ok bool) {
	_ = q.from(firstLayer(b)).DecodeLayers(b, &q.found) // a quote is the beginning of a packet: what could be read counts
	proto, known := layers.IPProtocol(0), false
	for _, layer := range q.found {
		switch layer {
		case layers.LayerTypeIPv4, layers.LayerTypeIPv6:
			if known { // a tunnel: the outer packet is what the nodes forwarded
				continue
			}
			known = true
			if layer == layers.LayerTypeIPv4 {
				l4, proto = q.v4.Payload, q.v4.Protocol
				q.ipv4(r)
			} else {
				l4, proto = q.v6.Payload, q.v6.NextHeader
				q.ipv6(r)
			}
		case layers.LayerTypeIPv6HopByHop, layers.LayerTypeIPv6Routing, layers.LayerTypeIPv6Destination, layers.LayerTypeIPv6Fragment:
			if r.IPVersion != 6 || len(q.ext.Contents) < 8 {
				continue
			}
			l4, proto = q.ext.Payload, q.ext.NextHeader
			if layer == layers.LayerTypeIPv6Fragment { // RFC 8200, 4.5
				offset := int(binary.BigEndian.Uint16(q.ext.Contents[2:]) &^ 7)
				id := int(binary.BigEndian.Uint32(q.ext.Contents[4:]))
				r.FragOff, r.FragID = &offset, &id
			}
		}
	}
	if !known {
		return nil, false
	}
	r.Proto = record.ProtoName(uint8(proto))
	if r.FragOff == nil || *r.FragOff == 0 {
		ports(r, proto, l4)
	}
	return l4, true
}

// firstLayer tells a quote that begins with an Ethernet header from one that begins with IP.
func firstLayer(b []byte) gopacket.LayerType {
	if len(b) >= 14 {
		switch binary.BigEndian.Uint16(b[12:]) {
		case 0x0800:
			if len(b) == 14 || b[14]>>4 == 4 {
				return layers.LayerTypeEthernet
			}
		case 0x86dd:
			if len(b) == 14 || b[14]>>4 == 6 {
				return layers.LayerTypeEthernet
			}
		case 0x8100, 0x88a8, 0x0806:
			return layers.LayerTypeEthernet
		}
	}
	switch {
	case len(b) > 0 && b[0]>>4 == 4:
		return layers.LayerTypeIPv4
	case len(b) > 0 && b[0]>>4 == 6:
		return layers.LayerTypeIPv6
	}
	return layers.LayerTypeEthernet
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
