// SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/binary"
	"strconv"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/record"
)

const (
	ipv4Header    = 20
	ipv6Header    = 40
	udpHeader     = 8
	tcpHeader     = 20
	mostTCPHeader = 60

	mostLen = 0xffff // of IP's and UDP's length fields
)

// Mark is by what a collector is to know INT in a quoted packet: one method for all (INT 2.1,
// "INT over TCP/UDP").
type Mark struct {
	// Port is a UDP destination port: that of UDP packets is changed (NPT 1), before others a
	// UDP header is put (NPT 2). INT 1.0 has no such method.
	Port uint16
	// DSCP is the value, if Port is 0: TCP and UDP keep their ports (NPT 0), no other protocol
	// can carry INT.
	DSCP uint8
}

// carrier is where INT lies in a quoted packet.
type carrier uint8

const (
	noCarrier   carrier = iota // the packet cannot carry it
	behindPort                 // behind UDP, whose port says so
	insertedUDP                // behind a UDP header that was put before the packet's own
	behindDSCP                 // behind TCP or UDP; the DSCP says so
)

// carrier says how a packet carries INT. Fragments cannot: what INT stands behind is in the
// first one only, and what it changes, in all.
func (e *Encoder) carrier(r *record.Record, v *view) carrier {
	header := ipv6Header
	if v.src.Is4() {
		header = ipv4Header
	}
	// Too short for their header are packets that somebody has forged.
	isUDP := v.proto == record.ProtoUDP && v.ports && r.Len >= header+udpHeader
	isTCP := v.proto == record.ProtoTCP && v.ports && r.TCPSeq != nil && r.Len >= header+tcpHeader
	switch {
	case r.FragOff != nil || r.FragID != nil || r.Len < header:
		return noCarrier
	case e.Mark.Port != 0 && isUDP:
		return behindPort
	case e.Mark.Port != 0:
		return insertedUDP
	case isTCP, isUDP && !isTunnelPort(v.dport):
		return behindDSCP
	}
	return noCarrier
}

// isTunnelPort: what is behind such a UDP header is another packet's (VXLAN, VXLAN-GPE, Geneve).
func isTunnelPort(port uint16) bool { return port == 4789 || port == 4790 || port == 6081 }

// shim is the shim of INT in a packet.
func (c carrier) shim(v *view, layout intwire.Format) intwire.Shim {
	s := intwire.Shim{Form: intwire.Shim20, Type: intwire.TypeMD}
	switch {
	case layout == intwire.INT10:
		s.Form, s.OrigDSCP = intwire.ShimOld, uint8(v.dscp)
	case c == behindDSCP:
		s.OrigDSCP = uint8(v.dscp)
	case c == behindPort:
		s.NPT, s.OrigDstPort = 1, v.dport
	case c == insertedUDP:
		s.NPT, s.IPProto = 2, v.proto
	}
	return s
}

// appendQuote appends the packet that r is about as v saw it, from its IP header on, as far as
// r knows it: the transport header without what radar does not record. If c is not noCarrier,
// in is there (shim, header, stack), and lengths count it. The checksum of IPv4 is right (RFC
// 791); those of TCP and ICMP are 0, as is UDP's (RFC 768: none): the payload is not known. The
// length of a train is that of all its segments, at most 65535.
func (e *Encoder) appendQuote(b []byte, r *record.Record, v *view, c carrier, in []byte) []byte {
	start, proto, length := len(b), v.proto, r.Len+len(in)
	if c == insertedUDP {
		proto, length = record.ProtoUDP, length+udpHeader
	}
	dscp := v.dscp
	if c == behindDSCP {
		dscp = int(e.Mark.DSCP)
	}
	tos := byte(dscp<<2 | v.ecn&3)
	if v.src.Is4() {
		b = appendIPv4(b, r, v, proto, tos, length)
	} else {
		b = appendIPv6(b, r, v, proto, tos, length)
	}
	length -= len(b) - start // what is behind IP
	switch c {
	case behindPort:
		return append(appendUDP(b, v.sport, e.Mark.Port, length), in...)
	case insertedUDP:
		b = append(appendUDP(b, v.flowPort(), e.Mark.Port, length), in...)
		length -= udpHeader
	case behindDSCP:
		if v.proto == record.ProtoUDP {
			return append(appendUDP(b, v.sport, v.dport, length), in...)
		}
		return append(appendTCP(b, r, v, r.Len-(length-len(in))), in...)
	}
	return appendTransport(b, r, v, length-len(in))
}

