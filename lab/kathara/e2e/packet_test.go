// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// packet is one IPv4 packet, from the first byte of its header.
type packet []byte

func (p packet) head() int       { return int(p[0]&15) * 4 }
func (p packet) tos() uint8      { return p[1] }
func (p packet) id() uint16      { return binary.BigEndian.Uint16(p[4:]) }
func (p packet) ttl() uint8      { return p[8] }
func (p packet) proto() int      { return int(p[9]) }
func (p packet) src() netip.Addr { return netip.AddrFrom4([4]byte(p[12:16])) }
func (p packet) dst() netip.Addr { return netip.AddrFrom4([4]byte(p[16:20])) }
func (p packet) body() []byte    { return p[p.head():] }
func (p packet) sport() int      { return int(binary.BigEndian.Uint16(p.body())) }
func (p packet) dport() int      { return int(binary.BigEndian.Uint16(p.body()[2:])) }
func (p packet) fragment() bool  { return binary.BigEndian.Uint16(p[6:])&0x3fff != 0 }

func (p packet) dontFragment() bool { return p[6]&0x40 != 0 }

// from and to are the ends of a UDP or TCP packet.
func (p packet) from() netip.AddrPort { return netip.AddrPortFrom(p.src(), uint16(p.sport())) }
func (p packet) to() netip.AddrPort   { return netip.AddrPortFrom(p.dst(), uint16(p.dport())) }

// parse cuts Ethernet padding off. ok is false for anything but a whole IPv4
// packet.
func parse(b []byte) (p packet, ok bool) {
	if len(b) < 20 || b[0]>>4 != 4 {
		return nil, false
	}
	total := int(binary.BigEndian.Uint16(b[2:]))
	if total < packet(b).head() || total > len(b) {
		return nil, false
	}
	return packet(b[:total]), true
}

// tcp is what a TCP header says that is needed here.
func (p packet) tcp() (payload int, syn bool) {
	b := p.body()
	return len(b) - int(b[12]>>4)*4, b[13]&2 != 0
}

// checkSums returns what is wrong with the packet's checksums, UDP's only if full.
func (p packet) checkSums(full bool) error {
	if sum(0, p[:p.head()]) != 0xffff {
		return fmt.Errorf("wrong IP checksum")
	}
	if !full || p.proto() != unix.IPPROTO_UDP || p.fragment() {
		return nil
	}
	body := p.body()
	pseudo := sum(0, p[12:20]) + uint32(p.proto()) + uint32(len(body))
	if binary.BigEndian.Uint16(body[6:]) != 0 && sum(pseudo, body) != 0xffff {
		return fmt.Errorf("wrong UDP checksum")
	}
	return nil
}

// sum is the ones' complement sum of RFC 1071, folded, from a start value.
func sum(start uint32, b []byte) uint32 {
	s := start
	for i := 0; i+1 < len(b); i += 2 {
		s += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		s += uint32(b[len(b)-1]) << 8
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return s
}

// Payloads begin with their number, the flow's and a mark. radar tells packets of
// one length and one flow apart by their first eight bytes, so these differ.
const (
	payloadMark = "rdr!"
	payloadFlow = 4
	payloadHead = payloadFlow + 1 + len(payloadMark)
)

// key names one packet of one flow, whatever NAT did to its header.
type key struct {
	flow uint8
	seq  uint32
}

// key returns false for packets that no flow of ours sent.
func (p packet) key() (key, bool) {
	if p.proto() != unix.IPPROTO_UDP || len(p.body()) < 8+payloadHead {
		return key{}, false
	}
	b := p.body()[8 : payloadHead+8]
	if string(b[payloadFlow+1:]) != payloadMark {
		return key{}, false
	}
	return key{b[payloadFlow], binary.BigEndian.Uint32(b)}, true
}
