// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// sentTo makes what h1 sends go to that node alone: elsewhere it is not due.
func (d *domain) sentTo(node uint16) {
	d.Helper()
	p := portTable[h1Out]
	p.Ifindex, p.NetnsInum, p.Towards = ifindex(h1Out), netns(p.Node), node+1
	d.put(bpfobj.TcMapPorts, uint32(h1Out), p)
}

// TestForeign: packets that nobody marked but whose bits look like a GUID, of a
// packet in flight at that, to another node. They differ in nothing else but what the case says.
// (At that node one of the same flow is the packet itself: TestContentSet.)
func TestForeign(t *testing.T) {
	change := func(at int) func([]byte) {
		return func(data []byte) { data[etherHeader+20+at] ^= 0x40 }
	}
	for _, c := range []struct {
		name, packet string
		change       func([]byte)
	}{
		{"tcp sequence", "tcp-data", change(5)},
		{"tcp ack", "tcp-data", change(9)},
		{"tcp timestamp", "tcp-data", change(25)},
		{"tcp sequence of a pure ack", "tcp-ack", change(5)},
		{"udp payload", "udp-64", change(8)},
		{"udp payload, second word", "udp-64", change(14)},
		{"udp payload of 8 bytes", "udp-8", change(15)},
		{"icmp sequence", "icmp-echo", change(7)},
		{"icmp payload", "icmp-echo", change(9)},
		{"icmp type", "icmp-echo", change(0)},
		{"other protocol", "proto-253", change(0)},
		{"other protocol, second word", "proto-253", change(7)},
		{"esp sequence", "esp", change(7)},
		{"protocol number", "proto-253", func(data []byte) { data[etherHeader+9] = 254 }},
		{"length", "udp-64", func(data []byte) {
			binary.BigEndian.PutUint16(data[etherHeader+2:], 91)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDomain(t, config{})
			d.sentTo(nodeH2)
			ours := d.send(frame{data: packet(t, c.packet)})
			d.counted(tally{cSeen: 1, cMarked: 1})
			foreign := bytes.Clone(ours.data)
			c.change(foreign)
			fixSum(foreign, etherHeader)
			d.wantUntouched(foreign, tally{cForeign: 1, cPassed: 1})
			same(t, "ours", d.deliver(ours, 0).data, packet(t, c.packet))
		})
	}
}

// wantUntouched sends a packet through the hooks of a port that sources nothing.
func (d *domain) wantUntouched(data []byte, want tally) {
	d.Helper()
	in := d.ingress(closed, frame{data: data})
	same(d, "behind ingress", in.data, data)
	if in.mark != 0 {
		d.Errorf("mark %#x on a packet that is not ours", in.mark)
	}
	d.counted(want)
	out := d.egress(closed, frame{data: data})
	same(d, "behind egress", out.data, data)
	d.counted(want)
}

// TestForeignGUID: bits that lie in a band but stand for no packet.
func TestForeignGUID(t *testing.T) {
	d := newDomain(t, config{slots: 4096})
	ours := d.send(frame{data: packet(t, "udp-64")})
	d.counted(tally{cSeen: 1, cMarked: 1})
	index := uint16(d.guid(ours.data))
	for _, c := range []struct {
		name string
		id   uint16
		ttl  byte
		want tally
	}{
		{"a slot that was never used", index + 9, 72, tally{cPassed: 1}},
		{"beyond the ring", index + 4096, 72, tally{cPassed: 1}},
		{"another band", index, 73, tally{cPassed: 1}},
		{"below the band", index, 64, tally{cPassed: 1}},
		{"TTL 0", index, 0, tally{cPassed: 1}},
		{"TTL 255", index, 255, tally{cPassed: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := packet(t, "udp-64")
			if c.id == index {
				data[etherHeader+20+8] ^= 1 // else it is ours, see TestTTLSet
			}
			setBits(t, data, c.id, c.ttl, 0)
			d.in(t).wantUntouched(data, c.want)
		})
	}
	t.Run("DF clear", func(t *testing.T) {
		data := bytes.Clone(ours.data)
		data[etherHeader+6] = 0
		fixSum(data, etherHeader)
		d.in(t).wantUntouched(data, tally{cPassed: 1})
	})
	t.Run("a segment of a train that has other sizes", func(t *testing.T) {
		d := newDomain(t, config{})
		d.sentTo(nodeH2)
		w := d.send(loadTrain(t, "train-fixed").whole)
		d.counted(tally{cSeen: 5, cMarked: 5})
		data := packet(t, "train-fixed.2")
		data[etherHeader+20+7]++ // between two segments
		setBits(t, data, header(t, w.data).id(), 72, 0)
		d.wantUntouched(data, tally{cForeign: 1, cPassed: 1})
	})
}

