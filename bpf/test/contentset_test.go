// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// flipped is the frame with one bit of what follows the IP header changed. Of TCP, IP has no
// options.
func flipped(t testing.TB, f frame, at int) frame {
	t.Helper()
	f.data = bytes.Clone(f.data)
	_, l4 := l4Of(f.data, ipAt(f.data))
	f.data[l4+at] ^= 0x40
	return f
}

// lengthened is a TCP packet, or a train, with eight more bytes of options, as gateways add the
// client's address (TOA).
func lengthened(t testing.TB, f frame) frame {
	t.Helper()
	_, l4 := l4Of(f.data, ipAt(f.data))
	end := l4 + int(f.data[l4+12]>>4)*4
	data := append(bytes.Clone(f.data[:end]), 254, 8, 0x12, 0x34, 10, 9, 8, 7)
	f.data = append(data, f.data[end:]...)
	f.data[l4+12] += 2 << 4
	setLength(f.data)
	fixSum(f.data, ipAt(f.data))
	return f
}

// contentSets are what something behind the hook of a port may change: which packet, and how.
var contentSets = []struct {
	name, packet string
	change       func(testing.TB, frame) frame
}{
	{"tcp ack", "tcp-data", func(t testing.TB, f frame) frame { return flipped(t, f, 9) }},
	{"tcp timestamp", "tcp-data", func(t testing.TB, f frame) frame { return flipped(t, f, 25) }},
	{"tcp sequence", "tcp-data", func(t testing.TB, f frame) frame { return flipped(t, f, 5) }},
	{"tcp syn, third option", "tcp-syn", func(t testing.TB, f frame) frame { return flipped(t, f, 25) }},
	{"tcp, longer", "tcp-data", lengthened},
	{"tcp syn, longer", "tcp-syn", lengthened},
	{"udp payload", "udp-64", func(t testing.TB, f frame) frame { return flipped(t, f, 8) }},
	{"icmp payload", "icmp-echo", func(t testing.TB, f frame) frame { return flipped(t, f, 9) }},
	{"other protocol", "proto-253", func(t testing.TB, f frame) frame { return flipped(t, f, 3) }},
	{"six tcp ack", "six-tcp-data", func(t testing.TB, f frame) frame { return flipped(t, f, 9) }},
	{"six tcp, longer", "six-tcp-data", lengthened},
	{"six udp payload", "six-udp-64", func(t testing.TB, f frame) frame { return flipped(t, f, 8) }},
	{"train, tcp ack", "train-tcp", func(t testing.TB, f frame) frame { return flipped(t, f, 9) }},
	{"train, longer", "train-tcp", lengthened},
	{"train, udp", "train-udp", func(t testing.TB, f frame) frame { return flipped(t, f, 8) }},
	{"six train, tcp ack", "train-six-tcp", func(t testing.TB, f frame) frame { return flipped(t, f, 9) }},
}

// whole is the packet, or the train, of that name.
func whole(t testing.TB, name string) frame {
	t.Helper()
	if isTrain(name) {
		return loadTrain(t, name).whole
	}
	return frame{data: packet(t, name)}
}

// TestContentSet: something behind the hook of a port (a tc program of the node's owner, a bridge's
// rule) changes the content of what is on the link. The packet has its own bits again, and one story.
func TestContentSet(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, c := range contentSets {
			t.Run(carry+"/"+c.name, func(t *testing.T) {
				d := d.in(t)
				orig := whole(t, c.packet)
				n := uint64(max(1, orig.segs))
				index := uint32(d.nextPos()) & (d.layout.Slots - 1)
				on := c.change(t, d.link(d.send(orig), 0))
				want := lowered(t, c.change(t, orig).data, 2)
				inside := d.ingress(r1In, on)
				if carry == "mark" {
					same(t, "inside r1", inside.data, c.change(t, orig).data)
				}
				w := d.egress(r1Out, d.route(inside, r1In))
				same(t, "at h2", d.deliver(w, 1).data, want)
				d.counted(tally{cSeen: n, cMarked: n, cChanged: n})
				d.wantStory(index, "out@0/FS in@1/F out@2/F deliver@3/F")
			})
		}
	}
}

// TestContentSetCut: the content of a train is changed, and then it is cut.
func TestContentSetCut(t *testing.T) {
	for _, name := range []string{"train-tcp", "train-fixed", "train-udp", "train-six-tcp"} {
		at := 9
		if name == "train-udp" {
			at = 8
		}
		t.Run(name, func(t *testing.T) {
			for _, order := range [][]int{{0, 1, 2, 3}, {3, 1, 0, 2}} {
				d := newDomain(t, config{})
				tr := loadTrain(t, name)
				segs := tr.cut(t, d.send(tr.whole))
				for _, k := range order {
					got := d.deliver(flipped(t, segs[k], at), 1)
					same(t, fmt.Sprint("segment ", k), got.data, lowered(t, flipped(t, frame{data: tr.segments[k]}, at).data, 1))
				}
				if got := d.counters(); got[cChanged] != 4 || got[cForeign] != 0 {
					t.Errorf("%d changed, %d foreign", got[cChanged], got[cForeign])
				}
			}
		})
	}
}

