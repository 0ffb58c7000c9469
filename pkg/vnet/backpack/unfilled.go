// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// The source of a TCP train writes the slot of the head alone. The members' slots are filled when a
// part of the train is seen (bpf/backpack/members.h). Until then each has an older packet's content,
// which is no record any more: the slot is the train's.

// maxTrain is the longest train that is measured (RDR_MAX_SEGS).
const maxTrain = 128

// glance is what a slot's first line shows without a copy.
type glance struct {
	t0, pos   uint64 // begin and position; pos 0: there is no packet
	seg, segs uint8
}

// peek reads what a scan sorts by from slot index.
func (r *Ring) peek(index uint64) (g glance) {
	w := r.words[index*r.slotWords:][:lineWords]
	for range 3 {
		g.pos = atomic.LoadUint64(&w[0])
		g.t0 = atomic.LoadUint64(&w[t0Word])
		place := atomic.LoadUint64(&w[segWord])
		g.seg, g.segs = uint8(place>>segShift), uint8(place>>segsShift)
		if g.pos != 0 && atomic.LoadUint64(&w[0]) == g.pos {
			return g
		}
	}
	return glance{}
}

// memberAt returns the position of segment k of the train whose head this is; 0 if it is none, or
// has no such segment.
func (g glance) memberAt(k uint64) uint64 {
	if g.pos == 0 || g.seg > 0 || k >= uint64(g.segs) {
		return 0
	}
	return g.pos + k
}

// trains finds unfilled members while a reader walks through all slots.
type trains struct {
	head glance
	at   uint64 // its index
}

// member returns the position of the unfilled member whose slot is at index; 0 if it is none. Calls
// come in the order of indexes.
func (t *trains) member(index uint64, g glance) uint64 {
	if pos := t.head.memberAt(index - t.at); pos > g.pos {
		return pos
	}
	if g.pos != 0 && g.seg == 0 {
		t.head, t.at = g, index
	}
	return 0
}

// headOf returns the position of the head of the train that has an unfilled member at pos; 0 if
// there is none.
func (r *Ring) headOf(pos uint64) uint64 {
	for k := uint64(1); k < maxTrain && k < pos; k++ {
		if g := r.peek(r.Index(pos - k)); g.pos == pos-k && g.memberAt(k) == pos {
			return g.pos
		}
	}
	return 0
}

// latest returns the position that slot index belongs to: that in the slot, or that of an unfilled
// member. In the slots of a train there may be heads of older ones.
func (r *Ring) latest(index uint64) uint64 {
	pos := r.position(index)
	for k := uint64(1); k < maxTrain && k <= index; k++ {
		pos = max(pos, r.peek(index-k).memberAt(k))
	}
	return pos
}

// member makes m the unfilled member k of the TCP train h, as fill_train_at() in
// bpf/backpack/members.h would. It reports whether there is such a member.
func (h *slot) member(k uint64, m *slot) bool {
	f := h.fields()
	if f.Seg != 0 || k == 0 || k >= uint64(f.Segs) || f.Proto != unix.IPPROTO_TCP {
		return false
	}
	*m = slot{cells: h.cells}
	*m.fields() = bpfobj.TcRdrSlot{
		Pos: f.Pos + k, T0Ns: f.T0Ns, State: f.State & (stIPv6 | stGroup), Proto: f.Proto,
		Tag: f.Tag + uint32(k)*uint32(f.GsoSize), Tag2: f.Tag2,
		Seg: uint8(k), Segs: f.Segs, Len: f.Len, FlowHash: f.FlowHash,
	}
	if k == uint64(f.Segs)-1 {
		m.fields().Len = uint16(f.TrainLen - uint32(k)*uint32(f.Len))
	}
	return true
}
