// SPDX-License-Identifier: Apache-2.0

package intwire

import "math/bits"

// Format is a header in which bits select metadata, or in which all of it is there.
type Format uint8

// The formats. In the two headers of TR 0.5 all rows are there, in the order of their bits,
// which are only numbers.
const (
	INT05 Format = iota
	INT10
	INT20 // INT 2.0 and 2.1
	TR05Drop
	TR05Local
	TR10
	TR20

	numFormats
)

var formatNames = [numFormats]string{"INT 0.5", "INT 1.0", "INT 2.x", "TR 0.5 drop", "TR 0.5 local", "TR 1.0", "TR 2.0"}

// String names the format as the texts do.
func (f Format) String() string {
	if f >= numFormats {
		return "unknown"
	}
	return formatNames[f]
}

// Option is a row that some programs use in place of the text's.
type Option uint8

// The options, a set.
const (
	LongTimes  Option = 1 << iota // timestamps of 8 bytes in INT 1.0
	ShortL2                       // level-2 ports of 16 bits, in one word
	EvenQueues                    // queue id and occupancy of 16 bits each
)

// Part is one field within a row's words, and its width.
type Part struct {
	Field Field
	Bits  uint8
}

// Row is one bit of a bitmap and the words that it stands for.
type Row struct {
	Bit     uint8  // 0 is the most significant bit of the bitmap
	Formats uint16 // set of 1 << Format
	Option  Option // 0: the row of the texts; else it replaces that row
	Last    bool   // behind domain-specific words
	Parts   []Part // in the order on the wire; the rest of the last word is padding
	Meaning string
}

const (
	inAllINT = 1<<INT05 | 1<<INT10 | 1<<INT20
	inOldINT = 1<<INT05 | 1<<INT10
)

// Rows is the only description of metadata: INT 0.5 to 2.1 "Metadata Instructions", TR 0.5
// "Drop Report Header" and "Switch Local Report Header", TR 1.0 and 2.0 "RepMdBits". Bits
// without a row are reserved: a word each, if a node fills them.
//
// A word of all ones is not available. If parts have 32 bits, that goes for each part.
var Rows = []Row{
	{Bit: 0, Formats: inAllINT, Parts: []Part{{NodeID, 32}}, Meaning: "node (switch) id"},
	{Bit: 1, Formats: inAllINT | 1<<TR20, Parts: []Part{{L1In, 16}, {L1Out, 16}}, Meaning: "level-1 ingress and egress port"},
	{Bit: 2, Formats: inAllINT | 1<<TR20, Parts: []Part{{HopLatency, 32}}, Meaning: "time inside the node"},
	{Bit: 3, Formats: inAllINT | 1<<TR20, Parts: []Part{{QueueID, 8}, {QueueOcc, 24}}, Meaning: "queue and its occupancy"},
	{Bit: 3, Formats: inOldINT, Option: EvenQueues, Parts: []Part{{QueueID, 16}, {QueueOcc, 16}}, Meaning: "queue and its occupancy"},
	{Bit: 4, Formats: inOldINT, Parts: []Part{{IngressTS, 32}}, Meaning: "time of ingress"},
	{Bit: 4, Formats: inOldINT, Option: LongTimes, Parts: []Part{{IngressTS, 64}}, Meaning: "time of ingress"},
	{Bit: 4, Formats: 1<<INT20 | 1<<TR20, Parts: []Part{{IngressTS, 64}}, Meaning: "time of ingress"},
	{Bit: 5, Formats: inOldINT, Parts: []Part{{EgressTS, 32}}, Meaning: "time of egress"},
	{Bit: 5, Formats: inOldINT, Option: LongTimes, Parts: []Part{{EgressTS, 64}}, Meaning: "time of egress"},
	{Bit: 5, Formats: 1<<INT20 | 1<<TR20, Parts: []Part{{EgressTS, 64}}, Meaning: "time of egress"},
	{Bit: 6, Formats: 1 << INT05, Parts: []Part{{CongestionQueueID, 8}, {QueueCongestion, 24}}, Meaning: "queue and its congestion status"},
	{Bit: 6, Formats: 1<<INT10 | 1<<INT20 | 1<<TR20, Parts: []Part{{L2In, 32}, {L2Out, 32}}, Meaning: "level-2 ingress and egress port"},
	{Bit: 6, Formats: 1 << INT10, Option: ShortL2, Parts: []Part{{L2In, 16}, {L2Out, 16}}, Meaning: "level-2 ingress and egress port"},
	{Bit: 7, Formats: inAllINT | 1<<TR20, Parts: []Part{{EgressTxUtil, 32}}, Meaning: "utilisation of the egress port"},
	{Bit: 8, Formats: 1<<INT20 | 1<<TR20, Parts: []Part{{BufferID, 8}, {BufferOcc, 24}}, Meaning: "buffer and its occupancy"},
	{Bit: 15, Formats: 1<<INT10 | 1<<INT20, Last: true, Parts: []Part{{ChecksumComplement, 32}}, Meaning: "keeps the L4 checksum right; all ones: the checksum itself was updated"},
	{Bit: 15, Formats: 1 << TR20, Parts: []Part{{DropQueueID, 8}, {DropReason, 8}}, Meaning: "queue and reason of a drop"},

	{Bit: 0, Formats: 1 << TR10, Parts: []Part{{L1In, 16}, {L1Out, 16}}, Meaning: "ingress and egress port"},
	{Bit: 1, Formats: 1 << TR10, Parts: []Part{{HopLatency, 32}}, Meaning: "time inside the node"},
	{Bit: 2, Formats: 1 << TR10, Parts: []Part{{QueueID, 8}, {QueueOcc, 24}}, Meaning: "queue and its occupancy"},
	{Bit: 3, Formats: 1 << TR10, Parts: []Part{{EgressTS, 32}}, Meaning: "time of egress"},
	{Bit: 4, Formats: 1 << TR10, Parts: []Part{{DropQueueID, 8}, {DropReason, 8}}, Meaning: "queue and reason of a drop"},
	{Bit: 5, Formats: 1 << TR10, Parts: []Part{{EgressTxUtil, 32}}, Meaning: "utilisation of the egress port"},

	{Bit: 0, Formats: 1<<TR05Drop | 1<<TR05Local, Parts: []Part{{NodeID, 32}}, Meaning: "switch id"},
	{Bit: 1, Formats: 1<<TR05Drop | 1<<TR05Local, Parts: []Part{{L1In, 16}, {L1Out, 16}}, Meaning: "ingress and egress port"},
	{Bit: 2, Formats: 1 << TR05Drop, Parts: []Part{{DropQueueID, 8}, {DropReason, 8}}, Meaning: "queue and reason of a drop"},
	{Bit: 2, Formats: 1 << TR05Local, Parts: []Part{{QueueID, 8}, {QueueOcc, 24}}, Meaning: "queue and its occupancy"},
	{Bit: 3, Formats: 1 << TR05Local, Parts: []Part{{EgressTS, 32}}, Meaning: "time of egress"},
}

