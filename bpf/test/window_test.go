// SPDX-License-Identifier: Apache-2.0

package test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// TestNotes: slots among which a source has found none but packets in flight are left alone until
// these have been under way half as long again, for one turn of the ring and no longer.
func TestNotes(t *testing.T) {
	d := newDomain(t, config{slots: 64, block: 16})
	sent := 0
	send := func() (index uint32, ok bool) {
		sent++
		index, _, ok = d.decodeGUID(header(t, d.send(frame{data: unique(t, sent)}).data))
		return index, ok
	}
	var out []frame
	for i := range 64 {
		out = append(out, d.send(frame{data: unique(t, 1000+i)}))
		d.age(uint32(i), time.Duration(10000+i)*time.Millisecond)
	}
	if index, ok := send(); ok {
		t.Fatalf("all slots are in flight, and a packet has got %d", index)
	}
	for _, i := range []int{3, 20} { // in two windows
		d.deliver(out[i], 0)
	}
	if index, ok := send(); ok {
		t.Errorf("slot %d is not worth looking at for 5 s, and a packet has got it", index)
	}
	note := func(window uint32) (v uint64) {
		if err := d.Maps[bpfobj.TcMapBusy].Lookup(window, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	const window = uint32(20 / program.SlotsPerNote)
	d.put(bpfobj.TcMapBusy, window, note(window)-10000) // some ten seconds earlier
	if index, ok := send(); !ok || index != 20 {
		t.Errorf("slot %d (%v), want 20: its note is out of date", index, ok)
	}
	d.put(bpfobj.TcMapBusy, uint32(0), note(0)-1<<32) // of another turn
	if index, ok := send(); !ok || index != 3 {
		t.Errorf("slot %d (%v), want 3: its note is of another turn", index, ok)
	}
}

// TestNotesComeRound: a note's time has 32 bits of milliseconds. One that is further ahead than a
// packet may be under way is of the past.
func TestNotesComeRound(t *testing.T) {
	d := newDomain(t, config{slots: 64, block: 16})
	const days = 24 * 3600 * 1000
	now := uint64(clock.Monotonic() >> 20)
	for _, note := range []uint64{0, (now + 20*days) & math.MaxUint32, (now + 1<<31) & math.MaxUint32, (now - 1<<31 + 1000) & math.MaxUint32} {
		for window := range uint32(4) {
			d.put(bpfobj.TcMapBusy, window, note) // of turn 0; this is turn 1
		}
		if _, _, ok := d.decodeGUID(header(t, d.send(frame{data: unique(t, int(note))}).data)); !ok {
			t.Errorf("note %#x: no slot, and all are free", note)
		}
		d.startAt(64)
	}
}

// TestMixedRing: packets alone and trains take slots, arrive, are lost and stay, in any order, and no
// two that are in flight share a slot.
func TestMixedRing(t *testing.T) {
	d := newDomain(t, config{slots: 256, block: 64})
	random := rand.New(rand.NewPCG(1, 2))
	type sent struct {
		frame
		index, n uint32
	}
	var flying []sent
	holder := make(map[uint32]int)
	for i := range 6000 {
		p := sent{frame: frame{data: unique(t, i)}, n: 1}
		if random.IntN(6) == 0 {
			tr := loadTrain(t, "train-tcp")
			p = sent{tr.whole, 0, uint32(len(tr.segments))}
			binary.BigEndian.PutUint32(p.data[etherHeader+20+4:], uint32(i)<<14)
		}
		p.frame = d.send(p.frame)
		var ok bool
		if p.index, _, ok = d.decodeGUID(header(t, p.data)); ok {
			for k := p.index; k < p.index+p.n; k++ {
				if other, taken := holder[k]; taken {
					t.Fatalf("packets %d and %d, both in flight, have slot %d", other, i, k)
				}
				holder[k] = i
			}
			flying = append(flying, p)
		}
		for len(flying) > 0 && random.IntN(256) < len(holder) {
			at := random.IntN(len(flying))
			p := flying[at]
			flying = slices.Delete(flying, at, at+1)
			d.deliver(p.frame, 0)
			if s := d.slot(p.index); random.IntN(8) == 0 { // a drop behind the arrival
				s.State |= uint8(stLost)
				d.write(s)
			}
			for k := p.index; k < p.index+p.n; k++ {
				delete(holder, k)
			}
		}
		if random.IntN(50) == 0 && len(flying) > 0 {
			d.age(flying[random.IntN(len(flying))].index, 3*time.Second) // a note is due later
		}
	}
}

// TestWindow: free slots between packets in flight are taken one after the other.
func TestWindow(t *testing.T) {
	d := newDomain(t, config{slots: 64, block: 16})
	var out []frame
	for i := range 64 {
		out = append(out, d.send(frame{data: unique(t, i)}))
	}
	var want, got []uint32
	for i, f := range out {
		if i%3 == 1 {
			d.deliver(f, 0)
			want = append(want, uint32(i))
		}
	}
	for i := range 2 * len(want) {
		if index, _, ok := d.decodeGUID(header(t, d.send(frame{data: unique(t, 100+i)}).data)); ok {
			got = append(got, index)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("slots %v, want %v", got, want)
	}
}
