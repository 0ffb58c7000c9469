// SPDX-License-Identifier: Apache-2.0

package intwire

import (
	"encoding/binary"
	"net/netip"
)

const (
	etherIPv4   = 0x0800
	etherIPv6   = 0x86dd
	etherVLAN   = 0x8100
	etherQinQ   = 0x88a8
	etherQinQ9  = 0x9100
	etherMPLS   = 0x8847
	etherMPLSm  = 0x8848
	etherBridge = 0x6558 // an Ethernet frame, in GRE and Geneve

	protoIPv4 = 4
	protoTCP  = 6
	protoUDP  = 17
	protoIPv6 = 41
	protoGRE  = 47

	// maxTags bounds VLAN tags, MPLS labels and IPv6 extension headers; maxDepth bounds
	// tunnels in tunnels.
	maxTags  = 8
	maxDepth = 4
)

func be16(b []byte) uint16 { return binary.BigEndian.Uint16(b) }
func be32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }

// cut reports and notes that b lacks some of the n bytes that a header needs. A quoted
// packet may be cut: reports quote the beginning.
func (c *walk) cut(code Code, b []byte, n int) bool {
	if len(b) >= n {
		return false
	}
	if !c.quoted() {
		c.m.note(code, len(b), n)
	}
	return true
}

func (d *Decoder) ethernet(c *walk, b []byte) {
	if c.cut(CutLink, b, 14) {
		return
	}
	d.etherType(c, be16(b[12:]), b[14:])
}

func (d *Decoder) cooked(c *walk, b []byte, size, proto int) {
	if c.cut(CutLink, b, size) {
		return
	}
	d.etherType(c, be16(b[proto:]), b[size:])
}

// etherType goes on behind a link-layer header of that type.
func (d *Decoder) etherType(c *walk, t uint16, b []byte) {
	for range maxTags {
		switch t {
		case etherVLAN, etherQinQ, etherQinQ9:
			if c.cut(CutLink, b, 4) {
				return
			}
			t, b = be16(b[2:]), b[4:]
		case etherMPLS, etherMPLSm:
			if c.cut(CutLink, b, 4) {
				return
			}
			if bottom := b[2]&1 != 0; bottom {
				t = etherIPv4 // or IPv6: the first nibble decides
			}
			b = b[4:]
		case etherIPv4, etherIPv6:
			d.ip(c, b)
			return
		default:
			if !c.quoted() {
				c.m.note(NotIP, int(t), 0)
			}
			return
		}
	}
}

// ip goes through an IPv4 or IPv6 header; its first nibble decides.
func (d *Decoder) ip(c *walk, b []byte) {
	if c.cut(CutIP, b, 1) {
		return
	}
	switch b[0] >> 4 {
	case 4:
		d.ipv4(c, b)
	case 6:
		d.ipv6(c, b)
	default:
		if !c.quoted() {
			c.m.note(NotIP, int(b[0]>>4), 0)
		}
	}
}

func (d *Decoder) ipv4(c *walk, b []byte) {
	if c.cut(CutIP, b, 20) {
		return
	}
	head, total := int(b[0]&15)*4, int(be16(b[2:]))
	if head < 20 {
		c.m.note(BadIP, int(b[0]), total)
		return
	}
	if total == 0 { // a GSO train, as captured at its sender
		total = len(b)
	}
	if total < head {
		c.m.note(BadIP, int(b[0]), total)
		total = len(b)
	}
	c.header(4, b[9], b[1], b[8])
	if c.depth == 0 {
		c.pkt.Src, c.pkt.Dst = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
	}
	c.cut(CutIP, b, total)
	if len(b) < head {
		return
	}
	b = b[:min(total, len(b))]
	if be16(b[6:])&0x1fff != 0 {
		c.fragment()
		return
	}
	c.first = c.first || b[6]&0x20 != 0
	d.transport(c, b[9], b[head:], total-head)
}

func (d *Decoder) ipv6(c *walk, b []byte) {
	if c.cut(CutIP, b, 40) {
		return
	}
	next, total := b[6], 40+int(be16(b[4:]))
	if total == 40 { // a jumbogram, or a GSO train
		total = len(b)
	}
	c.header(6, next, b[0]<<4|b[1]>>4, b[7])
	if c.depth == 0 {
		c.pkt.Src, c.pkt.Dst = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	}
	c.cut(CutIP, b, total)
	b = b[:min(total, len(b))]
	off := 40
	for range maxTags {
		size := 8
		switch next {
		case 0, 43, 60, 135: // hop-by-hop and destination options, routing, mobility
			if len(b) >= off+2 {
				size = 8 + 8*int(b[off+1])
			}
		case 51: // authentication
			if len(b) >= off+2 {
				size = 8 + 4*int(b[off+1])
			}
		case 44:
			if len(b) >= off+4 && be16(b[off+2:])&0xfff8 != 0 {
				c.fragment()
				return
			}
			c.first = c.first || len(b) >= off+4 && b[off+3]&1 != 0
		default:
			c.proto(next)
			d.transport(c, next, b[off:], total-off)
			return
		}
		if c.cut(CutL4, b, off+size) {
			return
		}
		next, off = b[off], off+size
	}
}

// header notes the first IP header.
func (c *walk) header(version, proto, tos, ttl uint8) {
	if c.depth == 0 {
		c.pkt = Packet{Version: version, Proto: proto, DSCP: tos >> 2, ECN: tos & 3, TTL: ttl}
	}
	c.hasIP = true
	c.dscp = tos >> 2
}

func (c *walk) proto(p uint8) {
	if c.depth == 0 {
		c.pkt.Proto = p
	}
}

func (c *walk) fragment() {
	if !c.quoted() {
		c.m.note(Fragment, 0, 0)
	}
}

// transport goes on behind an IP header. want is how many bytes there should be; b
// has fewer if the packet is cut.
func (d *Decoder) transport(c *walk, proto uint8, b []byte, want int) {
	switch proto {
	case protoUDP:
		d.udp(c, b, want)
	case protoTCP:
		d.tcp(c, b, want)
	case protoGRE:
		d.gre(c, b, want)
	case protoIPv4, protoIPv6:
		if c.deeper() {
			d.ip(c, b)
			c.depth--
		}
	}
}

// deeper goes into a tunnel; the caller comes out again.
func (c *walk) deeper() bool {
	if c.depth >= maxDepth {
		c.m.note(TooDeep, maxDepth, 0)
		return false
	}
	c.depth++
	return true
}

func (c *walk) ports(src, dst uint16) {
	c.dstPort = dst
	if c.depth == 0 {
		c.pkt.HasPorts, c.pkt.SrcPort, c.pkt.DstPort = true, src, dst
	}
}

func (d *Decoder) udp(c *walk, b []byte, want int) {
	if c.cut(CutL4, b, 8) {
		return
	}
	c.ports(be16(b), be16(b[2:]))
	length := int(be16(b[4:]))
	switch {
	case length == 0: // a GSO train, or a jumbogram
	case length < 8 || length > want:
		if !c.quoted() || length < 8 {
			c.m.note(BadL4Length, length, want)
		}
		if length > want && !c.hasIP {
			want = length
		}
	default:
		want, b = length, b[:min(length, len(b))]
	}
	d.behindUDP(c, b[8:], want-8)
}

func (d *Decoder) tcp(c *walk, b []byte, want int) {
	if c.cut(CutL4, b, 20) {
		return
	}
	c.ports(be16(b), be16(b[2:]))
	head := int(b[12]>>4) * 4
	if head < 20 {
		c.m.note(CutL4, head, 20)
		head = 20
	}
	d.behindTCP(c, b, want, head)
}
