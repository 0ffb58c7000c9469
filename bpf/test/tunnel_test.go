// SPDX-License-Identifier: Apache-2.0

package test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// tunnels makes links between nodes of r1Out and h2In as tunnels are: their packets
// travel inside others, which leave by closed and come in by h2Out; flags are further
// ones of the tunnel's ports.
func (d *domain) tunnels(flags bpfobj.TcRdrPortFlag) {
	d.Helper()
	for _, no := range []uint32{r1Out, h2In} {
		p := portTable[no]
		p.Ifindex, p.NetnsInum = ifindex(int(no)), netns(p.Node)
		p.Flags |= uint16(bpfobj.TcRdrPortFlagRDR_PF_TUNNEL | flags)
		d.put(bpfobj.TcMapPorts, no, p)
	}
	p := portTable[closed]
	p.Ifindex, p.NetnsInum, p.Flags = ifindex(closed), netns(p.Node), internal
	d.put(bpfobj.TcMapPorts, uint32(closed), p)
}

// outerPacket is what a tunnel makes of any packet: it inherits its mark.
func outerPacket(t testing.TB, inner frame) frame {
	t.Helper()
	return frame{data: packet(t, "udp-1472"), mark: inner.mark}
}

// TestTunnel: the inner packet keeps its story over the tunnel. The outer one has its own,
// names the inner one, and ends with the tunnel.
func TestTunnel(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags bpfobj.TcRdrPortFlag
		story string
		keyed bool
	}{
		{"bits", 0, "out@0/FS in@1/F out@2/F deliver@3/F", false},
		{"true bits", bpfobj.TcRdrPortFlagRDR_PF_TRUE, "out@0/FS in@1/F out@2/FK deliver@3/FK", true},
	} {
		t.Run(c.name, func(t *testing.T) { testTunnel(t, c.flags, c.story, c.keyed) })
	}
}

func testTunnel(t *testing.T, flags bpfobj.TcRdrPortFlag, story string, keyed bool) {
	d := newDomain(t, config{})
	d.tunnels(flags)
	orig := packet(t, "tcp-data")
	w := d.send(frame{data: orig})
	index := d.guid(w.data)
	_, inner := d.transit(w, 0)
	if inner.mark == 0 {
		t.Error("nothing for the outer packet to inherit")
	}
	if keyed {
		same(t, "inside the tunnel", inner.data, lowered(t, orig, 1))
	} else {
		d.wantMarked(inner.data, lowered(t, orig, 1))
	}
	outerOrig := outerPacket(t, inner)
	outer := d.egress(closed, outerOrig)
	d.wantMarked(outer.data, outerOrig.data)
	if outer.mark != 0 {
		t.Errorf("mark %#x goes into a queue", outer.mark)
	}
	around := d.guid(outer.data)
	s := d.slot(around)
	if s.Nev != 4 || s.Ev0[1]>>60 != uint64(bpfobj.TcRdrEventRDR_EV_INNER) || s.Ev0[2] != d.slot(index).Pos {
		t.Errorf("outer packet: %d cells, %#x; inside is position %d", s.Nev, s.Ev0, d.slot(index).Pos)
	}
	// The outer packet ends at h2, and what was inside bears its mark.
	end := d.ingress(h2Out, d.link(outer, 0))
	same(t, "outer packet at h2", end.data, outerOrig.data)
	last := d.ingress(h2In, frame{data: inner.data, mark: end.mark})
	same(t, "at h2", last.data, lowered(t, orig, 1))
	if want := (index + 1) << d.layout.MarkShift; last.mark != want || end.mark == want {
		t.Errorf("mark %#x behind the tunnel, want %#x", last.mark, want)
	}
	d.wantStory(index, story)
	d.counted(tally{cSeen: 2, cMarked: 2})
	if n := d.keyCount(); n != 0 {
		t.Errorf("%d keys left: %v", n, d.keyList())
	}
}