// TestContentSetJoined: GRO has joined two trains, and no member's slot is filled yet. What those have is of older packets.
func TestContentSetJoined(t *testing.T) {
	d := newDomain(t, config{})
	a, b := loadTrain(t, "train-wrap"), loadTrain(t, "train-next")
	wa, wb := d.send(a.whole), d.send(b.whole)
	head := d.slot(d.guid(wa.data))
	both := flipped(t, join(t, append(a.cut(t, wa), b.cut(t, wb)...)...), 9)
	_, out := d.transit(both, 0)
	for k := range both.segs {
		if s := d.slot(head.index + k); s.Pos != head.Pos+uint64(k) {
			t.Errorf("slot %d was changed, and is of position %d, not %d", k, s.Pos, head.Pos+uint64(k))
		}
	}
	parts := trainOf{segments: append(a.segments, b.segments...)}
	for k, seg := range parts.cut(t, out) {
		seg = flipped(t, seg, 9) // parts has the segments as they were
		same(t, fmt.Sprint("segment ", k), d.deliver(seg, 0).data, lowered(t, flipped(t, frame{data: parts.segments[k]}, 9).data, 1))
	}
}

// TestContentSetMarked: a node that carries the mark changes the content; it may translate the addresses of TCP as well.
func TestContentSetMarked(t *testing.T) {
	d := newDomain(t, config{})
	for _, c := range contentSets {
		for _, translated := range []bool{false, true} {
			if _, tcp := strings.CutPrefix(c.name, "tcp"); translated && (!tcp || c.name == "tcp sequence") {
				continue // what follows
			}
			t.Run(fmt.Sprintf("%s/translated %v", c.name, translated), func(t *testing.T) {
				d, orig := d.in(t), whole(t, c.packet)
				n := uint64(max(1, orig.segs))
				index := uint32(d.nextPos()) & (d.layout.Slots - 1)
				change := func(f frame) frame {
					f = c.change(t, f)
					if translated {
						f.data = nat(t, f.data)
					}
					return f
				}
				routed := change(d.route(d.ingress(r1In, d.link(d.send(orig), 0)), r1In))
				w := d.egress(r1Out, routed)
				if w.mark != 0 {
					t.Errorf("mark %#x left on the packet", w.mark)
				}
				d.counted(tally{cSeen: n, cMarked: n, cChanged: n})
				same(t, "at h2", d.deliver(w, 1).data, lowered(t, change(orig).data, 2))
				d.counted(nil) // by then it is the slot's
				story := "out@0/FS in@1/F out@2/F deliver@3/F"
				if translated {
					story = "out@0/FS in@1/F addr@2/F out@2/F deliver@3/F"
				}
				d.wantStory(index, story)
			})
		}
	}
}

// TestContentSetMarkedCut: the content of a train is changed in a node, which then cuts it.
func TestContentSetMarkedCut(t *testing.T) {
	for _, name := range []string{"train-tcp", "train-fixed", "train-six-tcp"} {
		t.Run(name, func(t *testing.T) {
			d := newDomain(t, config{})
			tr := loadTrain(t, name)
			inside := flipped(t, d.ingress(r1In, d.link(d.send(tr.whole), 0)), 9)
			parts := trainOf{segments: make([][]byte, len(tr.segments)), fixedID: tr.fixedID}
			for k, s := range tr.segments {
				parts.segments[k] = flipped(t, frame{data: s}, 9).data
			}
			for k, seg := range parts.cut(t, inside) {
				w := d.egress(r1Out, d.route(seg, r1In))
				same(t, fmt.Sprint("segment ", k), d.deliver(w, 1).data, lowered(t, parts.segments[k], 2))
			}
			if got := d.counters(); got[cChanged] != uint64(len(tr.segments)) || got[cForeignMark] != 0 {
				t.Errorf("%d changed, %d foreign", got[cChanged], got[cForeignMark])
			}
		})
	}
}

