// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"encoding/binary"
	"math/bits"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/packet"
)

// Quoted is an IPv4 packet as it was on a link inside the domain: something there has copied
// its header, with radar's number in it, into a report.
type Quoted struct {
	Index        uint64 // of the slot, from its number
	packet.Tuple        // as it was there; of an ICMP echo as in packet.Packet
	Proto        uint8
	Len          int    // IP bytes, as its header says
	L4           []byte // the bytes behind the IP header that were copied
	At           uint64 // when the report came, CLOCK_MONOTONIC
}

// Mismatch is why a quoted packet is not the one in the slot of its number.
type Mismatch uint8

// The mismatches. Stale: the slot has a later packet, or one that had expired when the report came.
// Foreign: the packet has another flow, length or content. Unproven: too little of the packet was
// copied to compare its content.
const (
	Matches Mismatch = iota
	Stale
	Foreign
	Unproven
)

// reportDelay, ns: a report may come so much later than the packet's timeout.
const reportDelay = uint64(1e9)

// FindQuoted returns the position of a packet that was quoted. A number proves nothing: the slot's
// packet must have been in flight then, with these addresses and ports at some node, this length
// and this content. now is CLOCK_MONOTONIC, ns.
func FindQuoted(src Source, dec *Decoder, q *Quoted, now uint64) (pos uint64, why Mismatch) {
	var s slot
	ring := src.Ring()
	if q.Index >= ring.slots {
		return 0, Foreign
	}
	pos = ring.latest(q.Index)
	if _, _, ok := ring.read(pos, &s); !ok {
		var head slot
		at := ring.headOf(pos)
		if _, _, ok := ring.read(at, &head); !ok || !head.member(pos-at, &s) {
			return 0, Stale // not used yet, or just being written for another one
		}
	}
	f := s.fields()
	if f.T0Ns > q.At || q.At-f.T0Ns > dec.timeoutNs+reportDelay {
		return 0, Stale
	}
	whole := f.Seg == 0 && f.Segs > 1 && q.Len == int(f.TrainLen)
	if f.State&stIPv6 != 0 || f.Proto != q.Proto || int(f.Len) != q.Len && !whole {
		return 0, Foreign
	}
	tag, tag2, ok := q.tags(int(f.Len))
	switch {
	case !ok:
		return 0, Unproven
	case tag != f.Tag || tag2 != f.Tag2:
		return 0, Foreign
	}
	p, _, err := findAt(src, dec, pos, now)
	switch {
	case err != nil || p.Pos != pos && !whole && p.Pos != pos-uint64(f.Seg):
		return 0, Stale // overwritten meanwhile
	case !hadTuple(p, &q.Tuple):
		return 0, Foreign
	}
	return pos, Matches
}

// hadTuple reports whether the packet had these addresses and ports somewhere.
func hadTuple(p *packet.Packet, t *packet.Tuple) bool {
	if !p.HasTuple {
		return false
	}
	same := func(of packet.Tuple) bool {
		return of.Src == t.Src && of.Dst == t.Dst && (!p.HasPorts() && !p.IsEcho() || of.SrcPort == t.SrcPort && of.DstPort == t.DstPort)
	}
	if same(p.Tuple) {
		return true
	}
	for i := range p.Hops {
		if h := &p.Hops[i]; h.Changed && same(h.Tuple) {
			return true
		}
	}
	return false
}

// How many bytes behind the IP header the programs look at (bpf/backpack/identity.h).
const (
	tagBytes   = 8
	tcpBytes   = 20
	tcpStamps  = 32 // a header with time stamps
	tcpStamped = 28 // to the end of the first time stamp
)

// ICMP types (RFC 792).
const (
	icmpEchoReply = 0
	icmpEcho      = 8
)

// tags is the content tag of the packet, which has length IP bytes. It is that of make_tag() in
// bpf/backpack/identity.h: words as a little-endian CPU loads them. ok is false if too little of
// the packet was copied.
func (q *Quoted) tags(length int) (tag, tag2 uint32, ok bool) {
	// IPv4 options are not subtracted: the programs see no more of a packet than the quote has.
	have := length - 20
	word := func(at int) uint32 {
		if at+4 > len(q.L4) {
			ok = false
			return 0
		}
		return binary.LittleEndian.Uint32(q.L4[at:])
	}
	if ok = true; have < tagBytes {
		return 0, 0, true
	}
	switch q.Proto {
	case unix.IPPROTO_TCP:
		if have < tcpBytes {
			return 0, 0, true
		}
		tag, tag2 = bits.ReverseBytes32(word(4)), word(8)
		if have >= tcpStamps && word(12)&0xf0 >= tcpStamps<<2 {
			tag2 ^= word(tcpStamped - 4)
		}
	case unix.IPPROTO_UDP:
		if have >= 16 {
			tag, tag2 = word(8), word(12)
		}
	case unix.IPPROTO_ICMP:
		first := word(0)
		tag = first & 0xffff
		if kind := uint8(first); kind == icmpEcho || kind == icmpEchoReply {
			tag |= word(4) >> 16 << 16
			if have >= 16 {
				tag2 = word(8) ^ word(12)*0x9e3779b1
			}
		}
	default:
		return 0, 0, false // no report has quoted another protocol yet
	}
	return tag, tag2, ok
}
