// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"sort"
)

// span is a piece of the sequence space, and what carried it last.
type span struct {
	from, to int64
	by       *sent
}

// board has what was sent and not yet acknowledged, as the sender knows it, in the order of sequence numbers.
type board struct {
	list   []span
	forgot bool // there was no room for all
}

// maxSpans is how many packets in flight are told apart: 64K of 1,500 bytes are 90 MB.
const maxSpans = 1 << 14

// overlap returns the spans that have a part of from to to, as indices.
func (b *board) overlap(from, to int64) (first, end int) {
	first = sort.Search(len(b.list), func(i int) bool { return b.list[i].to > from })
	end = first
	for end < len(b.list) && b.list[end].from < to {
		end++
	}
	return first, end
}

// put notes that p was sent, and returns what carried some of its bytes before.
func (b *board) put(p *sent) (before []*sent) {
	if n := len(b.list); n == 0 || p.seq >= b.list[n-1].to {
		if n == maxSpans {
			b.list, b.forgot = slices.Delete(b.list, 0, maxSpans/2), true
		}
		b.list = append(b.list, span{p.seq, p.end, p})
		return nil
	}
	first, end := b.overlap(p.seq, p.end)
	for _, s := range b.list[first:end] {
		if !slices.Contains(before, s.by) && len(before) < maxOriginals {
			before = append(before, s.by)
		}
	}
	if end == first+1 && b.list[first].from == p.seq && b.list[first].to == p.end {
		b.list[first].by = p
		return before
	}
	pieces := make([]span, 0, 3)
	if first < end && b.list[first].from < p.seq {
		pieces = append(pieces, span{b.list[first].from, p.seq, b.list[first].by})
	}
	pieces = append(pieces, span{p.seq, p.end, p})
	if first < end && b.list[end-1].to > p.end {
		pieces = append(pieces, span{p.end, b.list[end-1].to, b.list[end-1].by})
	}
	if b.list = slices.Replace(b.list, first, end, pieces...); len(b.list) > maxSpans {
		b.list, b.forgot = slices.Delete(b.list, 0, maxSpans/2), true
	}
	return before
}

// acked takes off what lies before ack, and calls fn for it.
func (b *board) acked(ack int64, fn func(*sent)) {
	n := 0
	for n < len(b.list) && b.list[n].to <= ack {
		fn(b.list[n].by)
		n++
	}
	if n < len(b.list) && b.list[n].from < ack {
		b.list[n].from = ack
	}
	clear(b.list[:n]) // what they point to may go
	if b.list = b.list[n:]; len(b.list) == 0 {
		b.list = nil
	}
}

// maxOriginals is how many packets one that is sent again is compared with: a train of 64 KB has 45.
const maxOriginals = 64
