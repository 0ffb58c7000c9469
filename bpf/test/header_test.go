// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// carryHeader makes all ports of some nodes carry the header, while the others carry
// the mark.
func (d *domain) carryHeader(nodes ...uint16) {
	d.Helper()
	for no, p := range portTable {
		for _, node := range nodes {
			if p.Node != node {
				continue
			}
			p.Flags |= uint16(bpfobj.TcRdrPortFlagRDR_PF_HEADER)
			p.Ifindex, p.NetnsInum = ifindex(no), netns(p.Node)
			d.put(bpfobj.TcMapPorts, uint32(no), p)
		}
	}
}

// allMarks are a node's own: with bits of ours among them.
const allMarks = 0xdeadbeef

// TestHeaderNode: between nodes that carry the mark there is one whose rules use all
// bits of it. It keeps its marks, the packet its story, the destination true bits.
func TestHeaderNode(t *testing.T) {
	for _, name := range append(byBits(), byKey()...) {
		if len(packet(t, name)) == 0 || header(t, packet(t, name)).ttl() < 4 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			d := newDomain(t, config{})
			d.carryHeader(nodeR1)
			orig := packet(t, name)
			index := uint32(d.nextPos()) & (d.layout.Slots - 1)
			in := d.link(d.send(frame{data: orig}), 2)
			in.mark = allMarks
			inside := d.ingress(r1In, in)
			if inside.mark != allMarks {
				t.Errorf("the node's mark became %#x", inside.mark)
			}
			w := d.egress(r1Out, d.route(inside, r1In))
			if w.mark != allMarks {
				t.Errorf("the node's mark became %#x behind its egress", w.mark)
			}
			same(t, "at h2", d.deliver(w, 0).data, lowered(t, orig, 3))
			d.counted(tally{cSeen: 1, cMarked: 1})
			if s := d.slot(index); s.State&uint8(stDone) == 0 || len(s.events()) != 4 {
				t.Errorf("story %s", s.story())
			}
		})
	}
}

// TestHeaderNodeBits: which bits such a node sees: those of the wire on what it
// passes on, true ones on what is for itself.
func TestHeaderNodeBits(t *testing.T) {
	d := newDomain(t, config{})
	d.carryHeader(nodeR1, nodeH2)
	orig := packet(t, "tcp-data")
	w := d.send(frame{data: orig})
	inside := d.ingress(r1In, d.link(w, 0))
	if bytes.Equal(inside.data, orig) || inside.mark != 0 {
		t.Fatalf("a node that carries the header got true bits, or mark %#x", inside.mark)
	}
	w = d.egress(r1Out, d.route(inside, r1In))
	end := d.deliver(w, 0)
	same(t, "at h2", end.data, lowered(t, orig, 1))
	if end.mark != 0 {
		t.Errorf("mark %#x on a packet in a node that carries the header", end.mark)
	}
}

// TestHeaderNodeToMarkNode: the other way round, a node that carries the mark between
// two that do not.
func TestHeaderNodeToMarkNode(t *testing.T) {
	d := newDomain(t, config{})
	d.carryHeader(nodeH1, nodeH2)
	for _, name := range append(byBits(), byKey()...) {
		if header(t, packet(t, name)).ttl() < 3 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			d, orig := d.in(t), packet(t, name)
			in, w := d.transit(d.egress(h1Out, frame{data: orig, mark: allMarks}), 0)
			same(t, "inside r1", in.data, orig)
			if in.mark == 0 || w.mark != 0 {
				t.Errorf("marks %#x inside, %#x behind a node that carries the mark", in.mark, w.mark)
			}
			same(t, "at h2", d.deliver(w, 0).data, lowered(t, orig, 1))
		})
	}
}

// TestHeaderNodeSource: what enters the domain at such a node is sourced where it goes
// on, or where it arrives, and what leaves there is restored.
func TestHeaderNodeSource(t *testing.T) {
	d := newDomain(t, config{})
	d.carryHeader(nodeR1)
	orig := packet(t, "udp-64")
	inside := d.ingress(r1Edge, frame{data: orig, mark: allMarks})
	same(t, "inside r1", inside.data, orig)
	d.counted(nil)
	w := d.egress(r1Out, d.route(inside, r1Edge))
	d.counted(tally{cSeen: 1, cMarked: 1})
	same(t, "at h2", d.deliver(w, 0).data, lowered(t, orig, 1))
	d.wantStory(d.guid(w.data), "out@2/FS deliver@3/F")

	w = d.send(frame{data: orig})
	out := d.egress(r1Edge, d.route(d.ingress(r1In, d.link(w, 1)), r1In))
	same(t, "outside", out.data, lowered(t, orig, 2))
	d.wantStory(d.guid(w.data), "out@0/FS in@1/F left@4/F")
	d.counted(tally{cSeen: 1, cMarked: 1})
}

// TestHeaderNodeQuote: an ICMP error of such a node quotes our bits; its egress puts
// the true ones back.
func TestHeaderNodeQuote(t *testing.T) {
	d := newDomain(t, config{})
	d.carryHeader(nodeR1)
	orig := packet(t, "udp-64")
	inside := d.ingress(r1In, d.link(d.send(frame{data: orig}), 0))
	got := d.egress(r1In, frame{data: quoting(t, "error-udp-64", inside.data)})
	end := d.ingress(h2In, d.link(got, 0)) // takes our bits off the error itself
	same(t, "the error", end.data, wantQuote(t, "error-udp-64", orig))
}

