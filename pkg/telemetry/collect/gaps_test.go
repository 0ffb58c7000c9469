// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/vnetradar/radar/pkg/intwire"
)

// numberedBy is a report of TR 2.0 with a number of a node.
func numberedBy(node, number uint32) *intwire.Message {
	return &intwire.Message{HasGroup: true, Profile: intwire.ProfileByName("spec-2.1"), Group: intwire.Group{NodeID: node, Sequence: number & 0x3fffff}}
}

// TestGapsConfirmed: numbers far from the last one count once a second report has confirmed them.
func TestGapsConfirmed(t *testing.T) {
	for _, c := range []struct {
		numbers []uint32
		lost    uint64
	}{
		{[]uint32{1, 2, 3}, 0},
		{[]uint32{1, 2, 5}, 2},
		{[]uint32{1, 2, 5, 3, 4, 6}, 0}, // late
		{[]uint32{1, 2, 5000}, 0},       // far ahead: not confirmed
		{[]uint32{1, 2, 5000, 5000}, 0}, // sent twice
		{[]uint32{1, 2, 5000, 5001}, 4997},
		{[]uint32{1, 2, 5000, 5003}, 4999},
		{[]uint32{1, 2, 5000, 4999}, 4996},
		{[]uint32{1, 2, 5000, 9000, 9001}, 4997 + 3999},
		{[]uint32{1, 2, 1000002, 3, 4, 5}, 0},             // made up
		{[]uint32{1, 2, 3000000, 3, 4, 7, 8}, 2},          // so far ahead that it looks like a new beginning
		{[]uint32{1, 2, 5000, 3000000, 5001, 5002}, 4997}, // in a gap
		{[]uint32{2000000, 2000001, 0, 1, 2}, 0},          // begun anew
		{[]uint32{2000000, 2000001, 0, 2000002}, 0},       // not begun anew
		{[]uint32{0x3ffffe, 0x3fffff, 0, 3, 4}, 2},        // around
	} {
		var g gaps
		for _, n := range c.numbers {
			g.add(numberedBy(1, n))
		}
		if g.lost != c.lost {
			t.Errorf("%d: %d lost, want %d", c.numbers, g.lost, c.lost)
		}
	}
}

// TestGapsByNode: switches behind one address number their own reports. TR 1.0 says which switch it is.
func TestGapsByNode(t *testing.T) {
	for layout, lost := range map[intwire.ReportLayout]uint64{intwire.Report10: 1, intwire.Report05: 0} {
		var g gaps
		for _, r := range []struct{ node, number uint32 }{{1, 1}, {2, 51}, {1, 2}, {2, 52}, {1, 4}, {2, 53}} {
			if layout == intwire.Report05 {
				r.number = uint32(len(g.last)) // by the sender: nothing is missing
			}
			g.add(&intwire.Message{Profile: intwire.ProfileByName("spec-1.0"), Report: intwire.Report{Layout: layout, SwitchID: r.node, Sequence: r.number}})
		}
		if want := map[intwire.ReportLayout]int{intwire.Report10: 2, intwire.Report05: 1}[layout]; len(g.last) != want || g.lost != lost {
			t.Errorf("layout %d: %d sources, %d lost; want %d, %d", layout, len(g.last), g.lost, want, lost)
		}
	}
}

// TestGapsOfSome: reports of some flows are heard one by one, those of others later and many at a
// time: what is missing is the same.
func TestGapsOfSome(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		each, some := gaps{}, gaps{wide: true}
		var held [3]struct {
			last uint32
			many uint64
		}
		account := func(flow int) {
			if h := &held[flow]; h.many > 0 {
				some.addMany(numberedBy(1, h.last), h.many)
				h.many = 0
			}
		}
		n := uint32(0)
		for i := range 2000 {
			if n++; rng.IntN(10) == 0 {
				n += uint32(1 + rng.IntN(3))
			} else if i%700 == 699 && seed%2 == 0 {
				n += 20000
			}
			each.add(numberedBy(1, n))
			flow := rng.IntN(len(held))
			if h := &held[flow]; i > 0 && rng.IntN(20) > 0 { // the first of a source has no template
				h.last, h.many = n, h.many+1
			} else {
				account(flow)
				some.add(numberedBy(1, n))
			}
		}
		for flow := range held {
			account(flow)
		}
		if each.lost != some.lost {
			t.Errorf("seed %d: %d lost, each heard: %d", seed, some.lost, each.lost)
		}
	}
}

// TestGapsOfMany: sources that somebody has made up do not keep others from being followed, and what
// is known of them is bounded.
func TestGapsOfMany(t *testing.T) {
	var g gaps
	n := uint32(0)
	for i := range uint32(5 * maxSources) {
		g.add(numberedBy(1000+i, i))
		if i%1000 == 0 { // the real one
			n += 2
			g.add(numberedBy(1, n))
		}
	}
	g.add(numberedBy(1, n+1))
	if want := uint64(n/2 - 1); g.lost != want {
		t.Errorf("%d lost, want %d", g.lost, want)
	}
	if len(g.last) > maxSources || len(g.old) > maxSources {
		t.Errorf("%d and %d sources", len(g.last), len(g.old))
	}
	if want := uint64(5*maxSources + 1 - len(g.last) - len(g.old)); g.forgotten != want {
		t.Errorf("%d forgotten, want %d", g.forgotten, want)
	}
	// One that comes after all of them is followed as well.
	for _, n := range []uint32{1, 2, 5, 6} {
		g.add(numberedBy(2, n))
	}
	if want := uint64(n/2-1) + 2; g.lost != want {
		t.Error(fmt.Sprint(g.lost, " lost, want ", want))
	}
}

// TestGaps: what sources number and does not come is counted; late ones and sources that do
// not count are not.
func TestGaps(t *testing.T) {
	tr := Translator{Emit: func(*Reported) {}}
	var g gaps
	ip := frames(t)["tr20-ex-baseline-ipv4"]
	add := func(numbers ...uint32) {
		for _, n := range numbers {
			b := append([]byte(nil), ip...)
			binary.BigEndian.PutUint32(b[28:], binary.BigEndian.Uint32(b[28:])&^0x3fffff|n&0x3fffff)
			m := tr.Translate(Packet{noon, b}, 0)
			if m.Group.Sequence != n&0x3fffff {
				t.Fatalf("sequence %d, want %d", m.Group.Sequence, n)
			}
			g.add(m)
		}
	}
	for _, c := range []struct {
		numbers []uint32
		lost    uint64
	}{
		{[]uint32{5, 6, 7}, 0},
		{[]uint32{10}, 2},         // 8, 9
		{[]uint32{9}, 1},          // was late
		{[]uint32{11, 11, 11}, 1}, // a source that does not count
		{[]uint32{9, 9}, 0},       // late again: no more than was lost
		{[]uint32{2000000}, 0},    // far ahead: is it one that somebody has made up?
		{[]uint32{2000001}, 0},    // no: begun anew
		{[]uint32{1, 2, 5}, 2},    // and again
	} {
		add(c.numbers...)
		if g.lost != c.lost {
			t.Errorf("after %v: %d lost, want %d", c.numbers, g.lost, c.lost)
		}
	}
	g = gaps{}
	add(0x3ffffe, 0x3fffff, 0, 1, 3) // round the end
	if g.lost != 1 {
		t.Errorf("round the end: %d lost, want 1", g.lost)
	}
}
