// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"encoding/binary"

	"golang.org/x/net/bpf"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

func hasPorts(proto uint8) bool {
	return proto == record.ProtoTCP || proto == record.ProtoUDP || proto == record.ProtoSCTP
}

const (
	lenBytes = 4  // before the header: what "len" means
	ipBytes  = 20 // records hold no IP options
	ip6Bytes = 40

	// Sizes of what follows: ports; a TCP header to the window, whose length is not known; ICMP.
	portBytes     = 4
	tcpBytes      = 16
	tcpOffsetByte = 12
	icmpBytes     = 8

	fragmentBytes = 8
)

// overRecords rewrites a program to run over a header: the length stands in front.
func overRecords(insns []bpf.Instruction) []bpf.Instruction {
	out := make([]bpf.Instruction, len(insns))
	for i, insn := range insns {
		switch in := insn.(type) {
		case bpf.LoadExtension: // decode has let through only the length
			insn = bpf.LoadAbsolute{Off: 0, Size: lenBytes}
		case bpf.LoadAbsolute:
			in.Off += lenBytes
			insn = in
		case bpf.LoadIndirect:
			in.Off += lenBytes
			insn = in
		case bpf.LoadMemShift:
			in.Off += lenBytes
			insn = in
		case bpf.NegateA: // the machine lacks it
			insn = bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: ^uint32(0)}
		}
		out[i] = insn
	}
	return out
}

// Match reports whether the packet matches, with the addresses and ports that it
// was sent with or with those of any hop that changed them. All else is as the source
// saw it. A packet whose header is not known does not match. What is not known of it
// (the ICMP sequence number of an error) makes the packet end there: no match, as
// with a packet that was cut off.
//
// The length of a train (Segs > 1) is that of all segments together.
//
// CheckRecords reports whether the expression can be asked at all.
func (e *Expr) Match(p *packet.Packet) bool {
	var h header
	if !h.fill(p) {
		return false
	}
	if e.matches(&h) {
		return true
	}
	for i := range p.Hops {
		hop := &p.Hops[i]
		if !hop.Changed {
			continue
		}
		h.put(&hop.Tuple)
		if e.matches(&h) {
			return true
		}
	}
	return false
}

func (e *Expr) matches(h *header) bool {
	n, err := e.vm.Run(h.bytes[:h.n])
	return err == nil && n != 0
}

// header is a packet as far as it is known: lenBytes, IP header, first bytes of what
// follows it.
type header struct {
	bytes [lenBytes + ip6Bytes + fragmentBytes + tcpBytes]byte
	n     int // bytes that are known
	addrs int // where the addresses begin
	ports int // where the ports are, 0: nowhere
	v6    bool
}

// fill writes the packet's header, and reports whether it is known.
func (h *header) fill(p *packet.Packet) bool {
	if !p.HasTuple {
		return false
	}
	h.v6 = p.IPv6
	binary.BigEndian.PutUint32(h.bytes[:], p.Len)
	end := 0
	if h.v6 {
		h.addrs = lenBytes + 8
		end = lenBytes + putIP6(h.bytes[lenBytes:], p)
	} else {
		h.addrs = lenBytes + 12
		putIP(h.bytes[lenBytes:], p)
		end = lenBytes + ipBytes
	}
	h.n = end + putL4(h.bytes[end:], p)
	if p.HasPorts() {
		h.ports = end
	}
	h.put(&p.Tuple)
	return true
}

// put writes addresses, and ports if there are some.
func (h *header) put(t *packet.Tuple) {
	size := 4
	if h.v6 {
		size = len(t.Src)
	}
	// An IPv4 address stands at the end.
	copy(h.bytes[h.addrs:], t.Src[len(t.Src)-size:])
	copy(h.bytes[h.addrs+size:], t.Dst[len(t.Dst)-size:])
	if h.ports > 0 {
		binary.BigEndian.PutUint16(h.bytes[h.ports:], t.SrcPort)
		binary.BigEndian.PutUint16(h.bytes[h.ports+2:], t.DstPort)
	}
}

// putIP writes an IPv4 header, except the addresses.
func putIP(ip []byte, p *packet.Packet) {
	ip[0] = version4 | ipBytes/4
	ip[1] = p.TOS
	binary.BigEndian.PutUint16(ip[2:], uint16(min(p.Len, 0xffff)))
	binary.BigEndian.PutUint16(ip[4:], p.ID)
	binary.BigEndian.PutUint16(ip[6:], fragment(p))
	ip[8], ip[9] = p.TTL, p.Proto
}

// fragment returns the field of flags and offset, as IPv4 has it.
func fragment(p *packet.Packet) uint16 {
	offset, is := p.Offset()
	switch {
	case is && offset == 0:
		return moreFragments // a first fragment has more behind it
	case is:
		return uint16(offset / 8)
	case hasPorts(p.Proto) && !p.HasPorts():
		return 1 // a flow of later fragments, see OnlyFlow
	}
	return 0
}

// putIP6 writes an IPv6 header, except the addresses, and a fragment's header; it
// returns how long they are. Other extension headers are not known.
func putIP6(ip []byte, p *packet.Packet) int {
	binary.BigEndian.PutUint32(ip, uint32(6)<<28|uint32(p.TOS)<<20|p.Label)
	binary.BigEndian.PutUint16(ip[4:], uint16(min(max(p.Len, ip6Bytes)-ip6Bytes, 0xffff)))
	ip[6], ip[7] = p.Proto, p.TTL
	part := fragment(p)
	if part == 0 && p.FragID == 0 {
		return ip6Bytes
	}
	ip[6], ip[ip6Bytes] = record.ProtoFragment, p.Proto
	// The offset stands three bits further left, the flag at the end.
	binary.BigEndian.PutUint16(ip[ip6Bytes+2:], part<<3|part>>13)
	binary.BigEndian.PutUint32(ip[ip6Bytes+4:], p.FragID)
	return ip6Bytes + fragmentBytes
}

// putL4 makes room for ports, or writes what is known of a TCP or ICMP header, and returns its length.
func putL4(b []byte, p *packet.Packet) int {
	switch {
	case p.HasTCP:
		binary.BigEndian.PutUint32(b[portBytes:], p.TCP.Seq)
		binary.BigEndian.PutUint32(b[8:], p.TCP.Ack)
		binary.BigEndian.PutUint16(b[tcpOffsetByte:], p.TCP.Flags&0xff)
		binary.BigEndian.PutUint16(b[14:], p.TCP.Window)
		return tcpBytes
	case p.HasPorts():
		return portBytes
	case p.IsICMP():
		b[0] = p.ICMP[0]
		if !p.IsEcho() {
			return 1
		}
		binary.BigEndian.PutUint16(b[4:], p.SrcPort)
		binary.BigEndian.PutUint16(b[6:], p.DstPort)
		return icmpBytes
	}
	return 0
}