// TestSourceOfForeign: a packet whose own bits look like a GUID is sourced like any
// other, also where that GUID is another packet's.
func TestSourceOfForeign(t *testing.T) {
	d := newDomain(t, config{})
	for range 3 {
		d.send(frame{data: packet(t, "tcp-data")})
	}
	orig := packet(t, "udp-64")
	setBits(t, orig, 2, 71, 0)
	d.counted(tally{cSeen: 3, cMarked: 3})
	w := d.send(frame{data: orig})
	d.counted(tally{cSeen: 1, cMarked: 1, cForeign: 1})
	d.wantMarked(w.data, orig)
	_, w = d.transit(w, 3)
	same(t, "at h2", d.deliver(w, 0).data, lowered(t, orig, 4))
}

// TestLooksLikeOurs: packets of another flow have the bits and the content of one in flight, where
// that one cannot be. They get a slot of their own, and nobody sees the other's header.
func TestLooksLikeOurs(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		orig := packet(t, "udp-64")
		for _, c := range []struct {
			name  string
			enter func(d *domain, data []byte) frame
		}{
			{"comes by an edge", func(d *domain, data []byte) frame {
				return d.egress(r1Out, d.route(d.ingress(r1Edge, frame{data: data}), r1Edge))
			}},
			{"comes by a bridge's member", func(d *domain, data []byte) frame { return d.ingress(member, frame{data: data}) }},
		} {
			t.Run(carry+"/"+c.name, func(t *testing.T) {
				d := d.in(t)
				w := d.send(frame{data: orig})
				d.counted(tally{cSeen: 1, cMarked: 1})
				other, taken, foreign := bytes.Clone(w.data), 0, uint64(1)
				other[etherHeader+20] ^= 1 // its source port
				fixSum(other, etherHeader)
				if strings.Contains(c.name, "edge") {
					taken = 1
					if carry == "header" {
						foreign++ // sourced, and asked for, where it leaves
					}
				}
				out := c.enter(d, other)
				d.counted(tally{cSeen: 1, cMarked: 1, cForeign: foreign})
				same(t, "the other, at h2", d.deliver(out, 0).data, lowered(t, other, taken))
				same(t, "ours, at h2", d.deliver(w, 0).data, orig)
			})
		}
		// Ours are found though the node has changed their source port.
		for _, c := range []struct {
			name string
			at   uint32
			from uint32
		}{
			{"by a function in user space", r1Out, 0},
			{"by the node", r1Out, ifindex(r1In)},
			{"by a bridge", bridge, ifindex(member)},
		} {
			t.Run(carry+"/ours, changed "+c.name, func(t *testing.T) {
				d := d.in(t)
				w := d.send(frame{data: orig})
				if c.at == r1Out {
					d.ingress(r1In, d.link(w, 0))
				}
				want := bytes.Clone(orig)
				for _, data := range [][]byte{w.data, want} {
					data[etherHeader+20] ^= 1
					fixSum(data, etherHeader)
				}
				w.from = c.from
				first, second := d.egress(c.at, w), d.egress(c.at, w) // and duplicated
				same(t, "at h2", d.deliver(first, 0).data, want)
				same(t, "at h2, the second", d.deliver(second, 0).data, want)
			})
		}
	}
}

