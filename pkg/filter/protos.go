// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"math/bits"

	"github.com/vnetradar/radar/pkg/record"
)

// protoSet is a set of IP protocols: those that a packet can still have.
type protoSet [4]uint64

var allProtos = protoSet{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}

// havePorts are the protocols whose records have ports.
var havePorts = protoSet{}.with(record.ProtoTCP).with(record.ProtoUDP).with(record.ProtoSCTP)

func (p protoSet) with(proto uint32) protoSet {
	p[proto/64] |= 1 << (proto % 64)
	return p
}

func (p protoSet) without(proto uint32) protoSet {
	if proto < 256 {
		p[proto/64] &^= 1 << (proto % 64)
	}
	return p
}

// only is the part of p that is proto.
func (p protoSet) only(proto uint32) protoSet {
	if proto > 255 {
		return protoSet{}
	}
	return p.and(protoSet{}.with(proto))
}

func (p protoSet) and(o protoSet) protoSet {
	for i := range p {
		p[i] &= o[i]
	}
	return p
}

func (p protoSet) or(o protoSet) protoSet {
	for i := range p {
		p[i] |= o[i]
	}
	return p
}

func (p protoSet) empty() bool { return p == protoSet{} }

// single returns the protocol if there is only one.
func (p protoSet) single() (proto uint8, ok bool) {
	n := 0
	for i, word := range p {
		n += bits.OnesCount64(word)
		if word != 0 {
			proto = uint8(i*64 + bits.TrailingZeros64(word))
		}
	}
	return proto, n == 1
}

func (p protoSet) allHavePorts() bool { return p.or(havePorts) == havePorts }

// allHold reports whether records of all these protocols hold that byte of the
// transport header: ports; of TCP all to the window but the byte with the header's length; of ICMP, whose
// number is icmp in this version of IP, the type, and an echo's identifier and sequence.
func (p protoSet) allHold(at int, icmp uint32) bool {
	held := protoSet{}
	if at < portBytes {
		held = havePorts
	}
	if at == 0 || at >= 4 && at < icmpBytes {
		held = held.with(icmp)
	}
	if at >= portBytes && at < tcpBytes && at != tcpOffsetByte {
		held = held.with(record.ProtoTCP)
	}
	return p.or(held) == held
}

func protoName(proto uint8) string { return record.ProtoName(proto) }
