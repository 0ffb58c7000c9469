// SPDX-License-Identifier: Apache-2.0

package pcapng

import (
	"encoding/binary"
	"net/netip"

	"github.com/vnetradar/radar/pkg/record"
)

const (
	ipv4Header   = 20
	ipv6Header   = 40
	fragHeader   = 8 // of IPv6
	tcpHeader    = 20
	mostTCP      = 60
	udpHeader    = 8
	mostLen      = 0xffff // of the length fields of IP and UDP
	checksumIP   = 10     // where checksums are
	checksumTCP  = 16
	checksumUDP  = 6
	checksumICMP = 2
)

var be = binary.BigEndian

// header is the header of a packet at one port.
type header struct {
	src, dst       netip.Addr
	sport, dport   int // -1: not known
	ttl, dscp, ecn int
}

// headerAsSent is the header as the source saw it; ok is false if that is not known.
func headerAsSent(r *record.Record) (h header, ok bool) {
	var errSrc, errDst error
	h = header{sport: known(r.Sport, -1), dport: known(r.Dport, -1), ttl: r.TTL, dscp: r.DSCP, ecn: r.ECN}
	h.src, errSrc = netip.ParseAddr(r.Src)
	h.dst, errDst = netip.ParseAddr(r.Dst)
	return h, errSrc == nil && errDst == nil && h.src.Is4() == (r.IPVersion == 4) && h.dst.Is4() == h.src.Is4()
}

func known(n *int, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return *n
}

// sizes are how long the headers of each segment are, and the whole packet: a train is one, with
// one header.
type sizes struct {
	ip, transport int // transport 0: none, or not known
	packet        int
}

// sizesOf takes IP headers for headers without options and extension headers, which no record tells. Where TCP's header
// would then have a size that it cannot have, that is not known.
func sizesOf(r *record.Record, proto uint8) (s sizes) {
	s.ip = ipv4Header
	if r.IPVersion == 6 {
		s.ip = ipv6Header
		if r.FragID != nil {
			s.ip += fragHeader
		}
	}
	segs, head := max(r.Segs, 1), s.ip // head is of each segment
	switch {
	case known(r.FragOff, 0) > 0: // what is behind IP is of the first one
	case proto == record.ProtoUDP:
		s.transport = udpHeader
		head += udpHeader
	case proto == record.ProtoTCP:
		if head += tcpHeader; r.TCPPayload == nil {
			break
		}
		all := r.Len - *r.TCPPayload
		head = max(head, all/segs)
		if size := head - s.ip; head*segs == all && size <= mostTCP && size%4 == 0 {
			s.transport = size
		}
	}
	s.packet = max(r.Len-(segs-1)*head, s.ip)
	return s
}

// appendHeaders appends the packet up to where its headers are known, and says how long the packet
// is. Checksums of transport headers are right where all that they are of is there, else 0.
func appendHeaders(b []byte, r *record.Record, h *header) (data []byte, length int) {
	proto, _ := record.ParseProto(r.Proto)
	s := sizesOf(r, proto)
	start := len(b)
	if h.src.Is4() {
		b = appendIPv4(b, r, h, proto, s.packet)
	} else {
		b = appendIPv6(b, r, h, proto, s.packet)
	}
	behind := len(b)
	if known(r.FragOff, 0) > 0 {
		return b, s.packet
	}
	b, sum := appendTransport(b, r, h, proto, &s)
	if len(b)-start > s.packet { // too short for its header: somebody has forged it
		b, sum = b[:start+s.packet], 0
	}
	switch {
	case sum == 0:
	case len(b)-start == s.packet && r.FragOff == nil:
		value := ^sumOf(b[behind:], h.pseudo(proto, len(b)-behind))
		if value == 0 && proto == record.ProtoUDP {
			value = 0xffff // 0: none
		}
		be.PutUint16(b[behind+sum:], value)
	case proto == record.ProtoUDP && h.src.Is6():
		b = b[:behind+sum] // 0 is no checksum there (RFC 8200, 8.1)
	}
	return b, s.packet
}