// TestForeignMark: only marks that are ours, on packets that are ours, are touched.
func TestForeignMark(t *testing.T) {
	d := newDomain(t, config{})
	w := d.send(frame{data: packet(t, "tcp-data")})
	inside := d.ingress(r1In, d.link(w, 0))
	d.counted(tally{cSeen: 1, cMarked: 1})
	mine := inside.mark

	other := packet(t, "udp-64") // a tunnel's outer packet inherits the mark
	for _, mark := range []uint32{mine, mine + 1<<d.layout.MarkShift, d.layout.MarkMask, 1 << d.layout.MarkShift} {
		out := d.egress(closed, frame{data: other, mark: mark | 0x1})
		same(t, "another packet", out.data, other)
		if out.mark != mark|0x1 {
			t.Errorf("mark %#x became %#x", mark|0x1, out.mark)
		}
		d.counted(tally{cForeignMark: 1, cPassed: 1})
	}
	// Bits that are not ours stay, beside ours.
	inside = d.ingress(r1In, frame{data: w.data, mark: 0x7})
	if inside.mark != mine|0x7 {
		t.Errorf("mark %#x, want %#x", inside.mark, mine|0x7)
	}
	if out := d.egress(r1Out, d.route(inside, r1In)); out.mark != 0x7 {
		t.Errorf("mark %#x, want 0x7", out.mark)
	}
	d.counted(nil)
	// Ours are in use: restored, not marked, and the mark stays.
	w = d.send(frame{data: packet(t, "tcp-data")})
	d.counted(tally{cSeen: 1, cMarked: 1})
	busy := 0x5 << d.layout.MarkShift
	inside = d.ingress(r1In, frame{data: w.data, mark: uint32(busy)})
	same(t, "inside r1", inside.data, packet(t, "tcp-data"))
	if inside.mark != uint32(busy) {
		t.Errorf("mark %#x became %#x", busy, inside.mark)
	}
	d.counted(tally{cMarkBusy: 1})
	same(t, "behind r1", d.egress(r1Out, d.route(inside, r1In)).data, lowered(t, inside.data, 1))
	d.counted(tally{cForeignMark: 1, cPassed: 1})
}

// TestMarkMask: --carry mark=MASK keeps to its bits.
func TestMarkMask(t *testing.T) {
	d := newDomain(t, config{carry: "mark=0x00fffc00"})
	for i := range 20 {
		orig := unique(t, i)
		w := d.send(frame{data: orig, mark: 0xa50003ff})
		if w.mark != 0xa50003ff {
			t.Errorf("mark became %#x", w.mark)
		}
		f := d.link(w, 0)
		f.mark = 0xa50003ff
		inside := d.ingress(r1In, f)
		if inside.mark&^d.layout.MarkMask != 0xa50003ff || d.markIndex(inside.mark) != d.guid(w.data) {
			t.Errorf("mark %#x for slot %d", inside.mark, d.guid(w.data))
		}
		out := d.egress(r1Out, d.route(inside, r1In))
		if out.mark != 0xa50003ff {
			t.Errorf("mark became %#x", out.mark)
		}
		same(t, "at h2", d.deliver(out, 0).data, lowered(t, orig, 1))
	}
}

// TestChangesOnTheWay: what nodes and queues that we do not see may do to a packet
// of ours. It stays ours, and their change stays.
func TestChangesOnTheWay(t *testing.T) {
	l4 := func(data []byte) []byte { at := ipAt(data); return data[at+headerLen(data[at:]):] }
	for _, c := range []struct {
		name, packet string
		change       func(testing.TB, []byte) []byte
	}{
		{"NAT of TCP", "tcp-data", nat},
		{"NAT of UDP", "udp-64", nat},
		{"NAT of an echo", "icmp-echo", nat},
		{"NAT of SCTP", "sctp-data", func(t testing.TB, data []byte) []byte {
			data = nat(t, data) // and with the ports its checksum
			copy(l4(data)[8:], []byte{1, 2, 3, 4})
			return data
		}},
		{"SCTP checksum filled in by a queue", "sctp-data", func(_ testing.TB, data []byte) []byte {
			copy(l4(data)[8:], []byte{1, 2, 3, 4})
			return data
		}},
		{"TCP window", "tcp-ack", func(_ testing.TB, data []byte) []byte { l4(data)[14] ^= 1; return data }},
		{"L4 checksum", "udp-64", func(_ testing.TB, data []byte) []byte { l4(data)[6] ^= 1; return data }},
		{"congestion experienced", "dscp-ef-ect", func(_ testing.TB, data []byte) []byte {
			data[etherHeader+1] |= 3
			fixSum(data, etherHeader)
			return data
		}},
		{"DSCP", "tcp-data", func(_ testing.TB, data []byte) []byte {
			data[etherHeader+1] = 0xb8
			fixSum(data, etherHeader)
			return data
		}},
		{"addresses of the frame", "udp-64", func(_ testing.TB, data []byte) []byte { data[5] ^= 9; return data }},
		{"IP option written by a router", "options-40", func(_ testing.TB, data []byte) []byte {
			copy(data[etherHeader+24:], []byte{192, 0, 2, 9})
			fixSum(data, etherHeader)
			return data
		}},
	} {
		t.Run(c.name+"/on the wire", func(t *testing.T) {
			d := newDomain(t, config{})
			orig := packet(t, c.packet)
			w := d.link(d.send(frame{data: orig}), 0)
			w.data = c.change(t, w.data)
			same(t, "at h2", d.deliver(w, 2).data, lowered(t, c.change(t, bytes.Clone(orig)), 2))
		})
		t.Run(c.name+"/in the node", func(t *testing.T) {
			d := newDomain(t, config{})
			orig := packet(t, c.packet)
			inside := d.ingress(r1In, d.link(d.send(frame{data: orig}), 0))
			inside.data = c.change(t, bytes.Clone(inside.data))
			w := d.egress(r1Out, d.route(inside, r1In))
			want := lowered(t, c.change(t, bytes.Clone(orig)), 1)
			d.wantMarked(w.data, want)
			same(t, "at h2", d.deliver(w, 0).data, want)
		})
	}
}

