// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// overrunSegments are the packets of a train that nobody has put together but its sender.
const overrunSegments = 4

// loneSegments are packets of one flow that GRO joins, and what it makes of them.
func loneSegments(t testing.TB, udp bool) trainOf {
	if !udp {
		return ringTrain(t, overrunSegments, 5000)
	}
	var tr trainOf
	var parts []frame
	for k := range overrunSegments {
		data := unique(t, k)
		setBits(t, data, uint16(5000+k), 64, 0)
		tr.segments = append(tr.segments, data)
		parts = append(parts, frame{data: data})
	}
	tr.whole = join(t, parts...)
	return tr
}

// sendLone sends the segments one by one and returns them as they are on the wire.
func (d *domain) sendLone(tr trainOf) (wire []frame) {
	d.Helper()
	for _, s := range tr.segments {
		wire = append(wire, d.send(frame{data: s}))
	}
	if first, last := d.guid(wire[0].data), d.guid(wire[overrunSegments-1].data); last != first+overrunSegments-1 {
		d.Fatalf("slots %d and %d are no neighbours", first, last)
	}
	return wire
}

// overrunWays are those in which a train comes that was found by its first packet. Each returns how the
// counters move: the train is another packet.
var overrunWays = map[string]func(d *domain, tr trainOf, wire []frame) func() tally{
	"leaves, by bits": func(d *domain, tr trainOf, wire []frame) func() tally {
		return func() tally {
			d.egress(h1Out, join(d, wire...))
			return tally{cForeign: overrunSegments, cSeen: overrunSegments, cMarked: overrunSegments}
		}
	},
	"comes by an edge": func(d *domain, tr trainOf, wire []frame) func() tally {
		return func() tally {
			d.ingress(r1Edge, join(d, wire...))
			return tally{cForeign: overrunSegments, cSeen: overrunSegments, cMarked: overrunSegments}
		}
	},
	"comes by a link": func(d *domain, tr trainOf, wire []frame) func() tally {
		return func() tally {
			in := join(d, wire...)
			same(d, "behind r1's hook", d.ingress(r1In, in).data, in.data)
			return tally{cForeign: overrunSegments, cPassed: overrunSegments}
		}
	},
	"leaves, by mark": func(d *domain, tr trainOf, wire []frame) func() tally {
		train := tr.whole
		for _, w := range wire {
			train.mark = max(train.mark, d.ingress(r1In, d.link(w, 0)).mark)
		}
		train.mark -= (overrunSegments - 1) << d.layout.MarkShift
		return func() tally {
			d.egress(r1Out, train)
			return tally{cNotHere: overrunSegments, cForeignMark: overrunSegments, cSeen: overrunSegments, cMarked: overrunSegments}
		}
	},
}

// TestOverrun: a train that begins and ends as packets of one flow do, with the slot of another one
// between them. It is another packet, however little is wrong, and no slot is written.
func TestOverrun(t *testing.T) {
	d := newDomain(t, config{})
	for name, change := range map[string]func(*slot){
		"flow":     func(s *slot) { s.FlowHash++ },
		"position": func(s *slot) { s.Pos -= uint64(d.layout.Slots) },
		"protocol": func(s *slot) { s.Proto ^= 1 },
		"version":  func(s *slot) { s.State ^= uint8(stIPv6) },
		"length":   func(s *slot) { s.Len-- },
		"sequence": func(s *slot) { s.Tag++ },
		"answer":   func(s *slot) { s.Tag2++ },
	} {
		for _, udp := range []bool{false, true} {
			if udp && (name == "sequence" || name == "answer") {
				continue // the content of datagrams says nothing
			}
			for way, begin := range overrunWays {
				t.Run(way+"/"+name+map[bool]string{true: "/UDP", false: "/TCP"}[udp], func(t *testing.T) {
					d, tr := d.in(t), loneSegments(t, udp)
					wire := d.sendLone(tr)
					index := d.guid(wire[0].data)
					act := begin(d, tr, wire)
					other := d.slot(index + 2)
					change(other)
					d.write(other)
					d.last = d.counters()
					var before [overrunSegments][]byte
					for k := range uint32(overrunSegments) {
						before[k] = d.slot(index + k).raw
					}
					d.counted(act())
					for k := range uint32(overrunSegments) {
						if now := d.slot(index + k); !bytes.Equal(now.raw, before[k]) {
							t.Errorf("slot %d was written: %s", k, now.story())
						}
					}
				})
			}
		}
	}
}