// appendTCP appends a header of RFC 9293 without checksum and urgent pointer. before is how many bytes the packet
// has before it. Options are not recorded: NOPs stand for them, so that the payload has its length.
func appendTCP(b []byte, r *record.Record, v *view, before int) []byte {
	be := binary.BigEndian
	size := tcpHeader
	if segs := max(r.Segs, 1); r.TCPPayload != nil {
		size = min(max((r.Len-*r.TCPPayload)/segs-before, tcpHeader), mostTCPHeader) &^ 3
	}
	b = be.AppendUint16(be.AppendUint16(b, v.sport), v.dport)
	b = be.AppendUint32(b, uint32(known(r.TCPSeq, 0)))
	b = be.AppendUint32(b, uint32(known(r.TCPAck, 0)))
	b = be.AppendUint16(b, uint16(size/4<<12|known(r.TCPFlags, 0)&0x1ff))
	b = be.AppendUint16(b, uint16(known(r.TCPWindow, 0)))
	b = append(b, 0, 0, 0, 0)
	for range size - tcpHeader {
		b = append(b, 1) // NOP
	}
	return b
}

// appendIPv4 appends a header of RFC 791 without options.
func appendIPv4(b []byte, r *record.Record, v *view, proto, tos byte, length int) []byte {
	start := len(b)
	b = append(b, 0x45, tos)
	b = binary.BigEndian.AppendUint16(b, uint16(min(length, mostLen)))
	b = binary.BigEndian.AppendUint16(b, uint16(r.IPID))
	fragment := uint16(known(r.IPFlags, 0))<<13 | uint16(known(r.FragOff, 0)/8)
	b = binary.BigEndian.AppendUint16(b, fragment)
	b = append(b, byte(v.ttl), proto, 0, 0)
	b = append(append(b, v.src.AsSlice()...), v.dst.AsSlice()...)
	binary.BigEndian.PutUint16(b[start+10:], ^intwire.Sum(b[start:], 0))
	return b
}

// appendIPv6 appends a header of RFC 8200, with the fragment header if the packet had one.
func appendIPv6(b []byte, r *record.Record, v *view, proto, class byte, length int) []byte {
	next := proto
	if r.FragID != nil {
		next = record.ProtoFragment
	}
	b = binary.BigEndian.AppendUint32(b, 6<<28|uint32(class)<<20|uint32(known(r.FlowLabel, 0))&0xfffff)
	b = binary.BigEndian.AppendUint16(b, uint16(min(max(length-ipv6Header, 0), mostLen)))
	b = append(b, next, byte(v.ttl))
	b = append(append(b, v.src.AsSlice()...), v.dst.AsSlice()...)
	if r.FragID == nil {
		return b
	}
	b = append(b, proto, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(known(r.FragOff, 0))&^7|uint16(known(r.IPFlags, 0)&1))
	return binary.BigEndian.AppendUint32(b, uint32(*r.FragID))
}

// appendUDP appends a header of RFC 768 without a checksum; length is that of header and
// payload.
func appendUDP(b []byte, sport, dport uint16, length int) []byte {
	b = binary.BigEndian.AppendUint16(b, sport)
	b = binary.BigEndian.AppendUint16(b, dport)
	b = binary.BigEndian.AppendUint16(b, uint16(min(max(length, udpHeader), mostLen)))
	return append(b, 0, 0)
}

// appendTransport appends the beginning of the transport header that r knows. length is that of
// all behind IP.
func appendTransport(b []byte, r *record.Record, v *view, length int) []byte {
	switch v.proto {
	case record.ProtoUDP:
		if v.ports {
			return appendUDP(b, v.sport, v.dport, length)
		}
	case record.ProtoTCP, record.ProtoSCTP:
		if v.ports && v.proto == record.ProtoTCP && r.TCPSeq != nil {
			return appendTCP(b, r, v, r.Len-length)
		}
		if v.ports {
			b = binary.BigEndian.AppendUint16(b, v.sport)
			return binary.BigEndian.AppendUint16(b, v.dport)
		}
	case record.ProtoICMP, record.ProtoICMPv6:
		if r.ICMPType == nil {
			return b
		}
		b = append(b, byte(*r.ICMPType))
		if r.ICMPID != nil && r.ICMPSeq != nil { // an echo: its code is 0 (RFC 792, 4443)
			b = append(b, 0, 0, 0)
			b = binary.BigEndian.AppendUint16(b, uint16(*r.ICMPID))
			return binary.BigEndian.AppendUint16(b, uint16(*r.ICMPSeq))
		}
	}
	return b
}

// flowPort is the source port of an inserted UDP header: a hash of the flow (INT 2.1, "INT over
// TCP/UDP"), among dynamic ports (RFC 6335).
func (v *view) flowPort() uint16 {
	flow := v.src.String() + " " + v.dst.String() + " " + strconv.Itoa(int(v.proto)) + " " + strconv.Itoa(int(v.sport)) + " " + strconv.Itoa(int(v.dport))
	return 49152 + uint16(fnv(flow)%16384)
}
