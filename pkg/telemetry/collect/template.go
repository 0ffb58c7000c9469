// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// Template is what reports that raise no event look like: docs/design/0011-metrics.md. Offsets
// count from the beginning of the UDP payload.
type Template struct {
	Mask, Value []byte // as long as each other, whole words of 8 bytes: payload&Mask must be Value
	// Tail is the offset of 8 bytes more, TailMask and TailValue, where what matters does not end with a
	// word: they overlap the last one. 0: there are none.
	Tail                int
	TailMask, TailValue [8]byte
	Bands               []TemplateBand
	Sum                 metrics.Band // of the summed bands' fields
	// Flow is what the flow said last, whoever reported it: its band moves with each event.
	Flow   metrics.Shared
	MaxLen int // of the payload; 0: any
	// Single: the payload is one report of TR 2.0, which reaches to its end: its length, in words,
	// says so, or is 255.
	Single bool
}

// TemplateBand is a range in which a field must lie: 4 bytes in network byte order, masked.
type TemplateBand struct {
	Off    int
	Mask   uint32
	Lo, Hi uint32
	Shared int  // index of the shared value whose band it is, which moves; -1: its own
	Summed bool // a part of Sum
}

// templates makes templates, in memory that it uses again.
type templates struct {
	Template
	payload []byte
	unit    uint64 // ns that hop latency counts by
	plain   bool   // the decoder finds no anomaly
	quiet   metrics.Quiet
}

// make makes the template of reports like one: p is its packet, m and o what the decoder has made
// of it, r its measures, e the engine that has heard it. It is valid until the next call; nil: there
// is none, as of reports of which more is counted.
func (t *templates) make(p Packet, m *intwire.Message, o *Observed, r *metrics.Report, e *metrics.Engine) *Template {
	var err error
	if _, t.payload, err = p.UDP(); err != nil || !o.Quoted || o.Dropped || o.Queued || o.NoArrival > 0 || m.HasGroup && len(m.Reports) != 1 {
		return nil
	}
	if !e.Quiet(r, &t.quiet) {
		return nil
	}
	t.unit = uint64(o.LatencyNs)
	t.Bands, t.Value, t.MaxLen, t.Tail, t.Flow = t.Bands[:0], t.Value[:0], 0, 0, t.quiet.Flow
	t.plain = len(m.Anomalies) == 0
	t.Sum = metrics.Band{Lo: (t.quiet.Sum.Lo + t.unit - 1) / t.unit, Hi: t.quiet.Sum.Hi / t.unit}
	t.Mask = append(t.Mask[:0], bytes.Repeat([]byte{0xff}, len(t.payload))...)
	own, in, quote := t.header(m)
	if quote == nil {
		return nil
	}
	end := 0
	if in != nil {
		if end = t.int(in); end == 0 {
			return nil
		}
	}
	end = t.quote(quote, end)
	if end == 0 || !t.hops(o, in, own) {
		return nil
	}
	if t.Single = m.HasGroup && m.Reports[0].Length > 0; t.Single { // 0 stays 0: to the end, too
		t.atLeast(8, 0x00ff0000, min((end-12)/4, 255)) // up to three bytes behind it are its own; 255: to the end
	}
	if !t.close(end) || !t.Fits(t.payload, nil) {
		return nil
	}
	return &t.Template
}

// Fits says whether a payload fits. shared has the bands of shared values; nil: anything does.
func (t *Template) Fits(payload []byte, shared func(index int) metrics.Band) bool {
	if len(payload) < len(t.Mask) || t.MaxLen > 0 && len(payload) > t.MaxLen {
		return false
	}
	if t.Flow.Has && shared != nil && shared(int(t.Flow.Index)).Lo != t.Flow.Lo {
		return false
	}
	for i, m := range t.Mask {
		if payload[i]&m != t.Value[i] {
			return false
		}
	}
	sum := uint64(0)
	if t.Tail > 0 {
		if t.Tail+8 > len(payload) {
			return false
		}
		for i, m := range t.TailMask {
			if payload[t.Tail+i]&m != t.TailValue[i] {
				return false
			}
		}
	}
	for i := range t.Bands {
		b := &t.Bands[i]
		if b.Off+4 > len(payload) {
			return false
		}
		v := binary.BigEndian.Uint32(payload[b.Off:]) & b.Mask
		if b.Summed {
			sum += uint64(v)
		}
		lo, hi := uint64(b.Lo), uint64(b.Hi)
		if b.Shared >= 0 {
			if v == b.Mask { // all ones: no value
				return false
			}
			if shared == nil {
				continue
			}
			band := shared(b.Shared)
			lo, hi = band.Lo, band.Hi
		}
		if uint64(v) < lo || uint64(v) > hi {
			return false
		}
	}
	if t.Single && payload[9] != 255 && 12+4*int(payload[9])+3 < len(payload) {
		return false
	}
	return t.Sum.Lo <= sum && sum <= t.Sum.Hi
}

