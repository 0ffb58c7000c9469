// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// TestMembersUntouched: a train that stays whole is one slot. Those of its members hold, byte for
// byte, what was there before. Whoever comes late with the bits of such an older packet does not
// find it: the slot is the train's.
func TestMembersUntouched(t *testing.T) {
	d := newDomain(t, config{slots: 64, block: 16, minAge: time.Second})
	var old []frame
	for i := range 64 {
		old = append(old, d.send(frame{data: unique(t, i)}))
		d.deliver(old[i], 0)
	}
	for i := range uint32(64) {
		d.age(i, 2*time.Second)
	}
	tr := loadTrain(t, "train-tcp")
	before := make(map[uint32][]byte)
	w := d.send(tr.whole)
	index := d.guid(w.data)
	for k := 1; k < len(tr.segments); k++ {
		before[index+uint32(k)] = d.slot(index + uint32(k)).raw
	}
	_, w2 := d.transit(w, 1)
	same(t, "at h2", d.deliver(w2, 0).data, lowered(t, tr.whole.data, 2))
	d.wantStory(index, "out@0/FS in@1/F out@2/F deliver@3/F")
	for at, raw := range before {
		s := d.slot(at)
		if !bytes.Equal(s.raw, raw) {
			t.Errorf("slot %d was changed: %x, before %x", at, s.raw, raw)
		}
		if s.Pos >= 128 || s.story() != "out@0/FS deliver@3/F" {
			t.Errorf("slot %d: position %d, %s: want the old packet", at, s.Pos, s.story())
		}
	}
	d.last = d.counters()
	late := d.link(old[index+2], 0)
	if got := d.guid(late.data); got != index+2 {
		t.Fatalf("the old packet has slot %d, want %d", got, index+2)
	}
	same(t, "a late copy of the old packet", d.ingress(r1In, late).data, late.data)
	d.counted(tally{cForeign: 1, cPassed: 1})
	d.wantSlots(tr, index)
}

// meetings are ways in which a train of at least four segments, on the wire as w, goes on in parts.
var meetings = map[string]func(d *domain, tr trainOf, w frame){
	"first to last": func(d *domain, tr trainOf, w frame) { d.meet(tr, w, 0, 1, 2, 3) },
	"last to first": func(d *domain, tr trainOf, w frame) { d.meet(tr, w, 3, 2, 1, 0) },
	"middle first":  func(d *domain, tr trainOf, w frame) { d.meet(tr, w, 2, 0, 3, 1) },
	"one alone":     func(d *domain, tr trainOf, w frame) { d.meet(tr, w, 1) },
	"two parts": func(d *domain, tr trainOf, w frame) {
		segs := tr.cut(d, w)
		for _, part := range [][]frame{segs[2:], segs[:2]} {
			_, out := d.transit(join(d, part...), 0)
			d.deliver(out, 0)
		}
	},
	"cut in a node": func(d *domain, tr trainOf, w frame) {
		for _, seg := range tr.cut(d, d.ingress(r1In, d.link(w, 0))) {
			d.deliver(d.egress(r1Out, d.route(seg, r1In)), 0)
		}
	},
	"cut in a node, last first": func(d *domain, tr trainOf, w frame) {
		segs := tr.cut(d, d.ingress(r1In, d.link(w, 0)))
		for k := len(segs) - 1; k >= 0; k-- {
			d.deliver(d.egress(r1Out, d.route(segs[k], r1In)), 0)
		}
	},
	"addresses changed before it is cut": func(d *domain, tr trainOf, w frame) {
		out := d.egress(r1Out, rewritten(d.route(d.ingress(r1In, d.link(w, 0)), r1In), 77))
		for _, seg := range tr.cut(d, out) {
			d.deliver(rewritten(seg, 77), 0)
		}
	},
	"addresses changed as it is cut": func(d *domain, tr trainOf, w frame) {
		segs := tr.cut(d, d.ingress(r1In, d.link(w, 0)))
		for _, part := range [][]frame{segs[:2], segs[2:]} {
			piece := join(d, part...)
			piece.mark = part[0].mark
			d.deliver(d.egress(r1Out, rewritten(d.route(piece, r1In), 77)), 0)
		}
	},
	"a key at a later hop": func(d *domain, tr trainOf, w frame) {
		f := d.route(d.ingress(r1In, d.link(w, 0)), r1In)
		setBits(d, f.data, header(d, f.data).id(), 2, header(d, f.data).tos())
		out := d.egress(r1Out, f)
		for _, seg := range tr.cut(d, out) {
			d.deliver(seg, 0)
		}
	},
	"quoted": func(d *domain, tr trainOf, w frame) {
		d.ingress(r1In, frame{data: quoting(d, "error-train-tcp.2", tr.cut(d, w)[2].data)})
		d.meet(tr, w, 0, 1, 2, 3)
	},
}

// meet carries segments through r1 to h2, one by one.
func (d *domain) meet(tr trainOf, w frame, order ...int) {
	segs := tr.cut(d, w)
	for _, k := range order {
		_, out := d.transit(segs[k], 1)
		d.deliver(out, 0)
	}
}

