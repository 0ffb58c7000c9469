// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// unfilledBench is a ring full of lone packets, one a second, and then a train of four segments
// whose members still have what was there before.
func unfilledBench(t *testing.T) *bench {
	b := newFindBench(t, udp)
	b.Unfilled = true
	pos, ok := b.Send(0, train, rt.Egress, h1e0, b.t0)
	if !ok {
		t.Fatal("no slot")
	}
	b.pos = pos
	if b.Pos(pos+1) != pos+1-64 {
		t.Fatalf("the slot of segment 1 has position %d", b.Pos(pos+1))
	}
	return b
}

// An unfilled member is no record, and what its slot has left is not the oldest packet.
func TestUnfilledScan(t *testing.T) {
	b := unfilledBench(t)
	recs := b.all()
	if last := recs[len(recs)-1]; len(recs) != 64-3 || last.Segs != 4 || last.State != "in_flight" {
		t.Errorf("%d records, the last %+v: want 60 packets and the train", len(recs), last)
	}
	seen := make(map[string]bool)
	for _, r := range recs {
		seen[r.ID] = true
	}
	for k := range uint64(4) {
		if id := fmt.Sprintf("%08x-%x", testEpoch, b.pos+k-64); seen[id] {
			t.Errorf("%s is a record: its slot is the train's", id)
		}
	}
	e := backpack.Remembered(b, backpack.NewDecoder(testDomain(64), names{}))
	first := recs[0].TNs
	if e.Packets != 64 || e.Oldest.UnixNano() != first {
		t.Errorf("%d packets are remembered, the oldest of %d; want 64, %d", e.Packets, e.Oldest.UnixNano(), first)
	}
}

// A position of an unfilled member has the story of its train; of a cut one that of its own.
func TestUnfilledFind(t *testing.T) {
	b := unfilledBench(t)
	for k := range uint64(4) {
		found, err := b.find(b.pos + k)
		if err != nil || found.Record.ID != fmt.Sprintf("%08x-%x", testEpoch, b.pos) || k > 0 && found.Segment != int(k)+1 {
			t.Errorf("segment %d: %+v, %v: want the train", k, found, err)
		}
	}
	if found, err := b.find(b.pos + 4); !errors.Is(err, backpack.ErrNoPacket) {
		t.Errorf("behind the train: %+v, %v", found, err)
	}
	b.SetCut(b.pos, rt.Cut)
	found, err := b.find(b.pos + 2)
	if err != nil || found.Segment != 0 || found.Record.ID != fmt.Sprintf("%08x-%x", testEpoch, b.pos+2) {
		t.Errorf("%+v, %v: want the segment alone", found, err)
	}
}

// A segment of a whole train is quoted: its number is that of a slot that was not filled.
func TestUnfilledQuoted(t *testing.T) {
	const offTags, offGSOSize = 20, 100
	b := unfilledBench(t)
	b.Put(b.pos, offTags, 100, 0, 0, 0)
	b.Put(b.pos, offTags+4, 'a', 'c', 'k', '!')
	b.Put(b.pos, offGSOSize, 0xb4, 5) // 1460
	dec := backpack.NewDecoder(testDomain(64), names{})
	l4 := make([]byte, 20)
	binary.BigEndian.PutUint32(l4[4:], 100+2*1460)
	copy(l4[8:], "ack!")
	q := backpack.Quoted{
		Index: (b.pos + 2) & 63, Proto: unix.IPPROTO_TCP, Len: 1500, At: b.t0 + 5000, L4: l4,
		Tuple: packet.Tuple{Src: packet.AddrFrom4(train.Src), Dst: packet.AddrFrom4(train.Dst), SrcPort: 4000, DstPort: 53},
	}
	for _, filled := range []bool{false, true} {
		if pos, why := backpack.FindQuoted(b, dec, &q, b.t0+6000); pos != b.pos+2 || why != backpack.Matches {
			t.Errorf("filled %v: position %d, %d; want %d", filled, pos, why, b.pos+2)
		}
		other := q
		other.Index++
		if pos, why := backpack.FindQuoted(b, dec, &other, b.t0+6000); why != backpack.Foreign {
			t.Errorf("filled %v: with the number of the next one: position %d, %d", filled, pos, why)
		}
		b.Fill(b.pos)
	}
}

// The head of an older train lies among the members of a later one, and is seen as neither head nor
// record of these slots.
func TestUnfilledOverHeads(t *testing.T) {
	b := newBench(t, 128, udp)
	b.Unfilled = true
	write := func(pos uint64, segs byte, at uint64) {
		p := train
		p.Segs = segs
		b.Write(pos, p, at)
		b.See(pos, rt.Egress, rt.First|rt.Source, h1e0, at)
	}
	b.Write(b.pos, udp, b.t0)
	write(4*64+8, 8, b.t0+1000) // [8, 16)
	write(5*64+4, 6, b.t0+2000) // [4, 10)
	var got []string
	for _, r := range b.all() {
		got = append(got, fmt.Sprintf("%s %d", r.ID[9:], r.Segs))
	}
	if want := []string{"144 6"}; !cmp.Equal(got, want) {
		t.Errorf("records %q, want %q", got, want)
	}
}

// Nothing is forgotten if trains are lapped that nobody has read: each of their segments counts.
func TestUnfilledLapped(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		m := rt.New(64, 128, 2, 16)
		m.MinAgeNs, m.Unfilled = 0, true
		now, used, handed := uint64(1_000_000), 0, 0
		opts := backpack.FollowOptions{Settle: 1, Now: func() uint64 { return now }}
		f := backpack.NewFollower(m, backpack.NewDecoder(testDomain(64), nil), opts)
		f.FromStart()
		poll := func() {
			now += 1000
			if err := f.Poll(func(p *packet.Packet) { handed += p.Segs }); err != nil {
				t.Fatal(err)
			}
		}
		for range 1 + seed%60 {
			if r.IntN(3) == 0 {
				poll()
				continue
			}
			cpu := r.IntN(2)
			for range r.IntN([]int{4, 10, 60}[r.IntN(3)]) {
				now += 1000
				p := train
				p.Segs = byte(1 + r.IntN(12))
				if pos, ok := m.Send(cpu, p, rt.Deliver, 1, now); ok {
					used += int(p.Segs)
					if r.IntN(4) == 0 {
						m.SetCut(pos, rt.Cut)
						for k := range uint64(p.Segs) {
							m.See(pos+k, rt.Deliver, rt.First|rt.Part, 1, now)
						}
					}
				}
			}
		}
		poll()
		poll() // all has settled
		s := f.Stats()
		missed := int(s.InFlight + s.Unread + s.Torn)
		if handed > used || handed+missed < used {
			t.Fatalf("seed %d: %d packets, %d handed out, %+v", seed, used, handed, s)
		}
	}
}
