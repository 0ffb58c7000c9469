// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// TestReplaced: another packet of a flow has the bits of one that is under way, and other content, as if that one had
// been changed. Whichever comes first, and however far it has gone by then, the true one leaves with its own bits.
func TestReplaced(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, c := range contentSets {
			t.Run(carry+"/"+c.name, func(t *testing.T) {
				for gone := range 4 {
					d := d.in(t)
					orig := whole(t, c.packet)
					w := d.send(orig)
					d.replace(c.change(t, w), gone)
					d.last = d.counters()
					inside := d.ingress(r1In, d.link(w, 2))
					if gone > 0 || carry == "mark" {
						same(t, fmt.Sprint("inside r1, behind one that was seen ", gone, " times"), inside.data, lowered(t, orig.data, 2))
					}
					out := d.egress(r1Out, d.route(inside, r1In))
					same(t, "at h2", d.deliver(out, 0).data, lowered(t, orig.data, 3))
					n := uint64(max(1, orig.segs))
					if gone == 0 {
						continue
					}
					d.counted(tally{cLate: n, cPassed: 3 * n})
				}
			})
		}
	}
}

// replace lets a packet pass as many hooks of its way.
func (d *domain) replace(f frame, hooks int) {
	d.Helper()
	f = d.link(f, 0)
	if hooks > 0 {
		f = d.ingress(r1In, f)
	}
	if hooks > 1 {
		f = d.egress(r1Out, d.route(f, r1In))
	}
	if hooks > 2 {
		d.deliver(f, 0)
	}
}

// TestReplacedTwice: two others take the slot, one after the other. They have the true one's content, and other lengths.
func TestReplacedTwice(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "tcp-data")
	w := d.send(frame{data: orig})
	d.replace(lengthened(t, w), 2)
	d.deliver(lengthened(t, lengthened(t, w)), 0)
	_, out := d.transit(w, 0)
	same(t, "at h2", d.deliver(out, 0).data, lowered(t, orig, 1))
	if got := d.counters()[cChanged]; got != 2 {
		t.Errorf("%d have taken the slot", got)
	}
}

// TestReplacedSecond: the true one comes first. The other one has its own bits all the way.
func TestReplacedSecond(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		d.towards(h1Out, nodeR1)
		d.towards(r1Out, nodeH2)
		for _, c := range contentSets {
			t.Run(carry+"/"+c.name, func(t *testing.T) {
				d := d.in(t)
				orig := whole(t, c.packet)
				w := d.send(orig)
				other := c.change(t, w)
				first := d.ingress(r1In, d.link(w, 0))
				second := d.ingress(r1In, d.link(other, 0))
				same(t, "the other one inside r1", second.data, other.data)
				first = d.egress(r1Out, d.route(first, r1In))
				second = d.egress(r1Out, d.route(second, r1In))
				same(t, "at h2", d.deliver(first, 0).data, lowered(t, orig.data, 1))
				same(t, "the other one at h2", d.deliver(second, 0).data, lowered(t, other.data, 1))
			})
		}
	}
}

// TestReplacedReused: the other one has arrived, and the slot is a third packet's by now.
func TestReplacedReused(t *testing.T) {
	d := newDomain(t, config{slots: 16, block: 4, minAge: time.Nanosecond})
	orig := unique(t, 0)
	w := d.send(frame{data: orig})
	index := d.guid(w.data)
	d.replace(flipped(t, w, 8), 3)
	pos := d.slot(index).Pos
	for i := 1; d.slot(index).Pos == pos; i++ {
		d.deliver(d.send(frame{data: unique(t, i)}), 0)
	}
	_, out := d.transit(w, 1)
	same(t, "at h2", d.deliver(out, 0).data, lowered(t, orig, 2))
}

// TestReplacedOld: what took the slot was the packet itself, changed. Another one of the flow that has the bits and the
// content of before, much later, is not taken for it.
func TestReplacedOld(t *testing.T) {
	d := newDomain(t, config{})
	w := d.send(frame{data: packet(t, "udp-64")})
	d.replace(flipped(t, w, 9), 3)
	m := d.Maps[bpfobj.TcMapReplaced]
	var key bpfobj.TcRdrSpelledKey
	var kept bpfobj.TcRdrSpelled
	n := 0
	for entries := m.Iterate(); entries.Next(&key, &kept); n++ {
		kept.At -= uint32(3 * usualTimeout >> 20)
		d.must("age", m.Put(&key, &kept))
	}
	if n != 1 {
		t.Fatalf("%d packets were replaced, want 1", n)
	}
	if inside := d.ingress(r1In, d.link(w, 0)); d.counters()[cLate] != 0 {
		t.Errorf("it got the bits of a packet that is long gone: % x", inside.data)
	}
}