// appendIPv4 appends a header of RFC 791.
func appendIPv4(b []byte, r *record.Record, h *header, proto byte, length int) []byte {
	start := len(b)
	b = append(b, 0x45, byte(h.dscp<<2|h.ecn&3))
	if length > mostLen {
		length = 0 // as in the kernel's BIG TCP
	}
	b = be.AppendUint16(b, uint16(length))
	b = be.AppendUint16(b, uint16(r.IPID))
	b = be.AppendUint16(b, uint16(known(r.IPFlags, 0))<<13|uint16(known(r.FragOff, 0)/8))
	b = append(b, byte(h.ttl), proto, 0, 0)
	b = append(append(b, h.src.AsSlice()...), h.dst.AsSlice()...)
	be.PutUint16(b[start+checksumIP:], ^sumOf(b[start:], 0))
	return b
}

// appendIPv6 appends a header of RFC 8200, with the fragment header if the packet had one.
func appendIPv6(b []byte, r *record.Record, h *header, proto byte, length int) []byte {
	next := proto
	if r.FragID != nil {
		next = record.ProtoFragment
	}
	if length -= ipv6Header; length > mostLen {
		length = 0
	}
	b = be.AppendUint32(b, 6<<28|uint32(h.dscp<<2|h.ecn&3)<<20|uint32(known(r.FlowLabel, 0))&0xfffff)
	b = be.AppendUint16(b, uint16(length))
	b = append(b, next, byte(h.ttl))
	b = append(append(b, h.src.AsSlice()...), h.dst.AsSlice()...)
	if r.FragID == nil {
		return b
	}
	b = append(b, proto, 0)
	b = be.AppendUint16(b, uint16(known(r.FragOff, 0))&^7|uint16(known(r.IPFlags, 0)&1))
	return be.AppendUint32(b, uint32(*r.FragID))
}

// appendTransport appends what is known of the transport header, and says where its checksum is: 0,
// if it has none, or not all of it is known.
func appendTransport(b []byte, r *record.Record, h *header, proto byte, s *sizes) (data []byte, sum int) {
	switch proto {
	case record.ProtoUDP, record.ProtoTCP, record.ProtoSCTP:
		if h.sport < 0 || h.dport < 0 {
			return b, 0
		}
		b = be.AppendUint16(be.AppendUint16(b, uint16(h.sport)), uint16(h.dport))
	}
	switch {
	case proto == record.ProtoUDP && r.FragOff != nil: // its length is that of all fragments, of which one is known
	case proto == record.ProtoUDP:
		length := s.packet - s.ip
		if length > mostLen {
			length = 0
		}
		return append(be.AppendUint16(b, uint16(length)), 0, 0), checksumUDP
	case proto == record.ProtoTCP && r.TCPSeq != nil:
		return appendTCP(b, r, s.transport)
	case r.ICMPType != nil && r.ICMPCode == nil && r.ICMPID == nil:
		return append(b, byte(*r.ICMPType)), 0 // another code would be another error
	case r.ICMPType != nil:
		b = append(b, byte(*r.ICMPType), byte(known(r.ICMPCode, 0)), 0, 0)
		if r.ICMPID == nil || r.ICMPSeq == nil {
			return append(b, 0, 0, 0, 0), 0 // Wireshark shows no type without them
		}
		return be.AppendUint16(be.AppendUint16(b, uint16(*r.ICMPID)), uint16(*r.ICMPSeq)), checksumICMP
	}
	return b, 0
}

// appendTCP appends a header of RFC 9293 behind its ports. Options are not known: zeros, which end
// their list, stand for them, since Wireshark follows no connection whose headers are cut. Where the size of the header
// is not known (0), it ends before the field that has it.
func appendTCP(b []byte, r *record.Record, size int) (data []byte, sum int) {
	flags := known(r.TCPFlags, 0)
	b = be.AppendUint32(b, uint32(*r.TCPSeq))
	b = be.AppendUint32(b, uint32(known(r.TCPAck, 0)))
	if size == 0 {
		return b, 0
	}
	b = append(b, byte(size/4<<4|flags>>8&1), byte(flags))
	b = be.AppendUint16(b, uint16(known(r.TCPWindow, 0)))
	b = append(b, 0, 0, 0, 0)
	if size == tcpHeader {
		return b, checksumTCP
	}
	return append(b, make([]byte, size-tcpHeader)...), 0
}

// pseudo is the sum of what a checksum counts of IP's header.
func (h *header) pseudo(proto byte, length int) uint32 {
	if proto == record.ProtoICMP {
		return 0
	}
	b := append(h.src.AsSlice(), h.dst.AsSlice()...)
	return uint32(proto) + uint32(length) + uint32(sumOf(b, 0))
}

// sumOf is the sum of RFC 1071, of an even number of bytes.
func sumOf(b []byte, sum uint32) uint16 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(be.Uint16(b))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