// at is the offset of a part of the packet.
func (t *templates) at(part []byte) int { return cap(t.payload) - cap(part) }

// any says that n bytes may be anything.
func (t *templates) any(off, n int) {
	if off >= 0 && off+n <= len(t.Mask) {
		clear(t.Mask[off : off+n])
	}
}

// anyBits says that these bits of the 4 bytes at off may be anything.
func (t *templates) anyBits(off int, mask uint32) {
	if off >= 0 && off+4 <= len(t.Mask) {
		binary.BigEndian.PutUint32(t.Mask[off:], binary.BigEndian.Uint32(t.Mask[off:])&^mask)
	}
}

// atLeast says that a field of 4 bytes at off, masked, must be n or more.
func (t *templates) atLeast(off int, mask uint32, n int) {
	t.anyBits(off, mask)
	t.Bands = append(t.Bands, TemplateBand{Off: off, Mask: mask, Lo: uint32(n) << bits.TrailingZeros32(mask), Hi: mask, Shared: -1})
}

// block is metadata of a node: size bytes at an offset, and where its fields lie.
type block struct {
	off, size int
	whole     bool // all that its bitmap asks for fits in
	places    []intwire.Place
}

func newBlock(off, size int, f intwire.Format, bitmap uint16, options intwire.Option) block {
	return block{off, size, 4*intwire.Words(f, bitmap, options) <= size, intwire.Places(f, bitmap, options, size)}
}

// header says what of the report's own header may differ, and returns where its own values are,
// the INT that it quotes, and the quote; nil: such reports have no template.
func (t *templates) header(m *intwire.Message) (own block, in *intwire.INT, quote []byte) {
	if !m.HasGroup {
		r := &m.Report
		if len(m.INT) > 1 {
			return own, nil, nil
		}
		if len(m.INT) == 1 {
			in = &m.INT[0]
		}
		switch r.Layout {
		case intwire.Report10:
			t.any(8, 8) // sequence number, time
			own = newBlock(16, 4*r.HeaderWords()-16, intwire.TR10, uint16(r.RepMdBits)<<10, 0)
		case intwire.Report05:
			t.any(4, 8)
			switch r.NProto {
			case 1:
				own = newBlock(12, 12, intwire.TR05Drop, 0xe000, 0)
			case 2:
				own = newBlock(12, 16, intwire.TR05Local, 0xf000, 0)
			}
		}
		return own, in, r.Inner
	}
	s := &m.Reports[0]
	if len(s.TLVs) > 0 || len(m.Embedded) > 1 {
		return own, nil, nil
	}
	if s.Embedded > 0 {
		in = &m.Embedded[0]
	}
	sequence := uint32(0x003fffff)
	switch traits := &m.Profile.Report; {
	case traits.SmallHwID:
		sequence = 0x00ffffff
	case traits.Loose && traits.Ver == 1, traits.ShortSeq:
		sequence = 0
		t.anyBits(0, 0x003fffc0)
	}
	t.anyBits(0, sequence)
	if s.HasMain {
		own = newBlock(20, 4*int(s.MDLength), intwire.TR20, s.RepMdBits&0x7fff, 0)
	}
	return own, in, s.Inner
}

