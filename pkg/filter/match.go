// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/net/bpf"

	"github.com/vnetradar/radar/pkg/record"
)

// IP protocols of which records hold more than addresses.
const (
	protoICMP = 1
	protoTCP  = 6
	protoUDP  = 17
	protoSCTP = 132
)

func hasPorts(proto uint8) bool {
	return proto == protoTCP || proto == protoUDP || proto == protoSCTP
}

const (
	lenBytes = 4  // before the header: what "len" means
	ipBytes  = 20 // records hold no IP options
	l4Bytes  = 8  // of ICMP; ports take 4
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
		if h.change(&r.Hops[i]) && e.matches(&h) {
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
	bytes [lenBytes + ipBytes + l4Bytes]byte
	n     int // bytes that are known
}

// fill says whether the record's header is known.
func (h *header) fill(r *record.Record) bool {
	ip := h.bytes[lenBytes:]
	if r.Src == "" || !putAddr(ip[12:16], r.Src) || !putAddr(ip[16:20], r.Dst) {
		return false
	}
	proto, ok := protoNumbers[r.Proto]
	if !ok {
		return false
	}
	binary.BigEndian.PutUint32(h.bytes[:], uint32(r.Len))
	ip[0] = 4<<4 | ipBytes/4
	ip[1] = byte(r.DSCP<<2 | r.ECN)
	binary.BigEndian.PutUint16(ip[2:], uint16(min(r.Len, 0xffff)))
	binary.BigEndian.PutUint16(ip[4:], uint16(r.IPID))
	binary.BigEndian.PutUint16(ip[6:], fragment(r, proto))
	ip[8], ip[9] = byte(r.TTL), proto
	h.n = lenBytes + ipBytes + putL4(ip[ipBytes:], r, proto)
	return true
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

// putL4 writes what is known of the transport header, and returns its length.
func putL4(b []byte, r *record.Record, proto uint8) int {
	switch {
	case hasPorts(proto) && r.Sport != nil && r.Dport != nil:
		binary.BigEndian.PutUint16(b, uint16(*r.Sport))
		binary.BigEndian.PutUint16(b[2:], uint16(*r.Dport))
		return 4
	case proto == protoICMP && r.ICMPType != nil:
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

// change takes over what a hop changed, and says whether it did.
func (h *header) change(hop *record.Hop) bool {
	ip := h.bytes[lenBytes:]
	changed := hop.Src != "" && putAddr(ip[12:16], hop.Src)
	changed = hop.Dst != "" && putAddr(ip[16:20], hop.Dst) || changed
	if h.n < lenBytes+ipBytes+4 || !hasPorts(ip[9]) {
		return changed
	}
	if hop.Sport != nil {
		binary.BigEndian.PutUint16(ip[ipBytes:], uint16(*hop.Sport))
		changed = true
	}
	if hop.Dport != nil {
		binary.BigEndian.PutUint16(ip[ipBytes+2:], uint16(*hop.Dport))
		changed = true
	}
	return changed
}

func putAddr(b []byte, text string) bool {
	a, err := netip.ParseAddr(text)
	if err != nil || !a.Is4() {
		return false
	}
	v := a.As4()
	copy(b, v[:])
	return true
}
