// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"testing"
)

// TestContentChangedEarly: a program spells a packet that still waits on its way to the node. The
// slot is kept for that packet, which arrives with true bits.
func TestContentChangedEarly(t *testing.T) {
	d := newDomain(t, config{carry: "header", slots: 16})
	orig := packet(t, "udp-64")
	w := d.send(frame{data: orig})
	index := d.guid(w.data)
	forged := d.route(d.link(w, 0), r1In)
	forged.from = 0
	_, l4 := l4Of(forged.data, etherHeader)
	forged.data[l4+8] ^= 0x40
	d.egress(r1Edge, forged)
	d.wantStory(index, "out@0/FS left@4/F")
	for range 64 { // the ring comes round
		d.deliver(d.send(frame{data: packet(t, "tcp-data")}), 0)
	}
	_, w = d.transit(w, 0)
	same(t, "at h2", d.deliver(w, 0).data, lowered(t, orig, 1))
	d.counters()
}

// TestContentChanged: in a node that carries the header a packet's content is changed on its way
// through. It leaves with true bits, as the packet that it is now; the old story ends there.
// (What a program has sent by a packet socket: pkg/datapath, TestSwitch.)
func TestContentChanged(t *testing.T) {
	for _, c := range []struct {
		name, packet string
		change       int // offset behind the network header
	}{
		{"udp", "udp-64", 8}, {"tcp", "tcp-data", 5}, {"six", "six-udp-64", 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDomain(t, config{carry: "header"})
			orig := packet(t, c.packet)
			w := d.send(frame{data: orig})
			index := d.guid(w.data)
			changed := func(data []byte) []byte {
				data = bytes.Clone(data)
				_, l4 := l4Of(data, etherHeader)
				data[l4+c.change] ^= 0x40
				return data
			}
			f := d.ingress(r1In, d.link(w, 2))
			f.data = changed(f.data)
			d.counted(tally{cSeen: 1, cMarked: 1})

			other := f
			other.data = bytes.Clone(f.data)
			_, l4 := l4Of(other.data, etherHeader)
			other.data[l4] ^= 1 // the source port: of another flow, it only looks like ours
			out := d.egress(r1Edge, d.route(other, r1In))
			same(t, "of another flow", out.data, lowered(t, other.data, 1))
			d.counted(tally{cForeign: 1, cPassed: 1})
			d.wantStory(index, "out@0/FS in@1/F")

			f = d.route(f, r1In)
			f.from = 0 // a program has sent it
			w = d.egress(r1Out, f)
			d.counted(tally{cForeign: 1, cChanged: 1, cSeen: 1, cMarked: 1})
			d.wantStory(index, "out@0/FS in@1/F left@2/F")
			if d.guid(w.data) == index {
				t.Error("what it is now has the old backpack")
			}
			same(t, "at h2", d.deliver(w, 0).data, lowered(t, changed(orig), 3))
			d.counted(nil)
		})
	}
}
