// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// TestSpelled: a process in an attached node sends what a packet of others looks like that waits
// in a queue elsewhere, and says that it is that one: by a mark (SO_MARK), or by the header that
// the packet has on the wire. It gets a backpack of its own, and changes nothing about the other.
func TestSpelled(t *testing.T) {
	for _, c := range []struct {
		name, packet string
		bits         bool
	}{
		{"mark", "udp-64", false},
		{"mark", "tcp-data", false},
		{"mark", "six-udp-64", false},
		{"bits", "udp-64", true},
		{"bits", "tcp-data", true},
		{"bits", "six-udp-64", true},
	} {
		t.Run(c.name+"/"+c.packet, func(t *testing.T) {
			d := newDomain(t, config{})
			d.towards(h1Out, nodeR1)
			orig := packet(t, c.packet)
			w := d.send(frame{data: orig}) // and waits
			d.counted(tally{cSeen: 1, cMarked: 1})
			index := d.guid(w.data)
			before := d.slot(index)

			forged := frame{data: lowered(t, orig, 8), mark: 0x1 | (index+1)<<d.layout.MarkShift}
			if c.bits {
				forged = frame{data: bytes.Clone(w.data), mark: 0x1}
				decrement(t, forged.data)
			}
			was := bytes.Clone(forged.data)
			out := d.egress(h2Out, forged)
			want := tally{cSeen: 1, cMarked: 1, cNotHere: 1}
			if !c.bits {
				want[cForeignMark] = 1
			}
			d.counted(want)
			if other := d.guid(out.data); other == index {
				t.Errorf("it has the backpack %d of the other packet", index)
			}
			if out.mark != forged.mark {
				t.Errorf("its mark %#x became %#x", forged.mark, out.mark)
			}
			d.wantMarked(out.data, was)
			if now := d.slot(index); !bytes.Equal(now.raw, before.raw) {
				t.Errorf("the slot of the other packet has changed: %q to %q", before.story(), now.story())
			}
			_, w = d.transit(w, 0)
			same(t, "at h2", d.deliver(w, 0).data, lowered(t, orig, 1))
			d.counted(nil)
			d.wantStory(index, "out@0/FS in@1/F out@2/F deliver@3/F")
		})
	}
}

// TestSpelledAgain: nor by one who has seen the packet: it has gone on, and waits in the next queue.
func TestSpelledAgain(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "udp-64")
	inside, w := d.transit(d.send(frame{data: orig}), 0)
	d.counted(tally{cSeen: 1, cMarked: 1})
	index := d.guid(w.data)
	for _, c := range []struct {
		name string
		port uint32
	}{{"the same port", r1Out}, {"another port", r1In}} {
		t.Run(c.name, func(t *testing.T) {
			d := d.in(t)
			forged := frame{data: lowered(t, orig, 9), mark: inside.mark}
			if c.port == r1In { // once another node has seen it
				d.deliver(w, 0)
			}
			d.wantMarked(d.egress(c.port, forged).data, forged.data)
			d.counted(tally{cSeen: 1, cMarked: 1, cNotHere: 1, cForeignMark: 1})
		})
	}
	same(t, "at h2", d.deliver(w, 0).data, lowered(t, orig, 1))
	d.wantStory(index, "out@0/FS in@1/F out@2/F deliver@3/F deliver@3/F")
}

// TestComesAgain: a packet goes round in a circle. A switch sends copies of it out by several ports, the second time as the
// first time: each is the packet, not one that only says so.
func TestComesAgain(t *testing.T) {
	for _, name := range []string{"udp-64", "tcp-data", "six-udp-64"} {
		t.Run(name, func(t *testing.T) {
			d := newDomain(t, config{})
			orig := packet(t, name)
			_, w := d.transit(d.send(frame{data: orig}), 0)
			index := d.guid(w.data)
			inside := d.ingress(r1In, d.link(w, 0))
			d.counted(tally{cSeen: 1, cMarked: 1})
			for _, port := range []uint32{closed, r1Out} {
				w = d.egress(port, d.route(inside, r1In))
				if got := d.guid(w.data); got != index {
					t.Errorf("by port %d it leaves with the backpack %d, want its own, %d", port, got, index)
				}
			}
			d.counted(nil)
			same(t, "at h2", d.deliver(w, 0).data, lowered(t, orig, 2))
			d.wantStory(index, "out@0/FS in@1/F out@2/F in@1/F out@5/F out@2/F deliver@3/F")
		})
	}
}

// TestSpelledTrain: the mark of a packet that was here, on a train that would reach over the slots
// of others behind it.
func TestSpelledTrain(t *testing.T) {
	d := newDomain(t, config{})
	train := loadTrain(t, "train-fixed").whole
	own := packet(t, "train-fixed.0")
	inside := d.ingress(r1In, d.link(d.send(frame{data: own}), 0))
	index := d.guid(d.send(frame{data: packet(t, "udp-64")}).data)
	for range 3 {
		d.send(frame{data: packet(t, "udp-8")})
	}
	d.counted(tally{cSeen: 5, cMarked: 5})
	before := d.slot(index)
	train.mark = inside.mark
	d.egress(r1Out, train)
	d.counted(tally{cSeen: 5, cMarked: 5, cNotHere: 5, cForeignMark: 5})
	if now := d.slot(index); !bytes.Equal(now.raw, before.raw) {
		t.Errorf("the slot of another packet has changed: %q to %q", before.story(), now.story())
	}
}

// towards says what node is at the other end of a port's link.
func (d *domain) towards(port uint32, node uint16) {
	d.Helper()
	var p bpfobj.TcRdrPort
	if err := d.Maps[bpfobj.TcMapPorts].Lookup(port, &p); err != nil {
		d.Fatal(err)
	}
	p.Towards = node + 1
	d.put(bpfobj.TcMapPorts, port, p)
}
