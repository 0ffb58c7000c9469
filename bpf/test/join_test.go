// SPDX-License-Identifier: Apache-2.0

package test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"
)

// TestTrainsJoined: the end of one train and the beginning of the next become one
// packet, because their slots are neighbours.
func TestTrainsJoined(t *testing.T) {
	d := newDomain(t, config{})
	a, b := loadTrain(t, "train-wrap"), loadTrain(t, "train-next")
	segs := append(a.cut(t, d.send(a.whole)), b.cut(t, d.send(b.whole))...)
	both := trainOf{segments: append(a.segments, b.segments...)}
	at := 0
	for _, n := range []int{2, 4, 2} {
		run := d.link(join(t, segs[at:at+n]...), 1)
		_, out := d.transit(run, 0)
		part := trainOf{segments: both.segments[at : at+n]}
		for k, seg := range part.cut(t, out) {
			same(t, fmt.Sprint("segment ", at+k), d.deliver(seg, 0).data, lowered(t, part.segments[k], 2))
		}
		at += n
	}
	// Two whole trains in one packet.
	wa, wb := d.send(a.whole), d.send(b.whole)
	_, out := d.transit(join(t, append(a.cut(t, wa), b.cut(t, wb)...)...), 0)
	for k, seg := range both.cut(t, out) {
		same(t, fmt.Sprint("segment ", k), d.deliver(seg, 0).data, lowered(t, both.segments[k], 1))
	}
}

// TestSinglesJoined: packets that were never a train. Their own IDs do not count
// up: what leaves r1 as one packet must still end as what was sent.
func TestSinglesJoined(t *testing.T) {
	d := newDomain(t, config{})
	singles := trainOf{segments: [][]byte{packet(t, "single-0"), packet(t, "single-1")}}
	w := []frame{d.send(frame{data: singles.segments[0]}), d.send(frame{data: singles.segments[1]})}
	_, out := d.transit(join(t, w...), 0)
	for k, seg := range singles.cut(t, out) {
		same(t, fmt.Sprint("packet ", k), d.deliver(seg, 0).data, lowered(t, singles.segments[k], 1))
	}
}

// TestSmallJoined: datagrams of four bytes, sent alone, that GRO joins: what lies behind the
// first is not its content.
func TestSmallJoined(t *testing.T) {
	d, tr := newDomain(t, config{}), loadTrain(t, "train-udp-4")
	var w, orig []frame
	for _, s := range tr.segments {
		w, orig = append(w, d.send(frame{data: s})), append(orig, frame{data: s})
	}
	inside, out := d.transit(join(t, w...), 0)
	same(t, "inside r1", inside.data, join(t, orig...).data)
	for k, seg := range tr.cut(t, out) {
		same(t, fmt.Sprint("datagram ", k), d.deliver(seg, 0).data, lowered(t, tr.segments[k], 1))
	}
}

// TestLongRun: GRO joins more packets than a train that is measured may have. Each has
// its own TTL and its own story behind r1 all the same.
func TestLongRun(t *testing.T) {
	d := newDomain(t, config{slots: 1024, block: 256})
	const n = 200
	var parts []frame
	var run trainOf
	for k := range n {
		data := packet(t, "single-0")[:etherHeader+40+8]
		shorten(data)
		binary.BigEndian.PutUint32(data[etherHeader+24:], uint32(8*k))
		setBits(t, data, uint16(k), 64, 0)
		run.segments = append(run.segments, data)
		parts = append(parts, d.link(d.send(frame{data: data}), 1))
	}
	first := d.guid(parts[0].data)
	_, out := d.transit(join(t, parts...), 0)
	for k, seg := range run.cut(t, out) {
		same(t, fmt.Sprint("packet ", k), d.deliver(seg, 2).data, lowered(t, run.segments[k], 4))
		d.wantStory(first+uint32(k), "out@0/FS in@1"+flagF(k == 0)+" out@2"+flagF(k == 0)+" deliver@3/F")
		if t.Failed() {
			t.Fatalf("packet %d of %d", k, n)
		}
	}
}

// flagF is the mark of the first packet of an skb, as wantStory spells it.
func flagF(first bool) string {
	if first {
		return "/F"
	}
	return ""
}

