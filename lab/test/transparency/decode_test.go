// SPDX-License-Identifier: Apache-2.0

package transparency

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// decoded is what the tests need to know of an IP packet. The outermost IP header
// counts; tokens are found at any depth.
type decoded struct {
	version  int
	l3, l4   int // offsets in the frame; l4 0: not known
	end      int // of the IP packet
	src, dst netip.Addr
	proto    uint8
	id       uint32
	df       bool
	fragment bool
	fragOff  int // bytes

	sport, dport       uint16 // TCP, UDP, SCTP
	icmpType, icmpCode uint8
	echoID, echoSeq    uint16
	token              uint32 // 0: none
}

// etherTypeOf returns the EtherType behind VLAN tags and where what it names begins.
func etherTypeOf(frame []byte) (uint16, int) {
	if len(frame) < 14 {
		return 0, len(frame)
	}
	at := 12
	kind := binary.BigEndian.Uint16(frame[at:])
	for kind == unix.ETH_P_8021Q || kind == unix.ETH_P_8021AD {
		if at += 4; at+2 > len(frame) {
			return 0, len(frame)
		}
		kind = binary.BigEndian.Uint16(frame[at:])
	}
	return kind, at + 2
}

// decode returns nil for what is no IP packet, or none that can be read.
func decode(frame []byte, l3 bool, _ uint16) *decoded {
	at := 0
	if !l3 {
		var kind uint16
		if kind, at = etherTypeOf(frame); kind != unix.ETH_P_IP && kind != unix.ETH_P_IPV6 {
			return nil
		}
	}
	if at >= len(frame) {
		return nil
	}
	d := &decoded{l3: at, token: tokenIn(frame[at:])}
	switch frame[at] >> 4 {
	case 4:
		if !d.ipv4(frame) {
			return nil
		}
	case 6:
		if !d.ipv6(frame) {
			return nil
		}
	default:
		return nil
	}
	d.transport(frame)
	return d
}

func (d *decoded) ipv4(frame []byte) bool {
	b := frame[d.l3:]
	if len(b) < 20 {
		return false
	}
	hdr, size := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if hdr < 20 || size < hdr || size > len(b) {
		return false
	}
	frag := binary.BigEndian.Uint16(b[6:])
	d.version, d.l4, d.end = 4, d.l3+hdr, d.l3+size
	d.src, d.dst = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
	d.proto, d.id, d.df = b[9], uint32(binary.BigEndian.Uint16(b[4:])), frag&0x4000 != 0
	d.fragOff, d.fragment = int(frag&0x1fff)*8, frag&0x3fff != 0
	return true
}

func (d *decoded) ipv6(frame []byte) bool {
	b := frame[d.l3:]
	if len(b) < 40 || 40+int(binary.BigEndian.Uint16(b[4:])) > len(b) {
		return false
	}
	d.version, d.end = 6, d.l3+40+int(binary.BigEndian.Uint16(b[4:]))
	d.src, d.dst = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	d.df = true
	next, at := b[6], 40
	for {
		if d.l3+at+8 > d.end {
			d.proto = next
			return true
		}
		switch next {
		case 0, 43, 60, 135: // hop by hop, routing, destination, mobility
			next, at = b[at], at+8+8*int(b[at+1])
		case 51: // authentication
			next, at = b[at], at+8+4*int(b[at+1])
		case 44:
			off := binary.BigEndian.Uint16(b[at+2:])
			d.fragment, d.fragOff, d.id = true, int(off&^7), binary.BigEndian.Uint32(b[at+4:])
			next, at = b[at], at+8
			if d.fragOff > 0 {
				d.proto, d.l4 = next, d.l3+at
				return true
			}
		default:
			d.proto, d.l4 = next, d.l3+at
			return true
		}
	}
}

func (d *decoded) transport(frame []byte) {
	if d.l4 == 0 || d.fragOff > 0 || d.l4+8 > d.end {
		return
	}
	b := frame[d.l4:d.end]
	switch d.proto {
	case unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP, unix.IPPROTO_UDPLITE:
		d.sport, d.dport = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		d.icmpType, d.icmpCode = b[0], b[1]
		if d.isEcho() {
			d.echoID, d.echoSeq = binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b[6:])
		}
	}
}

func (d *decoded) isICMP() bool {
	return d.proto == unix.IPPROTO_ICMP && d.version == 4 || d.proto == unix.IPPROTO_ICMPV6 && d.version == 6
}

func (d *decoded) isEcho() bool {
	if d.version == 6 {
		return d.isICMP() && (d.icmpType == 128 || d.icmpType == 129)
	}
	return d.isICMP() && (d.icmpType == 0 || d.icmpType == 8)
}

// isError reports whether it is an ICMP error, which quotes another packet.
func (d *decoded) isError() bool {
	if !d.isICMP() || d.fragOff > 0 {
		return false
	}
	if d.version == 6 {
		return d.icmpType < 128
	}
	switch d.icmpType {
	case 3, 4, 5, 11, 12:
		return true
	}
	return false
}

// tuple differs between flows, and records have it, too.
func (d *decoded) tuple() string {
	switch {
	case d.fragOff > 0:
		return fmt.Sprintf("%d %v > %v at %d", d.proto, d.src, d.dst, d.fragOff)
	case d.isEcho():
		return fmt.Sprintf("%d %v > %v type %d id %d seq %d", d.proto, d.src, d.dst, d.icmpType, d.echoID, d.echoSeq)
	case d.isICMP():
		return fmt.Sprintf("%d %v > %v type %d", d.proto, d.src, d.dst, d.icmpType)
	}
	return fmt.Sprintf("%d %v:%d > %v:%d", d.proto, d.src, d.sport, d.dst, d.dport)
}

// tokenMark begins a token; four bytes with its number follow.
var tokenMark = []byte{0xa7, 'r', 'd', 'T'}

// tokenAt is how far behind the L4 header the token lies.
func tokenAt(s *sighting) int {
	if s.l4 == 0 || s.l4 > len(s.frame) {
		return 0
	}
	return bytes.Index(s.frame[s.l4:], tokenMark)
}

// tokenIn finds the first token in b.
func tokenIn(b []byte) uint32 {
	if i := bytes.Index(b, tokenMark); i >= 0 && i+8 <= len(b) {
		return binary.BigEndian.Uint32(b[i+4:])
	}
	return 0
}
