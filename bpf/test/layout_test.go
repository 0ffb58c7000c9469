// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"testing"
)

// layouts are the shapes of the GUID, with rings that reach into all of their bits.
var layouts = []struct {
	guid  string
	slots uint32
	carry string
}{
	{"auto", 1 << 20, "mark"},
	{"auto", 1 << 18, "header"},
	{"12", 1 << 12, "mark"},
	{"17", 1 << 17, "mark"},
	{"22", 1 << 19, "mark"},
	{"22", 1 << 19, "header"},
	{"paper", 1 << 12, "mark"},
	{"paper", 1 << 19, "mark"},
	{"paper", 1 << 19, "header"},
}

// TestLayouts: every layout carries indices of every band and DSCP value there and
// back, and restores DSCP, ECN, ID and TTL whatever they were.
func TestLayouts(t *testing.T) {
	for _, c := range layouts {
		t.Run(fmt.Sprintf("%s/%d/%s", c.guid, c.slots, c.carry), func(t *testing.T) {
			d := newDomain(t, config{guid: c.guid, slots: c.slots, carry: c.carry, slotBytes: 192})
			var step uint32 = 1 << 16
			for first := uint32(0); first < c.slots; first += step {
				for _, index := range []uint32{first, first + min(step, c.slots) - 64} {
					d.startAt(uint64(c.slots) + uint64(index))
					for i, tos := range []byte{0x00, 0x0c, 0x04, 0xb9, 0xff} {
						testLayout(d, index+uint32(i), tos)
					}
				}
			}
		})
	}
}

func testLayout(d *domain, index uint32, tos byte) {
	hidden := int(d.layout.TTLWidth) - 1
	orig := packet(d, "tcp-data")
	setBits(d, orig, 0xabcd, 64, tos)
	w := d.send(frame{data: orig})
	if got := d.guid(w.data); got != index {
		d.Fatalf("slot %#x, want %#x", got, index)
	}
	d.wantMarked(w.data, orig)
	if ecn := header(d, w.data)[1] & 3; ecn != tos&3 {
		d.Errorf("ECN %d became %d", tos&3, ecn)
	}
	inside, w2 := d.transit(w, hidden)
	if d.layout.MarkMask != 0 {
		same(d, "inside r1", inside.data, lowered(d, orig, hidden))
	}
	d.wantMarked(w2.data, lowered(d, orig, hidden+1))
	same(d, "at h2", d.deliver(w2, hidden).data, lowered(d, orig, 2*hidden+1))
	d.wantStory(index, "out@0/FS in@1/F out@2/F deliver@3/F")
}

// TestLayoutDSCPOnTheWay: of the DSCP bits in use the true ones come back, of the
// others whatever the path made of them.
func TestLayoutDSCPOnTheWay(t *testing.T) {
	d := newDomain(t, config{guid: "22", slots: 1 << 18, slotBytes: 128})
	d.startAt(1<<18 + 3<<16) // both bits set
	orig := packet(t, "tcp-data")
	setBits(t, orig, 1, 64, 0x04)
	w := d.link(d.send(frame{data: orig}), 0)
	ip := header(t, w.data)
	setBits(t, w.data, ip.id(), ip[8], ip[1]^0x80|0x03)
	want := packet(t, "tcp-data")
	setBits(t, want, 1, 64, 0x84|0x03)
	same(t, "at h2", d.deliver(w, 0).data, want)
}

// TestPaperNearlyDead: the paper's layout overwrites the whole TTL. A packet that
// the next router must end keeps its own (never marked: TTL <= 1).
func TestPaperNearlyDead(t *testing.T) {
	d := newDomain(t, config{guid: "paper"})
	orig := packet(t, "ttl-1")
	same(t, "on the wire", d.send(frame{data: orig}).data, orig)
	d.counted(tally{cSeen: 1, cMarked: 1})
}

// TestPaperHidden: in the paper's layout, a packet that passed a hidden router is found by its
// content only.
func TestPaperHidden(t *testing.T) {
	d := newDomain(t, config{guid: "paper", slots: 1 << 19, slotBytes: 128})
	for _, hidden := range []int{1, 7} {
		orig := packet(t, "udp-64")
		w := d.link(d.send(frame{data: orig}), hidden)
		same(t, "at h2", d.deliver(w, 0).data, lowered(t, orig, hidden))
		d.counted(tally{cSeen: 1, cMarked: 1, cTTLSet: 1})
	}
}

// TestLayoutTables: the loader's tables say what config.h promises: bands do not
// overlap, and a packet in one has TTL left after all decrements that are seen.
func TestLayoutTables(t *testing.T) {
	for _, c := range layouts {
		l := config{guid: c.guid, slots: c.slots, carry: c.carry}.layout(t)
		taken := make(map[int]uint32)
		for b := range l.Bands {
			for i := range l.TTLWidth {
				ttl := int(l.BandTop[b]) - int(i)
				if other, twice := taken[ttl]; twice || ttl < 1 || l.TTLBand[ttl] != uint8(b+1) {
					t.Errorf("%s: TTL %d lies in bands %d and %d, table says %d", c.guid, ttl, other, b, l.TTLBand[ttl]-1)
				}
				taken[ttl] = b
			}
		}
		for ttl, b := range l.TTLBand {
			if _, in := taken[ttl]; in != (b != 0) {
				t.Errorf("%s: TTL %d: table says band %d", c.guid, ttl, int(b)-1)
			}
		}
		if most := l.Bands << (16 + l.DSCPBits); most < c.slots {
			t.Errorf("%s: %d indices for %d slots", c.guid, most, c.slots)
		}
	}
}
