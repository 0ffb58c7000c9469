// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// trainOf is a GSO packet of packets.py and its segments.
type trainOf struct {
	name     string
	whole    frame
	segments [][]byte
	fixedID  bool
}

func loadTrain(t testing.TB, name string) trainOf {
	t.Helper()
	tr := trainOf{name: name, whole: frame{data: packet(t, name)}, fixedID: name == "train-fixed"}
	packets, _ := fixtures()
	for k := 0; packets[fmt.Sprintf("%s.%d", name, k)] != nil; k++ {
		tr.segments = append(tr.segments, packet(t, fmt.Sprintf("%s.%d", name, k)))
	}
	tr.whole.segs = uint32(len(tr.segments))
	tr.whole.size = uint32(len(payloadOf(tr.segments[0])))
	return tr
}

// isTrain says whether packets.py has segments of the packet.
func isTrain(name string) bool {
	packets, _ := fixtures()
	return packets[name+".0"] != nil
}

// payloadOf is what follows the TCP or UDP header.
func payloadOf(data []byte) []byte {
	at := ipAt(data)
	proto, off := l4Of(data, at)
	l4 := data[off : at+headerAt(data, at).length()]
	if proto == 6 {
		return l4[l4[12]>>4*4:]
	}
	return l4[8:]
}

// cut does what the kernel's segmentation does to the whole as it is now: the
// segments of packets.py get the TTL, the TOS and, counting up, the ID of its header;
// IPv6: its flow label.
func (tr trainOf) cut(t testing.TB, whole frame) []frame {
	t.Helper()
	ip := header(t, whole.data)
	var out []frame
	for k, s := range tr.segments {
		id := ip.id() + uint16(k)
		if tr.fixedID || ip.v6() {
			id = ip.id()
		}
		s = bytes.Clone(s)
		setBits(t, s, id, ip.ttl(), ip.tos())
		out = append(out, frame{data: s, from: whole.from, mark: whole.mark})
	}
	return out
}

// join does what GRO does with neighbouring segments: one packet with the first
// one's header. It fails where GRO would not join.
func join(t testing.TB, parts ...frame) frame {
	t.Helper()
	first := parts[0]
	out := frame{data: bytes.Clone(first.data), from: first.from, segs: uint32(len(parts))}
	out.size = uint32(len(payloadOf(first.data)))
	h := header(t, first.data)
	for k, p := range parts[1:] {
		ip := header(t, p.data)
		counts := ip.id() == h.id()+uint16(k+1) && !ip.v6()
		fixed := ip.id() == h.id()
		if ip.ttl() != h.ttl() || ip.tos() != h.tos() || !counts && !fixed {
			t.Fatalf("GRO would not join id %#x ttl %d to id %#x ttl %d", ip.id(), ip.ttl(), h.id(), h.ttl())
		}
		out.data = append(out.data, payloadOf(p.data)...)
	}
	at := ipAt(out.data)
	setLength(out.data)
	if proto, l4 := l4Of(out.data, at); proto == 17 {
		binary.BigEndian.PutUint16(out.data[l4+4:], uint16(len(out.data)-l4))
	}
	fixSum(out.data, at)
	return out
}

var trainNames = []string{"train-tcp", "train-wrap", "train-next", "train-fixed", "train-udp", "train-udp-short",
	"train-udp-4", "train-udp-8", "train-udp-16", "train-udp-20", "train-six-tcp", "train-six-udp", "train-six-quic",
	"train-six-udp-8", "train-six-udp-16", "train-six-udp-20", "train-six-options"}

// TestTrainWhole: a train that nobody cuts: one mark, n slots in a row, one story.
func TestTrainWhole(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, name := range trainNames {
			for _, counted := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/segs=%v", carry, name, counted), func(t *testing.T) {
					testTrainWhole(d.in(t), loadTrain(t, name), counted)
				})
			}
		}
	}
}

