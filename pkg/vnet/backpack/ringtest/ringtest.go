// SPDX-License-Identifier: Apache-2.0

// Package ringtest writes slot rings as the programs do, for tests of what reads
// them. It has the layout of bpf/backpack/abi.h in numbers of its own, so that a test
// that reads what it wrote also tests the layout; and it shares no code with the
// readers.
//
// Every store is atomic and in the programs' order: a ring may be read while it is
// written, one goroutine per CPU.
package ringtest

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/vnetradar/radar/pkg/vnet/backpack"
)

// Bytes of fields in a slot.
const (
	offPos      = 0
	offT0       = 8
	offNev      = 16
	offState    = 17
	offProto    = 18
	offCut      = 19
	offID       = 28
	offTTL      = 30
	offTOS      = 31
	offSeg      = 32
	offSegs     = 33
	offLen      = 34
	offEv0      = 40
	offSaddr    = 64
	offDaddr    = 68
	offSport    = 72
	offDport    = 74
	offFirstID  = 76
	offFirstTTL = 78
	offFirstTOS = 79
	offTrainLen = 88
	offGSOSize  = 100
	offTag2     = 24
	offFragOff  = 92
	offICMP     = 94
	offFlags    = 102
	offHdr      = 103
	offTCP      = 104
	offEv1      = 112
)

// Kinds of events.
const (
	Ingress = 1
	Egress  = 2
	Deliver = 3
	Left    = 4
	Loss    = 5
	Addr    = 6
	Addr6   = 7
	Dequeue = 8
	Inner   = 9
	Ignored = 10

	// Unread is a flag of Ignored.
	Unread = 8
)

// Flags of events.
const (
	First  = 1
	Part   = 2
	Source = 4
)

// Bits of a slot's state.
const (
	Done      = 1
	Lost      = 2
	Full      = 8
	HasLeft   = 8 // of the cut mark
	LocalDrop = 16
	Held      = 32
	IPv6      = 64
	Group     = 128
)

// Cut is the head's mark of a train in pieces, Own a segment's that ID, TTL and TOS
// in its slot are its own.
const (
	Cut = 1
	Own = 2
)

// NoPort stands for a device that is no port.
const NoPort = 0xffff

// Image is a ring in memory. It implements backpack.Source.
type Image struct {
	Mem       []byte
	MinAgeNs  uint64 // before a finished slot is reused
	TimeoutNs uint64 // before one in flight is
	Block     uint64 // positions that a CPU takes at once
	// Unfilled: the source of a TCP train writes the head's slot alone. Else it writes all, as for
	// trains that have keys.
	Unfilled bool

	unfilled  []bool // what a train has left so, as a member
	words     []uint64
	slots     uint64
	slotWords uint64
	cells     int
	ring      *backpack.Ring

	mu     sync.Mutex // the programs' spin lock
	start  uint64
	next   uint64
	cursor atomic.Uint64
	cpus   []alloc
}

// alloc is what one CPU holds.
type alloc struct {
	next, end atomic.Uint64
}

// New makes an empty ring.
func New(slots uint32, slotBytes, cpus int, block uint64) *Image {
	words := make([]uint64, uint64(slots)*uint64(slotBytes)/8)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)
	ring, err := backpack.NewRing(mem, slots, slotBytes)
	if err != nil {
		panic(fmt.Sprintf("ringtest: %v", err)) // a mistake in the test
	}
	r := &Image{
		Mem: mem, MinAgeNs: 10e6, TimeoutNs: 10e9, Block: block,
		words: words, slots: uint64(slots), slotWords: uint64(slotBytes / 8),
		cells:    5 + 8*(slotBytes/64-2),
		unfilled: make([]bool, slots),
		ring:     ring, start: block, next: block, cpus: make([]alloc, cpus),
	}
	r.cursor.Store(r.next)
	return r
}

// Ring implements backpack.Source.
func (r *Image) Ring() *backpack.Ring { return r.ring }

// Start implements backpack.Source.
func (r *Image) Start() uint64 { return r.start }

