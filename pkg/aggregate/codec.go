// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"encoding/binary"
	"math"
)

// chunkBytes is the size from which on an encoder begins a new chunk.
const chunkBytes = 256 << 10

// encoder appends what a snapshot is made of: numbers as varints. It does so in chunks:
// one that grew as a whole would at times be allocated anew, some megabytes at once, beside
// the old one.
type encoder struct {
	b     []byte   // the chunk under way
	done  [][]byte // those before it
	spare [][]byte // of an older snapshot, to be written over
}

// newEncoder writes over the chunks of spare.
func newEncoder(spare [][]byte) *encoder {
	e := &encoder{spare: spare}
	e.b = e.empty()
	return e
}

// boundary may begin a new chunk. It is called before each entry of a table: these stand
// together.
func (e *encoder) boundary() {
	if len(e.b) >= chunkBytes {
		e.done = append(e.done, e.b)
		e.b = e.empty()
	}
}

// empty is a chunk without contents. What is much larger than usual is not used again.
func (e *encoder) empty() []byte {
	const slack = 4 << 10 // what stands together is seldom longer
	for len(e.spare) > 0 {
		b := e.spare[0]
		if e.spare = e.spare[1:]; cap(b) <= 2*chunkBytes {
			return b[:0]
		}
	}
	return make([]byte, 0, chunkBytes+slack)
}

// chunks are all of them, in order; the encoder is not used any more.
func (e *encoder) chunks() [][]byte { return append(e.done, e.b) }

func (e *encoder) uints(list ...uint64) {
	for _, v := range list {
		e.b = binary.AppendUvarint(e.b, v)
	}
}

func (e *encoder) text(s string) {
	e.uints(uint64(len(s)))
	e.b = append(e.b, s...)
}

// decoder takes them off again; bad once there are no more, or a number cannot be.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.skip(n)
	return v
}

func (d *decoder) uints(list ...*uint64) {
	for _, p := range list {
		*p = d.uint()
	}
}

func (d *decoder) text() string {
	n := d.count(1)
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

// below reads a number that must be less than limit.
func (d *decoder) below(limit uint64) uint64 {
	v := d.uint()
	if v >= limit {
		d.b, d.bad = nil, true
		return 0
	}
	return v
}

// count reads how many things follow, each of at least size bytes: a number that
// cannot be true must not allocate.
func (d *decoder) count(size int) int {
	return int(d.below(uint64(len(d.b)/size) + 1))
}

func (d *decoder) skip(n int) {
	if n <= 0 {
		d.b, d.bad = nil, true
		return
	}
	d.b = d.b[n:]
}

// encode writes what comes before the buckets; false: there are none.
func (s *spread) encode(e *encoder, buckets int) bool {
	e.uints(s.count)
	if s.count == 0 {
		return false
	}
	e.uints(uint64(s.min), uint64(s.max-s.min), uint64(buckets))
	return true
}

// encode writes each bucket by how far it is from the last.
func (l *latency) encode(e *encoder) {
	buckets := 0
	for range l.all {
		buckets++
	}
	if !l.spread.encode(e, buckets) {
		return
	}
	last := uint16(0)
	for index, n := range l.all {
		e.uints(uint64(index-last), n)
		last = index
	}
}

func (l *flowLatency) encode(e *encoder) {
	if !l.spread.encode(e, len(l.buckets)) {
		return
	}
	e.uints(l.inexact)
	last := uint16(0)
	for _, b := range l.buckets {
		e.uints(uint64(b.index-last), uint64(b.n))
		last = b.index
	}
}

// spread reads a distribution; buckets is how many calls of bucket must follow.
func (d *decoder) spread() (s spread, buckets int) {
	if s.count = d.uint(); s.count == 0 {
		return s, 0
	}
	s.min = int64(d.uint())
	s.max = s.min + int64(d.uint())
	return s, d.count(2)
}

func (d *decoder) latency() latency {
	var l latency
	var n int
	l.spread, n = d.spread()
	index := uint64(0)
	for range n {
		index += d.uint()
		l.put(int(min(index, uint64(bucketOf(math.MaxInt64)))), d.uint())
	}
	return l
}

func (d *decoder) flowLatency() flowLatency {
	var l flowLatency
	var n int
	if l.spread, n = d.spread(); n == 0 {
		return l
	}
	l.inexact = d.uint()
	l.buckets = make([]bucket, n)
	index := uint16(0)
	for i := range l.buckets {
		index += uint16(d.uint())
		l.buckets[i] = bucket{index, uint32(d.uint())}
	}
	return l
}

func (m *meter) encode(e *encoder) {
	e.uints(m.packets, m.bytes, m.active, uint64(m.first), uint64(m.last-m.first))
	m.peak.encode(e, 0)
	e.uints(uint64(len(m.recent)))
	last := uint32(0)
	for _, s := range m.recent {
		s.encode(e, last)
		last = s.at
	}
}

// encode writes a second; its time as what it is after another.
func (s second) encode(e *encoder, after uint32) {
	e.uints(uint64(s.at-after), uint64(s.packets), s.bytes)
}

func (d *decoder) meter(room *int) meter {
	var m meter
	var first, length uint64
	d.uints(&m.packets, &m.bytes, &m.active, &first, &length)
	m.first, m.last = int64(first), int64(first+length)
	m.peak = d.second(0)
	m.recent = make([]second, d.count(3))
	last := uint32(0)
	for i := range m.recent {
		m.recent[i] = d.second(last)
		last = m.recent[i].at
	}
	*room -= len(m.recent)
	return m
}

func (d *decoder) second(after uint32) second {
	return second{after + uint32(d.uint()), uint32(d.uint()), d.uint()}
}