// TestTrainByKey: trains whose bits must not change.
func TestTrainByKey(t *testing.T) {
	for _, name := range []string{"train-clear", "train-low"} {
		d := newDomain(t, config{})
		tr := loadTrain(t, name)
		n := uint64(len(tr.segments))
		t.Run(name+"/whole", func(t *testing.T) {
			d := d.in(t)
			w := d.send(tr.whole)
			same(t, "on the wire", w.data, tr.whole.data)
			d.counted(tally{cSeen: n, cMarked: n})
			_, w2 := d.transit(w, 0)
			same(t, "at h2", d.deliver(w2, 0).data, lowered(t, tr.whole.data, 1))
			d.counted(nil)
			if left := d.keyCount(); left != 0 {
				t.Errorf("%d keys left behind", left)
			}
		})
		t.Run(name+"/cut", func(t *testing.T) {
			d := d.in(t)
			index := uint32(d.nextPos()) & (d.layout.Slots - 1)
			for k, seg := range tr.cut(t, d.send(tr.whole)) {
				_, w2 := d.transit(seg, 0)
				same(t, fmt.Sprint("segment ", k), d.deliver(w2, k%2).data, lowered(t, tr.segments[k], 1+k%2))
			}
			d.counted(tally{cSeen: n, cMarked: n})
			if t.Failed() {
				return
			}
			for k := range tr.segments {
				if s := d.slot(index + uint32(k)); s.State&uint8(stDone) == 0 {
					t.Errorf("segment %d: state %#x", k, s.State)
				}
			}
			if left := d.keyCount(); left != 0 {
				t.Errorf("%d keys left behind: %v", left, d.keyList())
			}
		})
	}
}

// TestTrainByKeyCutLate: cut behind r1, so that no egress saw the segments alone:
// their keys go when they arrive.
func TestTrainByKeyCutLate(t *testing.T) {
	d := newDomain(t, config{})
	tr := loadTrain(t, "train-clear")
	_, w := d.transit(d.send(tr.whole), 0)
	for k, seg := range tr.cut(t, w) {
		same(t, fmt.Sprint("segment ", k), d.deliver(seg, 0).data, lowered(t, tr.segments[k], 1))
	}
	if left := d.keyCount(); left != 0 {
		t.Errorf("%d keys left behind: %v", left, d.keyList())
	}
}

// TestTrainOneKeyTaken: a train whose segment has the key of a packet in flight is not
// measured, and leaves no key behind.
func TestTrainOneKeyTaken(t *testing.T) {
	d := newDomain(t, config{})
	tr := loadTrain(t, "train-clear")
	n := uint64(len(tr.segments))
	blocker := d.send(frame{data: tr.segments[2]})
	d.counted(tally{cSeen: 1, cMarked: 1})
	same(t, "on the wire", d.send(tr.whole).data, tr.whole.data)
	d.counted(tally{cSeen: n, cKeyInFlight: n})
	d.deliver(blocker, 0)
	d.send(tr.whole)
	d.counted(tally{cSeen: n, cMarked: n})
}

// TestTrainTooLong: more segments than fit pass unmeasured, counted one by one.
func TestTrainTooLong(t *testing.T) {
	d := newDomain(t, config{block: 256, slots: 1024})
	long := packet(t, "train-129")
	same(t, "129 segments", d.send(frame{data: long, segs: 129, size: 8}).data, long)
	d.counted(tally{cSeen: 129, cSegs: 129})
	same(t, "uncounted", d.send(frame{data: long, size: 8}).data, long)
	d.counted(tally{cSeen: 129, cSegs: 129})

	d = newDomain(t, config{block: 4, slots: 1024})
	tr := loadTrain(t, "train-wrap") // 4 segments: a block
	d.wantMarked(d.send(tr.whole).data, tr.whole.data)
	d.counted(tally{cSeen: 4, cMarked: 4})
	tr = loadTrain(t, "train-udp") // 5
	same(t, "longer than a block", d.send(tr.whole).data, tr.whole.data)
	d.counted(tally{cSeen: 5, cSegs: 5})
}