// TestHeaderSwitch: a node that carries the header floods what it has no port for. A copy
// that has left the domain is not the end of the others; an equal packet that comes when
// the packet has been everywhere is none of them.
func TestHeaderSwitch(t *testing.T) {
	d := newDomain(t, config{carry: "header"})
	orig := packet(t, "udp-64")
	w := d.send(frame{data: orig})
	index := d.guid(w.data)
	in := d.ingress(r1In, d.link(w, 0))
	in.from = ifindex(r1In)
	same(t, "outside", d.egress(r1Edge, in).data, orig)
	out := d.egress(r1Out, in)
	d.counted(tally{cSeen: 1, cMarked: 1})
	same(t, "at h2", d.deliver(out, 0).data, orig)
	story := "out@0/FS in@1/F left@4/F out@2/F deliver@3/F"
	d.wantStory(index, story)
	d.counted(nil)

	again := d.egress(r1Out, in)
	same(t, "one more", again.data, in.data)
	d.counted(tally{cForeign: 1, cPassed: 1})
	d.wantStory(index, story)
}

// TestHeaderMember: the same of a packet for a group that the switch is a member of, so
// that it has been shown the true bits.
func TestHeaderMember(t *testing.T) {
	for _, name := range []string{"group-multicast", "group-keyed", "group-limited-broadcast"} {
		t.Run(name, func(t *testing.T) {
			d := newDomain(t, config{carry: "header"})
			d.join(r1In, groups[name])
			d.join(h2In, groups[name])
			orig, keyed := packet(t, name), k(name == "group-keyed")
			index := uint32(d.nextPos()) & (d.layout.Slots - 1)
			in := d.ingress(r1In, d.link(d.send(frame{data: orig}), 0))
			same(t, "at r1", in.data, orig)
			in.from = ifindex(r1In)
			out := d.egress(r1Out, in)
			if keyed == "" {
				d.wantMarked(out.data, orig)
			}
			same(t, "at h2", d.deliver(out, 0).data, orig)
			d.counted(tally{cSeen: 1, cMarked: 1})
			d.wantStory(index, "out@0/FS"+keyed+" deliver@1/F"+keyed+" out@2/F"+keyed+" deliver@3/F"+keyed)
		})
	}
}

// TestHeaderCopies: two copies of a packet are in the node at once; that the first has left
// does not mean that the second is another packet.
func TestHeaderCopies(t *testing.T) {
	d := newDomain(t, config{carry: "header"})
	orig := packet(t, "udp-64")
	w := d.send(frame{data: orig})
	first, second := d.ingress(r1In, d.link(w, 0)), d.ingress(r1In, d.link(w, 0))
	first.from, second.from = ifindex(r1In), ifindex(r1In)
	same(t, "first", d.egress(r1Edge, first).data, orig)
	same(t, "second", d.egress(r1Edge, second).data, orig)
	d.counted(tally{cSeen: 1, cMarked: 1})
	third := d.egress(r1Edge, second)
	same(t, "one more", third.data, second.data)
	d.counted(tally{cForeign: 1, cPassed: 1})
}

// TestHeaderFullLog: the log has no room for the copy that a switch got late; it leaves
// with true bits all the same.
func TestHeaderFullLog(t *testing.T) {
	for _, size := range []uint32{128, 320} {
		d := newDomain(t, config{carry: "header", slotBytes: size})
		p := portTable[r1Edge]
		p.Node, p.Ifindex, p.NetnsInum = nodeH3, ifindex(r1Edge), netns(nodeH3)
		d.put(bpfobj.TcMapPorts, uint32(r1Edge), p)
		orig := packet(t, "udp-64")
		w := d.send(frame{data: orig})
		in := d.ingress(r1In, d.link(w, 0))
		in.from = ifindex(r1In)
		d.deliver(d.egress(r1Out, in), 0)
		late := d.ingress(h3In, d.link(w, 0))
		late.from = ifindex(h3In)
		same(t, "outside", d.egress(r1Edge, late).data, orig)
	}
}

// TestHeaderTree: one branch of a tree comes to a node that carries the header by a link of
// true bits. The others' bits stay what they were.
func TestHeaderTree(t *testing.T) {
	d := newDomain(t, config{carry: "header"})
	d.join(h2In, groups["group-multicast"])
	d.join(h3In, groups["group-multicast"])
	for _, no := range []uint32{closed, h2Out} {
		p := portTable[no]
		p.Ifindex, p.NetnsInum = ifindex(int(no)), netns(p.Node)
		p.Flags = internal | uint16(bpfobj.TcRdrPortFlagRDR_PF_TRUE)
		d.put(bpfobj.TcMapPorts, no, p)
	}
	orig := packet(t, "group-multicast")
	w := d.send(frame{data: orig})
	in := d.route(d.ingress(r1In, d.link(w, 0)), r1In)
	fast, slow := d.egress(closed, in), d.egress(r1Out, in)
	same(t, "on the true link", fast.data, lowered(t, orig, 1))
	at := d.ingress(h2Out, d.link(fast, 0))
	same(t, "the other branch", d.deliver(slow, 0).data, lowered(t, orig, 1))
	same(t, "late, on the first link", d.deliver(w, 0).data, orig)
	out := d.egress(h2In, d.route(at, h2Out))
	d.guid(out.data)
	same(t, "behind the node", d.ingress(h3In, d.link(out, 0)).data, lowered(t, orig, 2))
	d.counted(tally{cSeen: 1, cMarked: 1})
}