// TestContentSetMarkedOther: what bears the mark of a packet, and is too unlike it or elsewhere, is another one.
func TestContentSetMarkedOther(t *testing.T) {
	d := newDomain(t, config{})
	for _, c := range []struct {
		name, packet string
		change       func(frame) frame
		out          uint32
	}{
		{"other addresses of a datagram", "udp-64", func(f frame) frame {
			f = flipped(t, f, 8)
			f.data = nat(t, f.data)
			return f
		}, r1Out},
		{"sequence and length", "tcp-data", func(f frame) frame { return lengthened(t, flipped(t, f, 5)) }, r1Out},
		{"sequence and addresses", "tcp-data", func(f frame) frame {
			f = flipped(t, f, 5)
			f.data = nat(t, f.data)
			return f
		}, r1Out},
		{"in another node", "tcp-data", func(f frame) frame { return flipped(t, f, 9) }, h2Out},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, orig := d.in(t), whole(t, c.packet)
			in := d.ingress(r1In, d.link(d.send(orig), 0))
			d.counted(tally{cSeen: 1, cMarked: 1})
			f := d.route(c.change(in), r1In)
			if c.out != r1Out {
				f.from = 0
			}
			before := d.counters()
			out := d.egress(c.out, f)
			if c.out == r1Out {
				same(t, "as it leaves", out.data, f.data)
			}
			if got := d.counters(); got[cForeignMark] != before[cForeignMark]+1 || got[cChanged] != before[cChanged] {
				t.Errorf("foreign mark %d, changed %d", got[cForeignMark]-before[cForeignMark], got[cChanged]-before[cChanged])
			}
		})
	}
}

// TestContentSetInNode: a node that carries the header changes the content itself.
func TestContentSetInNode(t *testing.T) {
	d := newDomain(t, config{carry: "header"})
	for _, c := range contentSets {
		t.Run(c.name, func(t *testing.T) {
			d := d.in(t)
			orig := whole(t, c.packet)
			inside := c.change(t, d.ingress(r1In, d.link(d.send(orig), 0)))
			w := d.egress(r1Out, d.route(inside, r1In))
			same(t, "at h2", d.deliver(w, 0).data, lowered(t, c.change(t, orig).data, 1))
		})
	}
}

// TestContentSetByBridge: a bridge's rule changes the copies that it hands to the destination, and to
// a member that leads outside.
func TestContentSetByBridge(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		orig := frame{data: packet(t, "tcp-syn")}
		w := flipped(t, d.link(d.send(orig), 0), 25)
		want := flipped(t, orig, 25).data
		same(t, "behind the member", d.egress(member, d.onLink(w)).data, want)
		same(t, "at h2", d.deliver(w, 0).data, want)
		same(t, "for the host", d.up(w).data, want)
	}
}

// TestContentSetForeign: a packet that has the bits of one whose content may have changed, and is
// another, is left alone, and that one's slot is not written.
func TestContentSetForeign(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(d *domain, ours frame) // what becomes of the slot's packet
		change func(data []byte)           // besides the content
		want   tally
	}{
		{"address", nil, func(data []byte) { data[etherHeader+15]++ }, tally{cForeign: 1, cPassed: 1}},
		{"port", nil, func(data []byte) { data[etherHeader+21]++ }, tally{cForeign: 1, cPassed: 1}},
		{"protocol", nil, func(data []byte) { data[etherHeader+9] = 136 }, tally{cForeign: 1, cPassed: 1}},
		{"length", nil, func(data []byte) { data[etherHeader+3]-- }, tally{cForeign: 1, cPassed: 1}},
		{"DF clear", nil, func(data []byte) { data[etherHeader+6] = 0 }, tally{cPassed: 1}},
		{"another slot", nil, func(data []byte) { data[etherHeader+5] ^= 1 }, tally{cPassed: 1}},
		{"sent to another node", func(d *domain, _ frame) { d.sentTo(nodeH2) }, nil, tally{cForeign: 1, cPassed: 1}},
		{"came to the node", func(d *domain, ours frame) { d.ingress(closed, ours) }, nil, tally{cForeign: 1, cPassed: 1}},
		{"arrived", func(d *domain, ours frame) { d.deliver(ours, 0) }, nil, tally{cForeign: 1, cPassed: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDomain(t, config{})
			ours := d.link(d.send(frame{data: packet(t, "udp-64")}), 0)
			index := d.guid(ours.data)
			if c.before != nil {
				c.before(d, ours)
			}
			other := flipped(t, ours, 8)
			if c.change != nil {
				c.change(other.data)
				fixSum(other.data, etherHeader)
			}
			d.last = d.counters()
			before := d.slot(index)
			d.wantUntouched(other.data, c.want)
			if now := d.slot(index); !bytes.Equal(now.raw, before.raw) {
				t.Errorf("the slot of the other packet has changed: %q to %q", before.story(), now.story())
			}
		})
	}
	t.Run("between two segments", func(t *testing.T) {
		d := newDomain(t, config{})
		w := d.send(loadTrain(t, "train-fixed").whole)
		data := packet(t, "train-fixed.2")
		data = data[:len(data)-4]
		shorten(data)
		binary.BigEndian.PutUint32(data[etherHeader+24:], binary.BigEndian.Uint32(data[etherHeader+24:])+7)
		setBits(t, data, header(t, w.data).id(), 72, 0)
		d.last = d.counters()
		d.wantUntouched(data, tally{cForeign: 1, cPassed: 1})
	})
}