// TestOverrunElsewhere: all slots are of one flow, but only the first packet is in the node, or on a link
// to it. The others are where they are.
func TestOverrunElsewhere(t *testing.T) {
	for _, c := range []struct {
		name string
		send func(d *domain, tr trainOf, wire []frame) tally
	}{
		{"mark", func(d *domain, tr trainOf, wire []frame) tally {
			train := tr.whole
			train.mark = d.ingress(r1In, d.link(wire[0], 0)).mark
			d.egress(r1Out, train)
			return tally{cNotHere: overrunSegments, cForeignMark: overrunSegments, cSeen: overrunSegments, cMarked: overrunSegments}
		}},
		{"bits", func(d *domain, tr trainOf, wire []frame) tally {
			d.transit(wire[0], 0)
			d.egress(h2Out, join(d, wire...))
			return tally{cNotHere: overrunSegments, cSeen: overrunSegments, cMarked: overrunSegments}
		}},
	} {
		for _, udp := range []bool{false, true} {
			t.Run(c.name+map[bool]string{true: "/UDP", false: "/TCP"}[udp], func(t *testing.T) {
				d, tr := newDomain(t, config{}), loneSegments(t, udp)
				d.towards(h1Out, nodeR1)
				d.towards(r1Out, nodeH2)
				wire := d.sendLone(tr)
				d.last = d.counters()
				d.counted(c.send(d, tr, wire))
				for k := range uint32(overrunSegments - 1) {
					d.wantStory(d.guid(wire[1+k].data), "out@0/FS")
				}
			})
		}
	}
}

// TestOverrunKeyed: the same by keys. (Of datagrams a key names the first one alone.)
func TestOverrunKeyed(t *testing.T) {
	d, tr := newDomain(t, config{}), ringTrain(t, overrunSegments, 5000)
	for _, s := range append(tr.segments, tr.whole.data) {
		s[etherHeader+6] = 0 // DF clear
		fixSum(s, etherHeader)
	}
	first := d.sendKeyed(tr)
	d.ingress(r1In, frame{data: tr.segments[0]})
	d.last = d.counters()
	d.egress(r1Out, tr.whole)
	d.counted(tally{cSeen: overrunSegments, cKeyInFlight: overrunSegments})
	for k := range uint32(overrunSegments - 1) {
		d.wantStory(first+1+k, "out@0/FSK")
	}
}

// sendKeyed sends packets whose bits stay as they are, and returns the first one's slot.
func (d *domain) sendKeyed(tr trainOf) uint32 {
	d.Helper()
	first := uint32(d.nextPos()) & (d.layout.Slots - 1)
	for _, s := range tr.segments {
		same(d, "sent", d.send(frame{data: s}).data, s)
	}
	return first
}

// TestShortTrain: the header says that a train has fewer bytes than there are. The kernel cuts it by
// these, into segments with IDs that no slots were taken for: it is not measured.
func TestShortTrain(t *testing.T) {
	d := newDomain(t, config{})
	for _, name := range trainNames {
		t.Run(name, func(t *testing.T) {
			d, tr := d.in(t), loadTrain(t, name)
			f := tr.whole
			f.segs = 0
			f.data = bytes.Clone(f.data)
			at := ipAt(f.data)
			off := at + 2
			if headerAt(f.data, at).v6() {
				off = at + 4
			}
			binary.BigEndian.PutUint16(f.data[off:], binary.BigEndian.Uint16(f.data[off:])-uint16(f.size))
			fixSum(f.data, at)
			same(t, "as sent", d.send(f).data, f.data)
			if moved := d.moved(); moved[cMalformed] == 0 || moved[cMarked] != 0 {
				t.Errorf("counters moved: %v", moved)
			}
		})
	}
}