// TestReplacedParts: a queue has cut a train, or another packet has taken one of its segments' slots alone.
func TestReplacedParts(t *testing.T) {
	for _, name := range []string{"train-tcp", "train-wrap", "train-fixed", "train-six-tcp"} {
		tr := loadTrain(t, name)
		for k := -1; k < len(tr.segments); k++ {
			for _, whole := range []bool{true, false} {
				t.Run(fmt.Sprint(name, "/", k, "/", whole), func(t *testing.T) {
					d := newDomain(t, config{})
					w := d.send(tr.whole)
					other := w // all of it
					if k >= 0 {
						other = tr.cut(t, w)[k]
					}
					d.replace(flipped(t, other, 9), 2)
					if whole {
						_, out := d.transit(w, 1)
						same(t, "at h2", d.deliver(out, 0).data, lowered(t, tr.whole.data, 2))
						return
					}
					for i, seg := range tr.cut(t, w) {
						_, out := d.transit(seg, 1)
						same(t, fmt.Sprint("segment ", i), d.deliver(out, 0).data, lowered(t, tr.segments[i], 2))
					}
				})
			}
		}
	}
}

// TestReplacedJoined: GRO joins packets, and others have taken the slot of one of them.
func TestReplacedJoined(t *testing.T) {
	for _, udp := range []bool{false, true} {
		for k := range overrunSegments {
			for what, change := range map[string]func(testing.TB, frame) frame{
				"content": func(t testing.TB, f frame) frame { return flipped(t, f, 9) },
				"length":  lengthened,
			} {
				if udp && what == "length" {
					continue // then it is another one
				}
				t.Run(fmt.Sprint(k, "/", udp, "/", what), func(t *testing.T) {
					d, tr := newDomain(t, config{}), loneSegments(t, udp)
					wire := d.sendLone(tr)
					d.replace(change(t, wire[k]), 2)
					_, out := d.transit(join(t, wire...), 1)
					same(t, "at h2", d.deliver(out, 0).data, lowered(t, tr.whole.data, 2))
				})
			}
		}
	}
}

// TestReplacedBack: what is behind one hook changes a packet's content, and what is behind the next one changes it back.
func TestReplacedBack(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		d.towards(h1Out, nodeR1)
		d.towards(r1Out, nodeH2)
		for _, c := range []string{"udp-64", "tcp-data", "six-tcp-data", "train-tcp"} {
			t.Run(carry+"/"+c, func(t *testing.T) {
				d := d.in(t)
				for range 2 { // the second time what was changed first is known of both contents
					orig := whole(t, c)
					n := uint64(max(1, orig.segs))
					pos := d.nextPos()
					index := uint32(pos) & (d.layout.Slots - 1)
					_, out := d.transit(flipped(t, d.send(orig), 9), 0)
					same(t, "at h2", d.deliver(flipped(t, out, 9), 0).data, lowered(t, orig.data, 1))
					d.counted(tally{cSeen: n, cMarked: n, cChanged: 2 * n})
					d.wantStory(index, "out@0/FS in@1/F out@2/F deliver@3/F")
					d.startAt(pos + uint64(d.layout.Slots))
				}
			})
		}
	}
}

// TestReplacedTurns: what is behind a hook changes each packet, and the ring comes round. The packet that has a slot then
// gets the content that the one before it had. It is no late one, and keeps its own bits.
func TestReplacedTurns(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		d.towards(h1Out, nodeR1)
		d.towards(r1Out, nodeH2)
		t.Run(carry, func(t *testing.T) {
			d := d.in(t)
			orig := whole(t, "udp-64")
			for range 3 {
				pos := d.nextPos()
				_, out := d.transit(flipped(t, d.send(orig), 9), 0)
				orig = flipped(t, orig, 9)
				same(t, "at h2", d.deliver(out, 0).data, lowered(t, orig.data, 1))
				d.counted(tally{cSeen: 1, cMarked: 1, cChanged: 1})
				d.startAt(pos + uint64(d.layout.Slots))
			}
		})
	}
}