// Cursor implements backpack.Source.
func (r *Image) Cursor() uint64 { return r.cursor.Load() }

// Held implements backpack.Source; next is read before end, as a map lookup does.
func (r *Image) Held(dst []backpack.Range) ([]backpack.Range, error) {
	for i := range r.cpus {
		from := r.cpus[i].next.Load()
		if to := r.cpus[i].end.Load(); from < to {
			dst = append(dst, backpack.Range{From: from, To: to})
		}
	}
	return dst, nil
}

func (r *Image) word(pos uint64, off int) *uint64 {
	return &r.words[(pos&(r.slots-1))*r.slotWords+uint64(off/8)]
}

// Put writes the bytes b at offset off of the slot of pos; not across words.
func (r *Image) Put(pos uint64, off int, b ...byte) {
	w := r.word(pos, off)
	var buf [8]byte
	binary.LittleEndian.PutUint64(buf[:], atomic.LoadUint64(w))
	copy(buf[off%8:off%8+len(b)], b)
	atomic.StoreUint64(w, binary.LittleEndian.Uint64(buf[:]))
}

// Byte reads one byte of the slot of pos.
func (r *Image) Byte(pos uint64, off int) byte {
	return byte(atomic.LoadUint64(r.word(pos, off)) >> (off % 8 * 8))
}

// Pos returns the position in the slot of pos.
func (r *Image) Pos(pos uint64) uint64 { return atomic.LoadUint64(r.word(pos, offPos)) }

// SetPos writes the position of a slot: 0 while it is rewritten.
func (r *Image) SetPos(pos, value uint64) { atomic.StoreUint64(r.word(pos, offPos), value) }

// Has reports whether the slot of pos is its own: no later packet has taken it.
func (r *Image) Has(pos uint64) bool { return r.Pos(pos) == pos && !r.unfilled[pos&(r.slots-1)] }

// SetState replaces the state of the slot of pos.
func (r *Image) SetState(pos uint64, state byte) { r.Put(pos, offState, state) }

// State returns the state of the slot of pos.
func (r *Image) State(pos uint64) byte { return r.Byte(pos, offState) }

// SetCut replaces the cut mark of the slot of pos. If a train is cut, its members' slots are filled
// first.
func (r *Image) SetCut(pos uint64, cut byte) {
	if cut&Cut != 0 {
		r.Fill(pos)
	}
	r.Put(pos, offCut, cut)
}

// Fill fills the slots of the members of the train at pos, if its source has not.
func (r *Image) Fill(pos uint64) {
	word := func(off int) uint64 { return atomic.LoadUint64(r.word(pos, off)) }
	for k, segs := byte(1), r.Byte(pos, offSegs); k < segs; k++ {
		at := pos + uint64(k)
		if r.Pos(at) >= at {
			continue
		}
		r.unfilled[at&(r.slots-1)] = false
		r.SetPos(at, 0)
		atomic.StoreUint64(r.word(at, offT0), word(offT0))
		tag := uint32(word(offNev)>>32) + uint32(k)*uint32(word(offGSOSize)>>(offGSOSize%8*8)&0xffff)
		state := r.State(pos) & (IPv6 | Group)
		r.Put(at, offNev, 0, state, r.Byte(pos, offProto), 0, byte(tag), byte(tag>>8), byte(tag>>16), byte(tag>>24))
		atomic.StoreUint64(r.word(at, offTag2), word(offTag2))
		atomic.StoreUint64(r.word(at, offSeg), word(offSeg)&^0xff|uint64(k))
		if total := uint32(word(offTrainLen)); k == segs-1 {
			last := total - uint32(k)*uint32(word(offLen)>>(offLen%8*8)&0xffff)
			r.Put(at, offLen, byte(last), byte(last>>8))
		}
		r.SetPos(at, at)
	}
}

