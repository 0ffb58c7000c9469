// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"encoding/binary"
	"errors"
)

// stateVersion changes with the form of a Follower's state.
const stateVersion = 1

// ErrState: the bytes are not the state of a Follower of this version.
var ErrState = errors.New("no state of a follower of this version")

// AppendState appends the Follower's state to b: where it is in the ring, and which
// packets without an end it has seen. It is a few bytes for each packet in flight.
func (f *Follower) AppendState(b []byte) []byte {
	fresh := uint64(0)
	if f.fresh {
		fresh = 1
	}
	for _, v := range []uint64{stateVersion, f.ring.slots, fresh, f.next, f.stats.Unread, f.stats.Torn} {
		b = binary.AppendUvarint(b, v)
	}
	b = binary.AppendUvarint(b, uint64(len(f.open)))
	for _, r := range f.open {
		b = binary.AppendUvarint(b, r.From)
		b = binary.AppendUvarint(b, r.To-r.From)
	}
	b = binary.AppendUvarint(b, uint64(len(f.pending)))
	last := uint64(0)
	for _, e := range f.pending {
		b = binary.AppendVarint(b, int64(e.pos-last)) // mostly neighbours
		b = append(b, e.segs, e.left)
		last = e.pos
	}
	b = binary.AppendUvarint(b, uint64(len(f.parts)))
	for pos, done := range f.parts {
		b = binary.AppendUvarint(b, pos)
		for _, w := range done {
			b = binary.AppendUvarint(b, w)
		}
	}
	return b
}

// Restore replaces f's state. It returns ErrState, and leaves f as it is, if the state
// cannot be of this ring.
func (f *Follower) Restore(state []byte) error {
	d := decoding{b: state}
	version, slots, fresh := d.uvarint(), d.uvarint(), d.uvarint()
	if version != stateVersion || slots != f.ring.slots || fresh > 1 {
		return ErrState
	}
	next := d.uvarint()
	stats := FollowStats{Unread: d.uvarint(), Torn: d.uvarint()}
	open := make([]Range, d.count(2))
	for i := range open {
		from := d.uvarint()
		open[i] = Range{from, from + d.uvarint()}
		if open[i].To < from || open[i].To > next {
			return ErrState
		}
	}
	pending := make([]entry, d.count(3))
	last := uint64(0)
	for i := range pending {
		last += uint64(d.varint())
		pending[i] = entry{pos: last, segs: d.byte(), left: d.byte()}
		if last >= next || pending[i].left > pending[i].segs {
			return ErrState
		}
	}
	parts := make(map[uint64]*segments)
	for range d.count(5) {
		pos, done := d.uvarint(), new(segments)
		for i := range done {
			done[i] = d.uvarint()
		}
		parts[pos] = done
	}
	if d.bad || len(d.b) > 0 {
		return ErrState
	}
	f.fresh, f.next, f.stats = fresh == 1, next, stats
	f.open, f.pending, f.parts = open, pending, parts
	return nil
}

// decoding takes numbers off b; bad: there were too few.
type decoding struct {
	b   []byte
	bad bool
}

func (d *decoding) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.skip(n)
	return v
}

func (d *decoding) varint() int64 {
	v, n := binary.Varint(d.b)
	d.skip(n)
	return v
}

func (d *decoding) byte() byte {
	if len(d.b) == 0 {
		d.skip(0)
		return 0
	}
	v := d.b[0]
	d.skip(1)
	return v
}

func (d *decoding) skip(n int) {
	if n <= 0 {
		d.b, d.bad = nil, true
		return
	}
	d.b = d.b[n:]
}

// count takes the number of things that follow, each at least size bytes: a number
// that cannot be true must not allocate memory.
func (d *decoding) count(size int) int {
	n := d.uvarint()
	if n > uint64(len(d.b)/size) {
		d.b, d.bad = nil, true
		return 0
	}
	return int(n)
}