func testTrainWhole(d *domain, tr trainOf, counted bool) {
	n := uint64(len(tr.segments))
	f := tr.whole
	if !counted {
		f.segs = 0 // as from AF_PACKET and tap vnet headers
	}
	w1 := d.send(f)
	d.wantMarked(w1.data, f.data)
	d.counted(tally{cSeen: n, cMarked: n})
	index := d.guid(w1.data)
	if !tr.unfilled() {
		d.wantSlots(tr, index)
	}
	_, w2 := d.transit(w1, 3)
	end := d.deliver(w2, 2)
	same(d, "at h2", end.data, lowered(d, f.data, 6))
	d.wantStory(index, "out@0/FS in@1/F out@2/F deliver@3/F")
	for k := 1; k < len(tr.segments); k++ {
		d.wantStory(index+uint32(k), "")
	}
	if tr.unfilled() {
		d.wantUnfilled(tr, index)
		// A copy of one segment comes late.
		d.deliver(tr.cut(d, w1)[n-1], 0)
		d.wantSlots(tr, index)
	}
}

// unfilled says whether the source writes the slot of the head alone.
func (tr trainOf) unfilled() bool {
	ip := ipAt(tr.segments[0])
	proto, _ := l4Of(tr.segments[0], ip)
	return proto == 6
}

// wantUnfilled demands that the members' slots are not the train's yet.
func (d *domain) wantUnfilled(tr trainOf, index uint32) {
	d.Helper()
	head := d.slot(index)
	for k := 1; k < len(tr.segments); k++ {
		if s := d.slot(index + uint32(k)); s.Pos >= head.Pos {
			d.Errorf("slot of segment %d has position +%d: it was filled", k, s.Pos-head.Pos)
		}
	}
}

// wantSlots checks the slots of a train whose members are filled.
func (d *domain) wantSlots(tr trainOf, index uint32) {
	d.Helper()
	head := d.slot(index)
	var total uint32
	for k, data := range tr.segments {
		s := d.slot(index + uint32(k))
		length := uint16(header(d, data).length())
		total += uint32(length)
		if s.Pos != head.Pos+uint64(k) || s.T0Ns != head.T0Ns || int(s.Seg) != k || int(s.Segs) != len(tr.segments) || s.Len != length {
			d.Errorf("slot of segment %d: position +%d segment %d of %d len %d, want len %d", k, s.Pos-head.Pos, s.Seg, s.Segs, s.Len, length)
		}
		// A segment alone must be found by the same content.
		if lone := d.tagOf(data); s.Tag != lone[0] || s.Tag2 != lone[1] {
			d.Errorf("slot of segment %d: tag %#x %#x, alone it has %#x %#x", k, s.Tag, s.Tag2, lone[0], lone[1])
		}
	}
	if head.TrainLen != total || head.GsoSize != uint16(tr.whole.size) {
		d.Errorf("head: %d bytes in segments of %d, want %d of %d", head.TrainLen, head.GsoSize, total, tr.whole.size)
	}
}

// tagOf is the content tag that a source gives to a packet sent alone.
func (d *domain) tagOf(data []byte) [2]uint32 {
	d.Helper()
	index := d.guid(d.send(frame{data: data}).data)
	s := d.slot(index)
	return [2]uint32{s.Tag, s.Tag2}
}

// TestTrainCut: a queue cuts the train on the first or the second link; segments
// run through hidden routers each in its own number, and each is exactly itself.
func TestTrainCut(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, name := range trainNames {
			t.Run(carry+"/"+name+"/first", func(t *testing.T) {
				d, tr := d.in(t), loadTrain(t, name)
				w := d.send(tr.whole)
				for k, seg := range tr.cut(t, w) {
					inside, w2 := d.transit(seg, k%7)
					if d.layout.MarkMask != 0 {
						same(t, "inside r1", inside.data, lowered(t, tr.segments[k], k%7))
					}
					end := d.deliver(w2, (k+3)%7)
					same(t, fmt.Sprint("segment ", k), end.data, lowered(t, tr.segments[k], k%7+1+(k+3)%7))
				}
				d.wantCutStories(d.guid(w.data), tr, "in@1/FP out@2/FP deliver@3/FP")
			})
			t.Run(carry+"/"+name+"/second", func(t *testing.T) {
				d, tr := d.in(t), loadTrain(t, name)
				_, w := d.transit(d.send(tr.whole), 4)
				index := d.guid(w.data)
				for k, seg := range tr.cut(t, w) {
					end := d.deliver(seg, k)
					same(t, fmt.Sprint("segment ", k), end.data, lowered(t, tr.segments[k], 5+k))
				}
				d.wantStory(index, "out@0/FS in@1/F out@2/F deliver@3/FP")
			})
		}
	}
}

