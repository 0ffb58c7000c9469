// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/net/bpf"

	"github.com/vnetradar/radar/pkg/record"
)

func hasPorts(proto uint8) bool {
	return proto == record.ProtoTCP || proto == record.ProtoUDP || proto == record.ProtoSCTP
}

const (
	lenBytes = 4  // before the header: what "len" means
	ipBytes  = 20 // records hold no IP options
	ip6Bytes = 40
	l4Bytes  = 8 // of ICMP; ports take 4

	fragmentBytes = 8
)

// protoNumbers is the reverse of record.ProtoName.
var protoNumbers = func() map[string]uint8 {
	m := make(map[string]uint8, 256)
	for i := range 256 {
		m[record.ProtoName(uint8(i))] = uint8(i)
	}
	return m
}()

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

// MatchRecord says whether the packet matches, with the addresses and ports that it
// was sent with or with those of any hop that changed them. All else is as the source
// saw it. A record whose header is not known does not match. What the record lacks
// (the ICMP sequence number of an error) makes the packet end there: no match, as
// with a packet that was cut off.
//
// Of a train (segs > 1) the length is that of all segments together.
//
// CheckRecords says whether the expression can be asked at all.
func (e *Expr) MatchRecord(r *record.Record) bool {
	var h header
	if !h.fill(r) {
		return false
	}
	if e.matches(&h) {
		return true
	}
	for i := range r.Hops {
		hop := &r.Hops[i]
		if hop.Src == "" && hop.Dst == "" && hop.Sport == nil && hop.Dport == nil {
			continue
		}
		there := h
		there.changeBefore(r, i)
		if there.change(hop) && e.matches(&there) {
			return true
		}
	}
	return false
}

func (e *Expr) matches(h *header) bool {
	n, err := e.vm.Run(h.bytes[:h.n])
	return err == nil && n != 0
}

// header is a packet as a record tells it: lenBytes, IP header, first bytes of what
// follows it.
type header struct {
	bytes [lenBytes + ip6Bytes + fragmentBytes + l4Bytes]byte
	n     int // bytes that are known
	addrs int // where the addresses begin
	ports int // where the ports are, 0: nowhere
	v6    bool
}

// fill says whether the record's header is known.
func (h *header) fill(r *record.Record) bool {
	proto, ok := protoNumbers[r.Proto]
	if r.Src == "" || !ok {
		return false
	}
	h.v6 = r.IPVersion == 6
	binary.BigEndian.PutUint32(h.bytes[:], uint32(r.Len))
	end := 0
	if h.v6 {
		h.addrs = lenBytes + 8
		end = lenBytes + putIP6(h.bytes[lenBytes:], r, proto)
	} else {
		h.addrs = lenBytes + 12
		putIP(h.bytes[lenBytes:], r, proto)
		end = lenBytes + ipBytes
	}
	h.n = end + putL4(h.bytes[end:], r, proto, h.v6)
	if hasPorts(proto) && h.n > end {
		h.ports = end
	}
	return h.putAddr(0, r.Src) && h.putAddr(1, r.Dst)
}

// putIP writes an IPv4 header, except the addresses.
func putIP(ip []byte, r *record.Record, proto uint8) {
	ip[0] = version4 | ipBytes/4
	ip[1] = byte(r.DSCP<<2 | r.ECN)
	binary.BigEndian.PutUint16(ip[2:], uint16(min(r.Len, 0xffff)))
	binary.BigEndian.PutUint16(ip[4:], uint16(r.IPID))
	binary.BigEndian.PutUint16(ip[6:], fragment(r, proto))
	ip[8], ip[9] = byte(r.TTL), proto
}

// fragment returns the field of flags and offset.
func fragment(r *record.Record, proto uint8) uint16 {
	switch {
	case r.FragOff != nil && *r.FragOff == 0:
		return 0x2000 // a first fragment has more behind it
	case r.FragOff != nil:
		return uint16(*r.FragOff / 8)
	case hasPorts(proto) && r.Sport == nil:
		return 1 // a flow of later fragments, see OnlyFlow
	}
	return 0
}

// putIP6 writes an IPv6 header, except the addresses, and a fragment's header; it
// returns how long they are. Other extension headers are not known.
func putIP6(ip []byte, r *record.Record, proto uint8) int {
	first := uint32(6)<<28 | uint32(r.DSCP<<2|r.ECN)<<20
	if r.FlowLabel != nil {
		first |= uint32(*r.FlowLabel)
	}
	binary.BigEndian.PutUint32(ip, first)
	binary.BigEndian.PutUint16(ip[4:], uint16(min(max(r.Len-ip6Bytes, 0), 0xffff)))
	ip[6], ip[7] = proto, byte(r.TTL)
	part := fragment(r, proto)
	if part == 0 && r.FragID == nil {
		return ip6Bytes
	}
	ip[6], ip[ip6Bytes] = record.ProtoFragment, proto
	// The offset stands three bits further left, the flag at the end.
	binary.BigEndian.PutUint16(ip[ip6Bytes+2:], part<<3|part>>13)
	if r.FragID != nil {
		binary.BigEndian.PutUint32(ip[ip6Bytes+4:], uint32(*r.FragID))
	}
	return ip6Bytes + fragmentBytes
}

// putL4 writes what is known of the transport header, and returns its length.
func putL4(b []byte, r *record.Record, proto uint8, v6 bool) int {
	switch {
	case hasPorts(proto) && r.Sport != nil && r.Dport != nil:
		binary.BigEndian.PutUint16(b, uint16(*r.Sport))
		binary.BigEndian.PutUint16(b[2:], uint16(*r.Dport))
		return 4
	case r.ICMPType != nil && (v6 && proto == record.ProtoICMPv6 || !v6 && proto == record.ProtoICMP):
		b[0] = byte(*r.ICMPType)
		if r.ICMPID == nil || r.ICMPSeq == nil {
			return 1
		}
		binary.BigEndian.PutUint16(b[4:], uint16(*r.ICMPID))
		binary.BigEndian.PutUint16(b[6:], uint16(*r.ICMPSeq))
		return 8
	}
	return 0
}

// changeBefore takes over what was changed on the way to hop i: other copies went other
// ways.
func (h *header) changeBefore(r *record.Record, i int) {
	if prev := r.PrevOf(i); prev >= 0 {
		h.changeBefore(r, prev)
		h.change(&r.Hops[prev])
	}
}

// change takes over what a hop changed, and says whether it did.
func (h *header) change(hop *record.Hop) bool {
	changed := hop.Src != "" && h.putAddr(0, hop.Src)
	changed = hop.Dst != "" && h.putAddr(1, hop.Dst) || changed
	if h.ports == 0 {
		return changed
	}
	if hop.Sport != nil {
		binary.BigEndian.PutUint16(h.bytes[h.ports:], uint16(*hop.Sport))
		changed = true
	}
	if hop.Dport != nil {
		binary.BigEndian.PutUint16(h.bytes[h.ports+2:], uint16(*hop.Dport))
		changed = true
	}
	return changed
}

// putAddr writes the source address (0) or the destination (1).
func (h *header) putAddr(which int, text string) bool {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Is4() == h.v6 {
		return false
	}
	size := a.BitLen() / 8
	v := a.As16() // an IPv4 address stands at the end
	copy(h.bytes[h.addrs+which*size:], v[len(v)-size:])
	return true
}