// Packet is what a source sees of a packet.
type Packet struct {
	Proto          byte
	Src, Dst       [4]byte
	Sport, Dport   uint16
	ID             uint16
	TTL, TOS       byte
	Frag           uint16 // flags and offset
	ICMPType, Code byte
	Flags          byte
	Hdr            byte    // bytes of IP and TCP header
	TCP            [8]byte // bytes 8 to 15 of a TCP header
	Len            uint16  // IP bytes of each segment
	Segs           byte    // 0 and 1: alone
	V6             *V6     // of an IPv6 packet, instead of Src, Dst and ID
}

// V6 is what a source sees of an IPv6 packet and not of an IPv4 one.
type V6 struct {
	Src, Dst [16]byte
	Label    uint32 // flow label
	FragID   uint32 // Identification of the fragment header
}

// Write fills the slots of a packet that takes position pos and those behind it,
// without events.
func (r *Image) Write(pos uint64, p Packet, now uint64) {
	segs := max(p.Segs, 1)
	for k := byte(0); k < segs; k++ {
		at := pos + uint64(k)
		if r.unfilled[at&(r.slots-1)] = r.Unfilled && p.Proto == 6 && k > 0; r.unfilled[at&(r.slots-1)] {
			continue
		}
		r.SetPos(at, 0)
		atomic.StoreUint64(r.word(at, offT0), now)
		state := byte(0)
		if p.V6 != nil {
			state = IPv6
			p.ID = uint16(p.V6.Label)
		}
		r.Put(at, offNev, 0, state, p.Proto, 0)
		r.Put(at, offID, byte(p.ID>>8), byte(p.ID), p.TTL, p.TOS)
		r.Put(at, offSeg, k, segs, byte(p.Len), byte(p.Len>>8))
		if k == 0 {
			r.writeHead(at, p, uint32(segs)*uint32(p.Len))
		}
		r.SetPos(at, at)
	}
}

func (r *Image) writeHead(at uint64, p Packet, trainLen uint32) {
	if p.V6 != nil {
		var words [8]byte
		binary.BigEndian.PutUint32(words[0:], 6<<28|uint32(p.TOS)<<20|p.V6.Label)
		binary.BigEndian.PutUint32(words[4:], p.V6.FragID)
		r.Put(at, offSaddr, words[:]...)
		for i := range 2 {
			r.cell(at, r.cells-4+i, binary.LittleEndian.Uint64(p.V6.Src[8*i:]))
			r.cell(at, r.cells-2+i, binary.LittleEndian.Uint64(p.V6.Dst[8*i:]))
		}
	} else {
		r.Put(at, offSaddr, p.Src[:]...)
		r.Put(at, offDaddr, p.Dst[:]...)
	}
	r.Put(at, offSport, byte(p.Sport>>8), byte(p.Sport))
	r.Put(at, offDport, byte(p.Dport>>8), byte(p.Dport))
	r.Put(at, offFirstID, byte(p.ID>>8), byte(p.ID))
	r.Put(at, offFirstTTL, p.TTL)
	r.Put(at, offFirstTOS, p.TOS)
	r.Put(at, offTrainLen, byte(trainLen), byte(trainLen>>8), byte(trainLen>>16), byte(trainLen>>24))
	r.Put(at, offFragOff, byte(p.Frag>>8), byte(p.Frag))
	r.Put(at, offICMP, p.ICMPType, p.Code)
	r.Put(at, offFlags, byte(p.Flags), p.Hdr)
	r.Put(at, offTCP, p.TCP[:]...)
}

// Log appends an event of some cells to the slot of pos, as add_event() does. The last cells are
// for a packet's end (RDR_END_CELLS).
func (r *Image) Log(pos uint64, kind, flags byte, port uint16, now uint64, data ...uint64) {
	k, room := int(r.Byte(pos, offNev)), r.cells
	if r.State(pos)&IPv6 != 0 {
		room -= 4
	}
	t0 := atomic.LoadUint64(r.word(pos, offT0))
	cell := uint64(kind)<<60 | uint64(flags)<<56 | uint64(port)<<40 | (now-t0)&0xffffffffff
	kept := 4
	switch kind {
	case Deliver, Left:
		kept = 3
	case Loss:
		kept = 0
	case Addr6:
		kept = 1
	}
	if k+1+len(data)+kept > room {
		r.logFull(pos, kind, k, room, cell)
		return
	}
	r.cell(pos, k, cell)
	for i, d := range data {
		r.cell(pos, k+1+i, d)
	}
	r.Put(pos, offNev, byte(k+1+len(data)))
}