// TestTrainAtBlockEnd: IDs of a train count up without carry into other bits, so a
// train stays within 64 Ki slots, and its slots within what the CPU holds.
func TestTrainAtBlockEnd(t *testing.T) {
	d := newDomain(t, config{slots: 1 << 18, block: 64})
	tr := loadTrain(t, "train-tcp")
	d.startAt(1<<18 + 1<<16 - 64)
	for range 60 {
		d.send(frame{data: packet(t, "udp-64")})
	}
	w := d.send(tr.whole)
	if index := d.guid(w.data); index != 1<<16 {
		t.Errorf("train of %d behind slot %#x stands at %#x", len(tr.segments), 1<<16-4, index)
	}
	for k, seg := range tr.cut(t, w) {
		same(t, fmt.Sprint("segment ", k), d.deliver(seg, 0).data, tr.segments[k])
	}
}

// TestHeadGoneFirst: the first segment of a cut train has arrived and its slot is
// wanted again while others still wait in the queue: they need it.
func TestHeadGoneFirst(t *testing.T) {
	d := newDomain(t, config{slots: 64, block: 16})
	tr := loadTrain(t, "train-tcp")
	segs := tr.cut(t, d.send(tr.whole))
	d.deliver(segs[0], 0)
	other := packet(t, "udp-64")
	for range 256 {
		d.deliver(d.send(frame{data: other}), 0)
	}
	for k, seg := range segs[1:] {
		same(t, fmt.Sprint("segment ", k+1), d.deliver(seg, 2).data, lowered(t, tr.segments[k+1], 2))
	}
}

// TestCutTrainIsReused: when all of a cut train is done, or has expired, its slots
// are free.
func TestCutTrainIsReused(t *testing.T) {
	d := newDomain(t, config{slots: 64, block: 16})
	tr := loadTrain(t, "train-tcp")
	w := d.send(tr.whole)
	for _, seg := range tr.cut(t, w) {
		d.deliver(seg, 0)
	}
	d.fillRing(64)
	if before := d.counters()[cNoSlot]; before != 0 {
		t.Errorf("%d packets found no slot", before)
	}

	d = newDomain(t, config{slots: 64, block: 16})
	w = d.send(tr.whole)
	index := d.guid(w.data)
	d.deliver(tr.cut(t, w)[0], 0)
	for k := range tr.segments {
		d.age(index+uint32(k), time.Minute)
	}
	d.fillRing(64)
	if before := d.counters()[cNoSlot]; before != 0 {
		t.Errorf("%d packets found no slot", before)
	}
}

// fillRing sends n lone packets that arrive at once.
func (d *domain) fillRing(n int) {
	d.Helper()
	for range n {
		d.deliver(d.send(frame{data: packet(d, "udp-64")}), 0)
	}
}

// TestNATOfCutTrain: what happens to one segment is not in the stories of the others.
func TestNATOfCutTrain(t *testing.T) {
	d := newDomain(t, config{})
	tr := loadTrain(t, "train-tcp")
	w := d.send(tr.whole)
	index := d.guid(w.data)
	for _, seg := range tr.cut(t, w) {
		routed := d.route(d.ingress(r1In, d.link(seg, 0)), r1In)
		routed.data = nat(t, routed.data)
		d.egress(r1Out, routed)
	}
	d.wantStory(index, "out@0/FS in@1/FP addr@2/FP out@2/FP")
	d.wantStory(index+1, "in@1/FP addr@2/FP out@2/FP")
}

// TestNATBeforeCut: the addresses changed while the train was whole; a segment seen
// alone later has not changed them again.
func TestNATBeforeCut(t *testing.T) {
	d := newDomain(t, config{})
	tr := loadTrain(t, "train-tcp")
	w := d.send(tr.whole)
	index := d.guid(w.data)
	routed := d.route(d.ingress(r1In, d.link(w, 0)), r1In)
	routed.data = nat(t, routed.data)
	for k, seg := range tr.cut(t, d.egress(r1Out, routed)) {
		seg.data = nat(t, seg.data)
		d.egress(h2Out, d.route(d.ingress(h2Out, d.link(seg, 0)), h2Out))
		if k == 1 {
			break
		}
	}
	d.wantStory(index, "out@0/FS in@1/F addr@2/F out@2/F deliver@7/FP out@7/FP")
	d.wantStory(index+1, "deliver@7/FP out@7/FP")
}
