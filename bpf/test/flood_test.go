// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// TestFloodedCopyWaits: r1 is a switch that hands copies out by two ports. One has arrived; however
// often the ring comes round, the other, which waits in a slow queue, has its true header when it
// comes out. Once it has been seen, or after the timeout, the slot is free.
func TestFloodedCopyWaits(t *testing.T) {
	for _, c := range []struct {
		carry string
		free  bool // once all copies have been seen
	}{{"mark", true}, {"header", false}} {
		t.Run(c.carry, func(t *testing.T) {
			d := newDomain(t, config{slots: 64, block: 16, carry: c.carry})
			orig := unique(t, 0)
			inside := d.ingress(r1In, d.send(frame{data: orig}))
			inside.from = ifindex(r1In)
			one, other := d.egress(r1Out, inside), d.egress(closed, inside)
			index := d.guid(other.data)
			same(t, "at h2", d.deliver(one, 0).data, orig)
			for i := range 63 {
				d.deliver(d.send(frame{data: unique(t, 1+i)}), 0)
			}
			// Of the second round 63 find a slot.
			for i := range 64 {
				if w := d.send(frame{data: unique(t, 100+i)}); header(t, w.data).id() == uint16(index) {
					t.Fatalf("packet %d of the second round has the slot of a copy that waits", i)
				}
			}
			n := d.counters()
			if n[cMarked] != 1+63+63 || n[cSkipped] == 0 {
				t.Errorf("%d marked, %d slots stepped over", n[cMarked], n[cSkipped])
			}
			same(t, "the other copy", d.ingress(h3In, d.link(other, 0)).data[etherHeader+12:], orig[etherHeader+12:])
			if s := d.slot(index); (s.Cut == 0) != c.free {
				t.Errorf("once both have been seen: cut %d, %q", s.Cut, s.story())
			}
			for i := range uint32(64) {
				d.age(i, time.Minute)
			}
			d.startAt(128)
			if w := d.send(frame{data: unique(t, 500)}); d.guid(w.data) != 0 {
				t.Errorf("after the timeout: slot %d", d.guid(w.data))
			}
		})
	}
	t.Run("no copies", func(t *testing.T) {
		d := newDomain(t, config{})
		_, w := d.transit(d.send(frame{data: unique(t, 0)}), 0)
		d.deliver(w, 0)
		if s := d.slot(d.guid(w.data)); s.Cut != 0 {
			t.Error(fmt.Sprintf("cut %d", s.Cut), s.story())
		}
	})
}

// TestCopiesLeave: both copies leave the domain. Their headers are true, and nobody needs the slot
// any more: it is not kept to the timeout.
func TestCopiesLeave(t *testing.T) {
	d := newDomain(t, config{})
	d.put(bpfobj.TcMapPorts, uint32(closed), &bpfobj.TcRdrPort{
		Node: nodeR1, Ifindex: ifindex(closed), NetnsInum: netns(nodeR1), Flags: portTable[r1Edge].Flags,
	})
	orig := unique(t, 0)
	w := d.send(frame{data: orig})
	inside := d.ingress(r1In, d.link(w, 0))
	inside.from = ifindex(r1In)
	same(t, "one copy", d.egress(r1Edge, inside).data, orig)
	same(t, "the other copy", d.egress(closed, inside).data, orig)
	index := d.guid(w.data)
	d.wantStory(index, "out@0/FS in@1/F left@4/F left@5/F")
	if s := d.slot(index); s.Cut&uint8(bpfobj.TcRdrCutRDR_COPIES) != 0 {
		t.Errorf("the slot is kept for copies that have left")
	}
}