// wantCutStories: the head has the source, each segment what came later.
func (d *domain) wantCutStories(index uint32, tr trainOf, later string) {
	d.Helper()
	for k := range tr.segments {
		want := later
		if k == 0 {
			want = "out@0/FS " + later
		}
		d.wantStory(index+uint32(k), want)
		if s := d.slot(index + uint32(k)); s.State&^uint8(stIPv6) != uint8(stDone) {
			d.Errorf("segment %d: state %#x", k, s.State)
		}
	}
	d.wantSlots(tr, index)
}

// TestTrainSpread: segments of one train at different hops at the same time, in
// any order, also backwards.
func TestTrainSpread(t *testing.T) {
	d := newDomain(t, config{})
	for _, name := range trainNames {
		t.Run(name, func(t *testing.T) {
			d, tr := d.in(t), loadTrain(t, name)
			segs := tr.cut(t, d.send(tr.whole))
			done := make([]int, len(segs)) // hops behind each
			ttl := make([]int, len(segs))
			for step := range 3 * len(segs) {
				k := (step*5 + 2) % len(segs)
				hidden := step % 3
				switch done[k] {
				case 0:
					segs[k] = d.ingress(r1In, d.link(segs[k], hidden))
					ttl[k] += hidden
				case 1:
					segs[k] = d.egress(r1Out, d.route(segs[k], r1In))
					ttl[k]++
				case 2:
					segs[k] = d.deliver(segs[k], hidden)
					ttl[k] += hidden
					same(t, fmt.Sprint("segment ", k), segs[k].data, lowered(t, tr.segments[k], ttl[k]))
				}
				done[k]++
			}
		})
	}
}

// TestTrainRejoined: GRO puts pieces together again, not as they were cut; they are
// cut once more behind r1.
func TestTrainRejoined(t *testing.T) {
	for _, name := range trainNames {
		for _, pieces := range [][]int{{2, 0}, {1, 2, 0}, {3, 0}, {0}} {
			t.Run(name+strings.Trim(fmt.Sprint(pieces), "[]"), func(t *testing.T) {
				d, tr := newDomain(t, config{}), loadTrain(t, name)
				testRejoined(d, tr, pieces)
			})
		}
	}
}

// testRejoined joins runs of the given lengths, 0: all that is left.
func testRejoined(d *domain, tr trainOf, pieces []int) {
	segs := tr.cut(d, d.send(tr.whole))
	at := 0
	for _, n := range pieces {
		if n == 0 {
			n = len(segs) - at
		}
		run := d.link(join(d, segs[at:at+n]...), 2)
		inside := d.ingress(r1In, run)
		want := header(d, lowered(d, tr.segments[at], 2))
		if got := header(d, inside.data); got.id() != want.id() || got.ttl() != want.ttl() || got.tos() != want.tos() {
			d.Errorf("inside r1: id %#x ttl %d tos %#x, want id %#x ttl %d tos %#x",
				got.id(), got.ttl(), got.tos(), want.id(), want.ttl(), want.tos())
		}
		out := d.egress(r1Out, d.route(inside, r1In))
		part := trainOf{segments: tr.segments[at : at+n], fixedID: tr.fixedID}
		for k, seg := range part.cut(d, out) {
			end := d.deliver(seg, k)
			same(d, fmt.Sprint("segment ", at+k), end.data, lowered(d, tr.segments[at+k], 3+k))
		}
		at += n
	}
}
