// SPDX-License-Identifier: Apache-2.0

package pcapng

import "encoding/binary"

// Blocks of draft-ietf-opsawg-pcapng, little-endian.
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockPacket    = 6 // enhanced

	byteOrder = 0x1a2b3c4d
	linkRaw   = 101 // LINKTYPE_RAW: IPv4 or IPv6, no link layer
)

// Options of blocks.
const (
	optEnd      = 0
	optComment  = 1
	optHardware = 2 // of a section
	optOS       = 3
	optUser     = 4
	optName     = 2 // of an interface
	optTsResol  = 9
	optFlags    = 2 // of a packet
	optPacketID = 5
)

// Directions in the flags of a packet.
const (
	flagsNone     = 0
	flagsInbound  = 1
	flagsOutbound = 2
)

// mostOption is how long an option can be.
const mostOption = 0xffff

var le = binary.LittleEndian

// begin starts a block, whose length end puts in.
func begin(b []byte, kind uint32) []byte {
	return append(le.AppendUint32(b, kind), 0, 0, 0, 0)
}

// end closes the block that b consists of.
func end(b []byte) []byte {
	length := uint32(len(b) + 4)
	le.PutUint32(b[4:], length)
	return le.AppendUint32(b, length)
}

// pad fills up to 32 bits.
func pad(b []byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// option appends an option. The end of a value that is too long is cut off.
func option[T ~string | ~[]byte](b []byte, code uint16, value T) []byte {
	n := min(len(value), mostOption)
	b = le.AppendUint16(b, code)
	b = le.AppendUint16(b, uint16(n))
	return pad(append(b, value[:n]...))
}

// appendSection appends the header of a section whose length is not known.
func appendSection(b []byte, comment, hardware, system, application string) []byte {
	start := len(b)
	b = begin(b, blockSection)
	b = le.AppendUint32(b, byteOrder)
	b = le.AppendUint16(b, 1) // version 1.0
	b = le.AppendUint16(b, 0)
	b = le.AppendUint64(b, ^uint64(0))
	b = option(b, optComment, comment)
	b = option(b, optHardware, hardware)
	b = option(b, optOS, system)
	b = option(b, optUser, application)
	b = option(b, optEnd, "")
	return append(b[:start], end(b[start:])...)
}

// appendInterface appends the description of an interface with times in nanoseconds.
func appendInterface(b []byte, name string) []byte {
	start := len(b)
	b = begin(b, blockInterface)
	b = le.AppendUint16(b, linkRaw)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, 0) // no limit of length
	b = option(b, optName, name)
	b = option(b, optTsResol, []byte{9})
	b = option(b, optEnd, "")
	return append(b[:start], end(b[start:])...)
}

// packetBlock is what an enhanced packet block says.
type packetBlock struct {
	nic     int
	at      int64 // Unix time, ns
	data    []byte
	length  int // of the packet on the wire
	comment []byte
	flags   uint32
	id      uint64 // the same for the same packet at each interface
}

func (p *packetBlock) append(b []byte) []byte {
	start := len(b)
	b = begin(b, blockPacket)
	b = le.AppendUint32(b, uint32(p.nic))
	b = le.AppendUint32(b, uint32(uint64(p.at)>>32))
	b = le.AppendUint32(b, uint32(p.at))
	b = le.AppendUint32(b, uint32(len(p.data)))
	b = le.AppendUint32(b, uint32(p.length))
	b = pad(append(b, p.data...))
	b = option(b, optComment, p.comment)
	if p.flags != flagsNone {
		b = option(b, optFlags, le.AppendUint32(nil, p.flags))
	}
	b = option(b, optPacketID, le.AppendUint64(nil, p.id))
	b = option(b, optEnd, "")
	return append(b[:start], end(b[start:])...)
}
