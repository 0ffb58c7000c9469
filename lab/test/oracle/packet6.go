// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/gopacket/gopacket/layers"
)

// Lengths of IPv6 headers (RFC 8200, 3 and 4.5).
const (
	ip6HeaderLen      = 40
	fragmentHeaderLen = 8
)

func (p *Packet) isIPv6() bool { return p.Src.Is6() }

// decode6 is decode for IPv6. It skips extension headers, but reads a fragment's.
func decode6(ip []byte) (*Packet, error) {
	if len(ip) < ip6HeaderLen {
		return nil, fmt.Errorf("decode IPv6 header: only %d bytes", len(ip))
	}
	first := binary.BigEndian.Uint32(ip)
	size := ip6HeaderLen + int(binary.BigEndian.Uint16(ip[4:]))
	p := &Packet{
		Src: netip.AddrFrom16([16]byte(ip[8:])), Dst: netip.AddrFrom16([16]byte(ip[24:])),
		Sport: -1, Dport: -1, ICMPType: -1, ICMPID: -1, ICMPSeq: -1,
		Label: first & 0xfffff, TTL: ip[7], TOS: uint8(first >> 20), Len: size,
		ip: ip[:min(size, len(ip))], // without padding
	}
	next, err := p.skipExtensions()
	if err != nil {
		return nil, err
	}
	p.Proto = uint8(next)
	if p.Frag&maskOffset != 0 {
		return p, nil
	}
	return p, p.decodeL4(next, p.ip[p.hdrLen:])
}

// skipExtensions finds the end of the headers, and what follows them.
func (p *Packet) skipExtensions() (layers.IPProtocol, error) {
	next := layers.IPProtocol(p.ip[6])
	p.hdrLen = ip6HeaderLen
	for {
		size := 0
		if len(p.ip) >= p.hdrLen+fragmentHeaderLen {
			size = 8 + 8*int(p.ip[p.hdrLen+1])
		}
		switch next {
		case layers.IPProtocolIPv6HopByHop, layers.IPProtocolIPv6Routing, layers.IPProtocolIPv6Destination:
		case layers.IPProtocolIPv6Fragment:
			if size > 0 {
				size = fragmentHeaderLen
				field := binary.BigEndian.Uint16(p.ip[p.hdrLen+2:])
				p.Frag = field>>3 | field&1<<13
				p.ID = binary.BigEndian.Uint32(p.ip[p.hdrLen+4:])
			}
		default:
			return next, nil
		}
		if size == 0 || p.hdrLen+size > len(p.ip) {
			return 0, errors.New("decode IPv6 extension header: too short")
		}
		next = layers.IPProtocol(p.ip[p.hdrLen])
		p.hdrLen += size
		if p.Frag&maskOffset != 0 {
			return next, nil
		}
	}
}

func (p *Packet) decodeICMPv6(l4 []byte) error {
	if len(l4) < icmpHeaderLen {
		return fmt.Errorf("decode ICMPv6 header: only %d bytes", len(l4))
	}
	p.ICMPType = int(l4[0])
	if p.ICMPType == layers.ICMPv6TypeEchoRequest || p.ICMPType == layers.ICMPv6TypeEchoReply {
		p.ICMPID, p.ICMPSeq = int(binary.BigEndian.Uint16(l4[4:])), int(binary.BigEndian.Uint16(l4[6:]))
	}
	return nil
}

// discovery reports whether neighbours and routers on one link send such packets to
// each other (RFC 4861, 2710, 3810): radar does not measure them, so they are not
// compared.
func (p *Packet) discovery() bool {
	return p.isIPv6() && (p.ICMPType >= 130 && p.ICMPType <= 137 || p.ICMPType == 143)
}

// whole returns the first fragment's headers as they were before the datagram was cut.
func (p *Packet) whole() []byte {
	if !p.isIPv6() {
		return append([]byte(nil), p.ip[:p.hdrLen]...)
	}
	// The fragment header is the last one, in packets of these senders the only one.
	b := append([]byte(nil), p.ip[:p.hdrLen-fragmentHeaderLen]...)
	b[6] = p.Proto
	return b
}

// setLength writes how long the packet is into its header at b.
func (p *Packet) setLength(b []byte, size int) {
	if p.isIPv6() {
		binary.BigEndian.PutUint16(b[4:], uint16(size-ip6HeaderLen))
		return
	}
	binary.BigEndian.PutUint16(b[2:], uint16(size))
}