// hops says what of the metadata may differ, and how far.
func (t *templates) hops(o *Observed, in *intwire.INT, own block) bool {
	n, stack := len(o.Hops), 0
	if in != nil {
		stack = len(in.Hops)
		of := newBlock(t.at(in.Stack), in.Stride, in.Header.Layout, in.Header.Bitmap, in.Options)
		for i := range in.Hops { // the newest first
			h, hop := &in.Hops[i], stack-1-i
			for _, part := range [...][]byte{h.Reserved, h.DS} {
				if len(part) > 0 { // its capacity ends with the block
					t.any(of.off+of.size-cap(part), len(part))
				}
			}
			if !t.values(of, &o.Hops[hop], &h.Values, &t.quiet.Hops[hop]) {
				return false
			}
			of.off += of.size
		}
	}
	if len(own.places) == 0 {
		return true
	}
	if !o.Own { // they are about a node that says nothing else
		return false
	}
	h, q := &o.Hops[n-1], &t.quiet.Hops[n-1]
	if n > stack {
		return t.values(own, h, h, q)
	}
	// The stack's values count, those of the report where it has none.
	var rest intwire.Values
	for f := range intwire.NumFields {
		if _, ok := in.Hops[0].Get(f); !ok && h.Has.Has(f) {
			rest.Has |= 1 << f
		}
	}
	return t.values(own, h, &rest, q)
}

// values says what of one block of metadata may differ. from has the fields that count of it, h
// those of the hop. A bitmap may ask for more than its sender has put into the block: what lies
// behind the block belongs to something else. Such reports have no template.
func (t *templates) values(of block, h, from *intwire.Values, q *metrics.QuietHop) bool {
	if !of.whole || of.off < 0 || of.off+of.size > len(t.payload) {
		return false
	}
	_, hasPort := h.Get(intwire.L1Out)
	for _, p := range of.places {
		if p.Off < 0 || p.Off+p.Bytes > of.size {
			return false
		}
		word := of.off + p.Off
		mask := uint32(1<<p.Bits-1) << p.Shift
		own := TemplateBand{Off: word, Mask: mask, Shared: -1}
		switch _, valid := h.Get(p.Field); {
		case p.Bytes == 8:
			t.any(word, 8)
			continue
		case p.Field == intwire.IngressTS, p.Field == intwire.EgressTS, p.Field == intwire.ChecksumComplement, p.Field == intwire.L1In, p.Field == intwire.L2In,
			p.Field == intwire.BufferID, p.Field == intwire.BufferOcc, p.Field == intwire.L2Out && hasPort:
			if t.allOnes(word, mask) {
				return false
			}
			t.anyBits(word, mask)
			continue
		case !valid, !from.Has.Has(p.Field): // must be said again, or not said again
			continue
		case p.Field == intwire.HopLatency:
			own.Lo, own.Hi = t.raw((q.Latency.Lo+t.unit-1)/t.unit, p), t.raw(q.Latency.Hi/t.unit, p)
			own.Summed = true
		case p.Field == intwire.QueueOcc && q.Occupancy.Has:
			own.Shared = int(q.Occupancy.Index)
		case p.Field == intwire.EgressTxUtil && q.Utilization.Has:
			own.Shared = int(q.Utilization.Index)
		default:
			continue
		}
		if p.Shift != 0 || t.allOnes(word, mask) {
			return false // no number, or with all ones in the field it would be "not available"
		}
		t.anyBits(word, mask)
		t.Bands = append(t.Bands, own)
	}
	return true
}

// allOnes says whether what else is in a word is all ones.
func (t *templates) allOnes(word int, mask uint32) bool {
	return mask != 1<<32-1 && binary.BigEndian.Uint32(t.payload[word:])|mask == 1<<32-1
}

// raw is a limit as a field has it: all ones stands for no value.
func (t *templates) raw(n uint64, p intwire.Place) uint32 {
	return uint32(min(n, 1<<p.Bits-2))
}

// close cuts the template to the bytes that matter, and fills in the values. What does not fill
// a word at the end of the payload is in the tail. false: the payload ends before.
func (t *templates) close(end int) bool {
	if end > len(t.payload) {
		return false
	}
	n := (end + 7) &^ 7
	if n <= len(t.payload) {
		clear(t.Mask[end:n])
	} else if n = end &^ 7; n < end {
		t.Tail = end - 8
		for i := range t.TailMask {
			t.TailMask[i] = t.Mask[t.Tail+i]
			t.TailValue[i] = t.payload[t.Tail+i] & t.TailMask[i]
		}
	}
	t.Mask = t.Mask[:n]
	for i, m := range t.Mask {
		t.Value = append(t.Value, t.payload[i]&m)
	}
	return true
}