// logFull is add_to_full().
func (r *Image) logFull(pos uint64, kind byte, k, room int, cell uint64) {
	full := func() { r.SetState(pos, r.State(pos)|Full) }
	if kind != Deliver && kind != Left {
		full()
		return
	}
	if k > 0 {
		last := atomic.LoadUint64(r.word(pos, cellOff(k-1)))
		if was := byte(last >> 60); was == Deliver || was == Left {
			full()
			if was != kind || uint16(last>>40) != uint16(cell>>40) {
				r.cell(pos, k-1, cell)
			}
			return
		}
	}
	switch cut := r.Byte(pos, offCut); {
	case k < room:
		r.cell(pos, k, cell)
		r.Put(pos, offNev, byte(k+1))
	case kind == Left:
		full()
		r.SetCut(pos, cut|HasLeft)
	default:
		full()
		r.SetCut(pos, cut&^HasLeft)
	}
}

func (r *Image) cell(pos uint64, k int, v uint64) { atomic.StoreUint64(r.word(pos, cellOff(k)), v) }

func cellOff(k int) int {
	if k > 2 {
		return offEv1 + 8*(k-3)
	}
	return offEv0 + 8*k
}

// See logs a sighting and what it makes of the state.
func (r *Image) See(pos uint64, kind, flags byte, port uint16, now uint64) {
	if r.State(pos)&Group != 0 {
		r.Log(pos, kind, flags, port, now)
		return
	}
	state := r.State(pos) &^ (Done | Lost | Held)
	if kind == Deliver || kind == Left {
		state |= Done
	}
	r.SetState(pos, state)
	r.Log(pos, kind, flags, port, now)
}

// Drop logs a kfree_skb: a loss, or a drop after delivery.
func (r *Image) Drop(pos uint64, flags byte, port, reason uint16, addr uint64, qdisc string, held bool, now uint64) {
	state := r.State(pos)
	switch {
	case state&Group != 0:
	case state&Lost != 0, state&LocalDrop != 0:
		return
	case state&Done != 0:
		state |= LocalDrop
	default:
		state |= Done | Lost
		if held {
			state |= Held
		}
	}
	r.SetState(pos, state)
	var name [8]byte
	copy(name[:], qdisc)
	r.Log(pos, Loss, flags, port, now,
		uint64(reason)<<48|addr&(1<<48-1), binary.LittleEndian.Uint64(name[:]))
}

// Translate logs new addresses; the next egress event belongs to it.
func (r *Image) Translate(pos uint64, flags byte, port uint16, src, dst [4]byte, sport, dport uint16, now uint64) {
	var tuple [16]byte
	copy(tuple[0:], src[:])
	copy(tuple[4:], dst[:])
	binary.BigEndian.PutUint16(tuple[8:], sport)
	binary.BigEndian.PutUint16(tuple[10:], dport)
	r.Log(pos, Addr, flags, port, now,
		binary.LittleEndian.Uint64(tuple[0:]), binary.LittleEndian.Uint64(tuple[8:]))
}

// Translate6 is Translate of an IPv6 packet.
func (r *Image) Translate6(pos uint64, flags byte, port uint16, src, dst [16]byte, sport, dport uint16, now uint64) {
	var tuple [40]byte
	copy(tuple[0:], src[:])
	copy(tuple[16:], dst[:])
	binary.BigEndian.PutUint16(tuple[32:], sport)
	binary.BigEndian.PutUint16(tuple[34:], dport)
	var data [5]uint64
	for i := range data {
		data[i] = binary.LittleEndian.Uint64(tuple[8*i:])
	}
	r.Log(pos, Addr6, flags, port, now, data[:]...)
}
