// SPDX-License-Identifier: Apache-2.0

package program

import (
	"testing"
	"unsafe"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// wireBits are the header bits that carry an index: IP ID, DSCP, TTL.
type wireBits struct {
	id        uint16
	dscp, ttl uint8
}

const noIndex = ^uint32(0)

// encode and decode do with the tables what bpf/backpack/guid.h does.
func (l *Layout) encode(index uint32, dscp uint8) wireBits {
	mask := uint8(1<<l.DSCPBits - 1)
	return wireBits{
		id:   uint16(index),
		dscp: dscp&^mask | uint8(index>>16)&mask,
		ttl:  l.BandTop[index>>(16+l.DSCPBits)&0xff],
	}
}

func (l *Layout) decode(b wireBits) (index uint32, decrements uint8) {
	band := uint32(l.TTLBand[b.ttl])
	if band == 0 {
		return noIndex, 0
	}
	band--
	index = uint32(b.id) | uint32(b.dscp)&(1<<l.DSCPBits-1)<<16 | band<<(16+l.DSCPBits)
	if index >= l.Slots {
		return noIndex, 0
	}
	return index, l.BandTop[band] - b.ttl
}

var layouts = []struct {
	slots uint32
	bits  string
	bands uint32
	dscp  uint32
	width uint32
}{
	{1 << 12, "auto", 16, 0, 8},
	{1 << 12, "12", 1, 0, 8},
	{1 << 16, "16", 1, 0, 8},
	{1 << 17, "17", 2, 0, 8},
	{1 << 12, "18", 4, 0, 8},
	{1 << 19, "19", 8, 0, 8},
	{1 << 20, "auto", 16, 0, 8},
	{1 << 20, "21", 16, 1, 8},
	{1 << 21, "auto", 16, 1, 8},
	{1 << 22, "auto", 16, 2, 8},
	{1 << 20, "22", 16, 2, 8},
	{1 << 12, "paper", 1, 2, 1},
	{1 << 20, "paper", 4, 2, 1},
	{1 << 24, "paper", 64, 2, 1},
}

// Every index has bits of its own that lead back to it, whatever is in the bits
// that are not ours and however often the TTL was lowered within its band; all
// other bits lead nowhere.
func TestLayoutIsBijection(t *testing.T) {
	for _, c := range layouts {
		o := with(func(o *Options) { o.Slots, o.GUIDBits = c.slots, c.bits })
		l, err := o.Layout()
		if err != nil {
			t.Errorf("%d slots, %s bits: %v", c.slots, c.bits, err)
			continue
		}
		if l.Bands != c.bands || l.DSCPBits != c.dscp || l.TTLWidth != c.width {
			t.Errorf("%d slots, %s bits: %d bands of %d, %d DSCP bits", c.slots, c.bits, l.Bands, l.TTLWidth, l.DSCPBits)
		}
		if (l.DSCPBits > 0) != (len(l.Warnings) > 0) {
			t.Errorf("%d slots, %s bits: warnings %q", c.slots, c.bits, l.Warnings)
		}
		checkForward(t, l)
		checkBackward(t, l)
	}
}

func checkForward(t *testing.T, l *Layout) {
	t.Helper()
	for index := range l.Slots {
		dscp := uint8(index*7) & 0x3f // some DSCP of the packet's own
		b := l.encode(index, dscp)
		if b.dscp>>l.DSCPBits != dscp>>l.DSCPBits {
			t.Fatalf("index %#x changes more of the DSCP than is ours: %#x to %#x", index, dscp, b.dscp)
		}
		for lowered := range uint8(l.TTLWidth) {
			seen := b
			seen.ttl -= lowered
			if got, dec := l.decode(seen); got != index || dec != lowered {
				t.Fatalf("index %#x as %+v, lowered %d times, is %#x lowered %d times", index, b, lowered, got, dec)
			}
		}
	}
}

// checkBackward counts the bits that mean some index: as many as there are
// indices, TTLs in a band, and values of the DSCP bits that are not ours.
func checkBackward(t *testing.T, l *Layout) {
	t.Helper()
	n := uint64(0)
	for ttl := range 256 {
		if l.TTLBand[ttl] == 0 {
			continue
		}
		for dscp := range uint8(1 << l.DSCPBits) {
			for id := range 1 << 16 {
				if index, _ := l.decode(wireBits{uint16(id), dscp, uint8(ttl)}); index != noIndex {
					n++
				}
			}
		}
	}
	if want := uint64(l.Slots) * uint64(l.TTLWidth); n != want {
		t.Errorf("%d slots: %d bit patterns mean an index, want %d", l.Slots, n, want)
	}
}

// The bands of the design: where TTLs of real packets are rare.
func TestBands(t *testing.T) {
	l, err := DefaultOptions().Layout()
	if err != nil {
		t.Fatal(err)
	}
	for ttl := range 256 {
		want := ttl >= 65 && ttl <= 96 || ttl >= 129 && ttl <= 224
		if (l.TTLBand[ttl] != 0) != want {
			t.Errorf("TTL %d is in band %d", ttl, l.TTLBand[ttl])
		}
	}
	tops := []uint8{72, 80, 88, 96, 136, 144, 152, 160, 168, 176, 184, 192, 200, 208, 216, 224}
	for band, top := range tops {
		if l.BandTop[band] != top {
			t.Errorf("band %d is written as TTL %d, want %d", band, l.BandTop[band], top)
		}
	}
}

// The header that the layout counts with is the struct of the ABI.
func TestSlotHeader(t *testing.T) {
	var s bpfobj.TcRdrSlot
	if got := unsafe.Sizeof(s); got != minLines*lineBytes {
		t.Errorf("struct rdr_slot has %d bytes", got)
	}
	if got := len(s.Ev0) + len(s.Ev1); got != firstCells {
		t.Errorf("struct rdr_slot has %d cells", got)
	}
}

// Slots grow in whole lines, as far as they can.
func TestGrowFor(t *testing.T) {
	for hops, want := range map[int]uint32{11: 320, 16: 384, 24: 512, 60: 512} {
		l := &Layout{}
		if l.GrowFor(hops, false); l.SlotBytes != want {
			t.Errorf("%d hops: slots of %d bytes, want %d", hops, l.SlotBytes, want)
		}
		if room := HopsIn(l.SlotBytes); l.SlotBytes < 512 && room < hops {
			t.Errorf("%d hops: a slot of %d bytes has room for %d", hops, l.SlotBytes, room)
		}
		// What is loaded later makes the same of it.
		again := &Layout{}
		if err := again.setHops(HopsIn(l.SlotBytes), true); err != nil || again.SlotBytes != l.SlotBytes {
			t.Errorf("slots of %d bytes become %d (%v)", l.SlotBytes, again.SlotBytes, err)
		}
	}
}