// Bitmaps of the headers in which all rows are there.
const (
	bitsTR05Drop  = 0xe000
	bitsTR05Local = 0xf000
)

// Words is the size of the row, in words of 4 bytes.
func (r *Row) Words() int {
	bits := 0
	for _, p := range r.Parts {
		bits += int(p.Bits)
	}
	return (bits + 31) / 32
}

// rowOf returns the row of a bit, nil if the bit is reserved in the format.
func rowOf(f Format, bit uint8, options Option) (found *Row) {
	for i := range Rows {
		r := &Rows[i]
		if r.Bit != bit || r.Formats&(1<<f) == 0 {
			continue
		}
		if r.Option&options != 0 {
			return r
		}
		if r.Option == 0 {
			found = r
		}
	}
	return found
}

// rowsOf is Rows by format, options and bit. rowWords is how many words each has: one for a
// reserved bit.
var (
	rowsOf   [numFormats][8][16]*Row
	rowWords [numFormats][8][16]uint8
)

func init() {
	for f := range numFormats {
		for o := range Option(8) {
			for bit := range uint8(16) {
				r := rowOf(f, bit, o)
				rowsOf[f][o][bit], rowWords[f][o][bit] = r, 1
				if r != nil {
					rowWords[f][o][bit] = uint8(r.Words())
				}
			}
		}
	}
}

// Words is the number of words of 4 bytes that a bitmap asks of each hop, or of a
// report, without domain-specific ones. Reserved bits count one word each. The bitmap of
// TR 1.0 is its six RepMdBits, moved up: as in all others, bit 0 is the most significant
// of 16.
func Words(f Format, bitmap uint16, options Option) int {
	if f >= numFormats {
		return 0
	}
	n, words := 0, &rowWords[f][options&7]
	for b := bitmap; b != 0; {
		bit := bits.LeadingZeros16(b) & 15
		b &^= 0x8000 >> bit
		n += int(words[bit])
	}
	return n
}

// Bitmap returns the bitmap that asks for the fields of a set, as Words takes it: the bits
// whose fields are all in it, by the rows of the texts. The checksum complement is never
// among them, nor is TR 2.0's bit 0 (the group has the node id).
func Bitmap(f Format, has Fields) (bitmap uint16) {
	if f >= numFormats {
		return 0
	}
	for bit, row := range rowsOf[f][0] {
		if row == nil || row.Last {
			continue
		}
		all := true
		for _, p := range row.Parts {
			all = all && has.Has(p.Field)
		}
		if all {
			bitmap |= 0x8000 >> bit
		}
	}
	return bitmap
}
