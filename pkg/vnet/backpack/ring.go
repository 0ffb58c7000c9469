// SPDX-License-Identifier: Apache-2.0

package backpack

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// Words of 8 bytes: a cache line, and the longest slot (RDR_MAX_SLOT_LINES).
const (
	lineWords = 8
	maxLines  = 8
	maxWords  = maxLines * lineWords
)

// Places of cells, in words: cells 0..2 and, behind the second line's record
// fields, cells 3 and up without a gap (TestLayout compares them with the ABI).
const (
	cells0 = 5
	cells3 = 14
)

// addr6Cells is how many cells the addresses of an IPv6 packet take (RDR_ADDR6_CELLS).
const addr6Cells = 4

// endCells is how many cells are kept for a packet's end (RDR_END_CELLS).
const endCells = 4

// Places, in words, of fields that are read without copying the slot.
const (
	t0Word    = unsafe.Offsetof(bpfobj.TcRdrSlot{}.T0Ns) / 8
	segWord   = unsafe.Offsetof(bpfobj.TcRdrSlot{}.Seg) / 8
	segShift  = unsafe.Offsetof(bpfobj.TcRdrSlot{}.Seg) % 8 * 8
	segsShift = unsafe.Offsetof(bpfobj.TcRdrSlot{}.Segs) % 8 * 8
)

// Ring is the slot ring, read-only. It is safe for concurrent use.
type Ring struct {
	words     []uint64
	slots     uint64
	slotWords uint64
	cells     int // of one slot
}

// NewRing reads a ring from mem, an image or mapping of slots * slotBytes bytes,
// aligned to 8 bytes. The Ring keeps mem.
func NewRing(mem []byte, slots uint32, slotBytes int) (*Ring, error) {
	lines := slotBytes / (lineWords * 8)
	switch {
	case slots == 0 || bits.OnesCount32(slots) != 1:
		return nil, fmt.Errorf("read ring: %d slots is no power of two", slots)
	case slotBytes%(lineWords*8) != 0 || lines < 2 || lines > maxLines:
		return nil, fmt.Errorf("read ring: a slot of %d bytes is not 2 to %d cache lines", slotBytes, maxLines)
	case uint64(len(mem)) != uint64(slots)*uint64(slotBytes):
		return nil, fmt.Errorf("read ring: %d bytes are not %d slots of %d bytes", len(mem), slots, slotBytes)
	case uintptr(unsafe.Pointer(&mem[0]))%8 != 0:
		return nil, fmt.Errorf("read ring: memory is not aligned to 8 bytes")
	}
	return &Ring{
		words:     unsafe.Slice((*uint64)(unsafe.Pointer(&mem[0])), len(mem)/8),
		slots:     uint64(slots),
		slotWords: uint64(lines * lineWords),
		cells:     5 + 8*(lines-2),
	}, nil
}

// Slots returns the number of slots.
func (r *Ring) Slots() uint64 { return r.slots }

// Index returns the slot of a position. It is the GUID that the packet carries.
func (r *Ring) Index(pos uint64) uint64 { return pos & (r.slots - 1) }

// position returns the position in slot index; 0: being rewritten, or never used.
func (r *Ring) position(index uint64) uint64 {
	return atomic.LoadUint64(&r.words[index*r.slotWords])
}

// withdrawn reports whether the programs took the packet at pos back: it was sourced
// where it came in, could not be keyed where it left, and is counted as not measured. Such
// a slot has position 0 for good; one that is being rewritten has it for some nanoseconds.
func (r *Ring) withdrawn(pos uint64) bool {
	for range 1000 {
		if r.position(r.Index(pos)) != 0 {
			return false
		}
	}
	return true
}

// slot is a copy of one slot, as far as it is used.
type slot struct {
	w     [maxWords]uint64
	cells int // of each slot of the ring
}

// fields returns the named fields. Those of the second line are valid in heads only.
func (s *slot) fields() *bpfobj.TcRdrSlot {
	return (*bpfobj.TcRdrSlot)(unsafe.Pointer(&s.w))
}

// cell returns cell k, which must be below s.cells.
func (s *slot) cell(k int) uint64 {
	if k < 3 {
		return s.w[cells0+k]
	}
	return s.w[cells3+k-3]
}

// eventCells is how many cells the log can fill. In the head of an IPv6 packet its
// addresses are behind them.
func (s *slot) eventCells() int {
	if s.fields().State&stIPv6 != 0 {
		return s.cells - addr6Cells
	}
	return s.cells
}

// used returns how many words of the slot are in use.
func (s *slot) used() int {
	f := s.fields()
	if f.State&stIPv6 != 0 && f.Seg == 0 {
		return cells3 + s.cells - 3
	}
	n := lineWords
	if f.Seg == 0 {
		n = 2 * lineWords
	}
	if k := min(int(f.Nev), s.cells); k > 3 {
		n = max(n, cells3+k-3)
	}
	return n
}

// read copies the slot of pos. It fails if another position is there, or came while it
// copied. Then found is the other one (0: the slot is being rewritten, or was never used),
// and torn reports whether pos was there first.
//
// The copy is the slot at some moment during the call: cells below nev never change within a
// position, so later events are only missing. There is one exception: a single store may
// turn an arrival into that of a copy that was not wanted.
func (r *Ring) read(pos uint64, s *slot) (found uint64, torn, ok bool) {
	w := r.words[r.Index(pos)*r.slotWords:][:r.slotWords]
	if found = atomic.LoadUint64(&w[0]); found != pos || pos == 0 {
		return found, false, false
	}
	s.w[0], s.cells = pos, r.cells
	for i := 1; i < lineWords; i++ {
		s.w[i] = atomic.LoadUint64(&w[i])
	}
	for i, n := lineWords, s.used(); i < n; i++ {
		s.w[i] = atomic.LoadUint64(&w[i])
	}
	if found = atomic.LoadUint64(&w[0]); found != pos {
		return found, true, false
	}
	return pos, false, true
}