// TestTunnelTooBig: a tunnel answers that a packet is too large, by an error that comes in by its own port
// and quotes it. The packet is lost there; one of which another error comes, or that did not go into a
// tunnel, is not.
func TestTunnelTooBig(t *testing.T) {
	const icmp, lost = etherHeader + 20, "out@0/FS in@1/F out@2/F loss@2/F"
	for _, c := range []struct {
		name       string
		tunnel     bool
		kind, code byte
		port       uint32
		want       string
	}{
		{"too big", true, 3, 4, r1Out, lost},
		{"unreachable", true, 3, 1, r1Out, "out@0/FS in@1/F out@2/F"},
		{"by another port", true, 3, 4, closed, "out@0/FS in@1/F out@2/F"},
		{"no tunnel", false, 3, 4, r1Out, "out@0/FS in@1/F out@2/F"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDomain(t, config{})
			if c.tunnel {
				d.tunnels(0)
			}
			w := d.send(frame{data: packet(t, "tcp-data")})
			index := d.guid(w.data)
			_, inner := d.transit(w, 0)
			answer := quoting(t, "error-tcp-data", inner.data)
			answer[icmp], answer[icmp+1] = c.kind, c.code
			d.ingress(c.port, frame{data: answer})
			d.wantStory(index, c.want)
		})
	}
}

// TestTunnelEdge: a mark that is inherited from a packet that did not go into a tunnel of
// ours names nothing.
func TestTunnelEdge(t *testing.T) {
	d := newDomain(t, config{})
	d.tunnels(0)
	inside := d.ingress(r1In, d.link(d.send(frame{data: packet(t, "tcp-data")}), 0))
	outer := d.egress(closed, outerPacket(t, inside))
	if outer.mark != inside.mark {
		t.Errorf("mark %#x became %#x", inside.mark, outer.mark)
	}
	if s := d.slot(d.guid(outer.data)); s.Nev != 1 {
		t.Errorf("%d cells", s.Nev)
	}
	d.counted(tally{cSeen: 2, cMarked: 2, cForeignMark: 1})
}

// TestTrueLinkCarriesOn: behind a link of true bits a packet has a GUID again, and no
// key; so it has inside a node that carries the header.
func TestTrueLinkCarriesOn(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		t.Run(carry, func(t *testing.T) {
			d := newDomain(t, config{carry: carry})
			for _, no := range []uint32{h1Out, r1In} {
				p := portTable[no]
				p.Ifindex, p.NetnsInum = ifindex(int(no)), netns(p.Node)
				p.Flags |= uint16(bpfobj.TcRdrPortFlagRDR_PF_TRUE)
				d.put(bpfobj.TcMapPorts, no, p)
			}
			orig := packet(t, "tcp-data")
			index := uint32(d.nextPos()) & (d.layout.Slots - 1)
			w1 := d.send(frame{data: orig})
			same(t, "on the true link", w1.data, orig)
			_, w2 := d.transit(w1, 2)
			d.wantMarked(w2.data, lowered(t, orig, 3))
			if n := d.keyCount(); n != 0 {
				t.Errorf("%d keys behind it: %v", n, d.keyList())
			}
			same(t, "at h2", d.deliver(w2, 1).data, lowered(t, orig, 4))
			d.wantStory(index, "out@0/FSK in@1/FK out@2/F deliver@3/F")
			d.counted(tally{cSeen: 1, cMarked: 1})
		})
	}
}

// TestTunnelBusyMark: a socket has set bits of ours on what it sends into a tunnel: they are
// its own, and the packet around it names none.
func TestTunnelBusyMark(t *testing.T) {
	d := newDomain(t, config{})
	d.tunnels(0)
	mark := d.layout.MarkMask & 0xf0f00000
	out := d.egress(r1Out, frame{data: packet(t, "tcp-data"), mark: mark})
	if out.mark != mark {
		t.Errorf("the socket's mark %#x became %#x", mark, out.mark)
	}
	d.counted(tally{cSeen: 1, cMarked: 1, cForeignMark: 1, cMarkBusy: 1})
}