// TestNAT: the log has the place where addresses changed.
func TestNAT(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "tcp-data")
	w := d.send(frame{data: orig})
	inside := d.route(d.ingress(r1In, d.link(w, 0)), r1In)
	inside.data = nat(t, inside.data)
	d.deliver(d.egress(r1Out, inside), 0)
	index := d.guid(w.data)
	d.wantStory(index, "out@0/FS in@1/F addr@2/F out@2/F deliver@3/F")
	s := d.slot(index)
	if at := cellAt(3); !bytes.Equal(s.raw[at:at+8], []byte{10, 0, 3, 3, 10, 0, 4, 2}) ||
		!bytes.Equal(s.raw[at+8:at+16], []byte{33333 >> 8, 33333 & 0xff, 443 >> 8, 443 & 0xff, 0, 0, 0, 0}) {
		t.Errorf("data cells of the event: %x", s.raw[at:at+16])
	}
}

// TestDuplicate: every copy of a packet is restored, also when the first has gone
// further and lost TTL meanwhile.
func TestDuplicate(t *testing.T) {
	d := newDomain(t, config{minAge: 0})
	orig := packet(t, "ttl-8")
	w := d.send(frame{data: orig})
	d.transit(w, 0) // the slot says TTL 7 now
	in := d.ingress(r1In, d.link(w, 7))
	if ttl := header(t, in.data).ttl(); ttl != 1 || !validChecksum(t, in.data) {
		t.Errorf("a copy with more decrements than its TTL had left has TTL %d", ttl)
	}
	d.counted(tally{cSeen: 1, cMarked: 1, cUnderflow: 1})
	d = newDomain(t, config{})
	orig = packet(t, "tcp-data")
	w = d.send(frame{data: orig})
	for range 3 {
		same(t, "copy", d.deliver(w, 0).data, orig)
	}
}

// TestForeignMarkOnFragments: a socket's own mark in our bits stays on later fragments too, and
// makes none of them one that was cut here: not if no packet has that mark, nor if it is of
// another protocol, of another IP version, or was never in the node.
func TestForeignMarkOnFragments(t *testing.T) {
	d := newDomain(t, config{})
	marks := map[string]uint32{"none": d.layout.MarkMask & 0xf0f00000}
	for _, name := range []string{"tcp-data", "six-udp-64"} {
		marks[name] = d.ingress(r1In, d.link(d.send(frame{data: packet(t, name)}), 0)).mark
	}
	elsewhere := d.guid(d.send(frame{data: packet(t, "udp-64")}).data)
	marks["elsewhere"] = (elsewhere + 1) << d.layout.MarkShift
	for what, mark := range marks {
		t.Run(what, func(t *testing.T) {
			d := d.in(t)
			for _, name := range []string{"fragment-middle", "fragment-last"} {
				f := d.egress(r1Edge, frame{data: packet(t, name), mark: mark, from: ifindex(r1In)})
				if f.mark != mark {
					t.Errorf("%s: the socket's mark %#x became %#x", name, mark, f.mark)
				}
			}
			d.counted(tally{cForeignMark: 2, cPassed: 2})
		})
	}
}