// TestMembersFilledLate: whoever first meets a part of a train, all slots are as if the source had
// filled them.
func TestMembersFilledLate(t *testing.T) {
	d := newDomain(t, config{})
	for name, meeting := range meetings {
		t.Run(name, func(t *testing.T) {
			var stories [2][]string
			var counters [2]string
			tr := loadTrain(t, "train-tcp")
			for i := range stories {
				d := d.in(t)
				w := d.send(tr.whole)
				index := d.guid(w.data)
				if i == 1 { // a packet of another host that has such bits
					other := d.link(frame{data: packet(t, "single-1")}, 0)
					h := header(t, tr.cut(t, w)[3].data)
					setBits(t, other.data, h.id(), h.ttl(), h.tos())
					d.ingress(r1In, rewritten(other, 78))
					d.wantSlots(tr, index)
				} else {
					d.wantUnfilled(tr, index)
				}
				d.last = d.counters()
				meeting(d, tr, w)
				stories[i] = d.outlines(index, len(tr.segments))
				counters[i] = d.moved().String()
			}
			if !slices.Equal(stories[0], stories[1]) {
				t.Errorf("slots filled late\n%q, at the source\n%q", stories[0], stories[1])
			}
			if counters[0] != counters[1] {
				t.Errorf("counters %s, filled at the source %s", counters[0], counters[1])
			}
		})
	}
}

// outlines are n slots without their times.
func (d *domain) outlines(index uint32, n int) (list []string) {
	for k := range n {
		s := d.slot(index + uint32(k))
		list = append(list, fmt.Sprintf("%s seg %d/%d len %d tag %x %x state %x cut %x id %x ttl %d flow %x", s.story(), s.Seg, s.Segs, s.Len, s.Tag,
			s.Tag2, s.State, s.Cut, d.idOf(s), s.Ttl, s.FlowHash))
	}
	return list
}

// idOf is the ID of its own that a slot has; that of a member without one is of an older packet.
func (d *domain) idOf(s *slot) uint16 {
	if s.Seg > 0 && s.Cut&uint8(bpfobj.TcRdrCutRDR_OWN) == 0 {
		s.Ttl = 0
		return 0
	}
	return s.Id
}

// ringTrain is a train of n segments like no other: its sequence numbers begin at seq.
func ringTrain(t testing.TB, n, seq int) trainOf {
	var tr trainOf
	var parts []frame
	for k := range n {
		data := packet(t, "single-0")[:etherHeader+40+8]
		shorten(data)
		binary.BigEndian.PutUint32(data[etherHeader+24:], uint32(seq+8*k))
		setBits(t, data, uint16(seq+k), 64, 0)
		tr.segments = append(tr.segments, data)
		parts = append(parts, frame{data: data})
	}
	tr.whole = parts[0]
	if n > 1 {
		tr.whole = join(t, parts...)
	}
	return tr
}

// TestRingOfTrains: trains of all lengths go round the ring. Some arrive whole, some in parts, some
// stay under way for long, and heads of older trains lie among members. No two packets under way
// have one slot, and each comes back as it was.
func TestRingOfTrains(t *testing.T) {
	d := newDomain(t, config{slots: 256, block: 64, minAge: time.Nanosecond})
	type sent struct {
		tr     trainOf
		w      frame
		marked bool
		index  uint32
		left   []int // segments under way; nil: it is whole
	}
	var live []*sent
	rnd := rand.New(rand.NewPCG(1, 2))
	marked := 0
	for step := range 3000 {
		if rnd.IntN(2) == 0 || len(live) == 0 {
			s := &sent{tr: ringTrain(t, 1+rnd.IntN(40)*rnd.IntN(2), step*1000)}
			s.w = d.send(s.tr.whole)
			s.index, _, s.marked = d.decodeGUID(header(t, s.w.data))
			if !s.marked {
				same(t, "not measured", s.w.data, s.tr.whole.data)
				continue
			}
			marked++
			for _, o := range live {
				if s.index < o.index+uint32(len(o.tr.segments)) && o.index < s.index+uint32(len(s.tr.segments)) {
					t.Fatalf("step %d: slots %d+%d and %d+%d are in use at once", step, o.index, len(o.tr.segments), s.index, len(s.tr.segments))
				}
			}
			live = append(live, s)
			continue
		}
		at := rnd.IntN(len(live))
		if at < 3 && rnd.IntN(20) > 0 {
			continue // stays for long
		}
		s := live[at]
		if s.left == nil && rnd.IntN(3) == 0 && len(s.tr.segments) > 1 {
			s.left = rnd.Perm(len(s.tr.segments))
		}
		if s.left == nil {
			same(t, "train", d.deliver(s.w, 1).data, lowered(t, s.tr.whole.data, 1))
		} else {
			segs, n := s.tr.cut(t, s.w), min(len(s.left), 1+rnd.IntN(8))
			for _, k := range s.left[:n] {
				same(t, fmt.Sprint("segment ", k), d.deliver(segs[k], 2).data, lowered(t, s.tr.segments[k], 2))
			}
			s.left = s.left[n:]
		}
		if len(s.left) == 0 {
			live = slices.Delete(live, at, at+1)
		}
		if t.Failed() {
			t.Fatalf("step %d", step)
		}
	}
	if marked < 500 {
		t.Errorf("%d packets and trains were measured: too few for this test", marked)
	}
}
