// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// sendLate sends a packet of each of the ring's slots, and lets them wait for longer than the timeout.
func sendLate(d *domain) (late []frame) {
	d.Helper()
	for i := range d.layout.Slots {
		late = append(late, d.send(frame{data: unique(d, int(i))}))
		d.age(i, time.Minute)
	}
	d.counted(tally{cSeen: uint64(d.layout.Slots), cMarked: uint64(d.layout.Slots)})
	return late
}

// sentOn is the packet as it leaves r1, to which it came by a link.
func sentOn(f frame) frame {
	f.from = ifindex(r1In)
	return f
}

// wantLate runs a packet that is late through the ingress of h2, the ingress of r1 or the egress of r1,
// which forwards it, and demands its true header, and that no slot is written.
func (d *domain) wantLate(f frame, orig []byte, hidden int) {
	d.Helper()
	ring := d.ringBytes()
	n := uint64(max(1, f.segs))
	for name, hook := range map[string]func() frame{
		"h2 ingress": func() frame { return d.ingress(h2In, d.link(f, hidden)) },
		"r1 ingress": func() frame { return d.ingress(r1In, d.link(f, hidden)) },
		"r1 egress":  func() frame { return d.egress(closed, sentOn(d.link(f, hidden))) },
	} {
		got := hook()
		same(d, name, got.data, lowered(d, orig, hidden))
		if got.mark != 0 {
			d.Errorf("%s: mark %#x", name, got.mark)
		}
		d.counted(tally{cLate: n, cPassed: n})
	}
	if !bytes.Equal(ring, d.ringBytes()) {
		d.Error("a packet that is late has written to the ring")
	}
}

// ringBytes is a copy of all slots.
func (d *domain) ringBytes() []byte {
	d.Helper()
	b := make([]byte, d.layout.Slots*d.layout.SlotBytes)
	if _, err := d.ring.ReadAt(b, 0); err != nil {
		d.Fatal(err)
	}
	return b
}

// TestExpired: a packet that was not seen for the timeout is given up. If it comes after all, it has
// its true header again, also when another packet has its slot, and is nobody's.
func TestExpired(t *testing.T) {
	for _, c := range []config{
		{slots: 16, block: 4, timeout: usualTimeout}, {slots: 64, block: 16, timeout: usualTimeout},
		{slots: 64, block: 16, timeout: usualTimeout, carry: "header"},
	} {
		t.Run(fmt.Sprint(c.slots, c.carry), func(t *testing.T) {
			d := newDomain(t, c)
			late := sendLate(d)
			for i, f := range late {
				d.wantLate(f, unique(t, i), i%3)
			}
			own := d.link(late[0], 0)
			same(t, "what the node's kernel has made is new", d.egress(closed, own).data, own.data)
			d.counted(tally{cStale: 1, cPassed: 1})
			var other []frame
			for i := range late {
				other = append(other, d.send(frame{data: unique(t, 100+i)}))
				d.wantMarked(other[i].data, unique(t, 100+i))
			}
			d.counted(tally{cSeen: uint64(len(late)), cMarked: uint64(len(late))})
			for i, f := range late {
				d.wantLate(f, unique(t, i), i%3)
			}
			for i, f := range other {
				same(t, "whose slot it is now", d.deliver(f, 0).data, unique(t, 100+i))
			}
			// What is known of so many packets only is forgotten at some time.
			d.empty(bpfobj.TcMapSpelled)
			d.counted(nil)
			in := d.ingress(h2In, d.link(late[3], 0))
			same(t, "nothing is known of it", in.data, late[3].data)
			d.counted(tally{cForeign: 1, cPassed: 1})
		})
	}
}

// TestLateForms: packets of other forms that are late.
func TestLateForms(t *testing.T) {
	for _, name := range []string{"tcp-data", "tcp-ack", "icmp-echo", "udp-8", "esp", "train-tcp", "train-fixed", "train-udp"} {
		t.Run(name, func(t *testing.T) {
			d := newDomain(t, config{})
			f := frame{data: nil}
			if bytes.HasPrefix([]byte(name), []byte("train-")) {
				f = loadTrain(t, name).whole
			} else {
				f.data = packet(t, name)
			}
			n := uint64(max(1, f.segs))
			w := d.send(f)
			d.counted(tally{cSeen: n, cMarked: n})
			d.age(d.guid(w.data), time.Minute)
			d.wantLate(w, f.data, 2)
		})
	}
}

// TestNotLate: packets that have the bits of one that is late and are other ones stay as they are,
// before and after its slot is used again. So do packets that come in at an edge.
func TestNotLate(t *testing.T) {
	for _, reused := range []bool{false, true} {
		for _, c := range []struct {
			name   string
			change func([]byte)
		}{
			{"source address", func(data []byte) { data[etherHeader+15]++ }},
			{"source port", func(data []byte) { data[etherHeader+21]++ }},
			{"content", func(data []byte) { data[etherHeader+28] ^= 0x40 }},
			{"length", func(data []byte) { data[etherHeader+3]-- }},
			{"index", func(data []byte) { data[etherHeader+5] ^= 1 }},
			{"at an edge", nil},
		} {
			t.Run(fmt.Sprint(c.name, reused), func(t *testing.T) {
				d := newDomain(t, config{slots: 16, block: 4, timeout: usualTimeout})
				d.sentTo(nodeH2) // what has the slot then is not due where the other one comes
				late := sendLate(d)
				miss := cStale
				if reused {
					for i := range late {
						d.send(frame{data: unique(t, 100+i)})
					}
					d.counted(tally{cSeen: uint64(len(late)), cMarked: uint64(len(late))})
					miss = cForeign
				}
				other := bytes.Clone(late[3].data)
				if c.change == nil {
					d.ingress(r1Edge, frame{data: other})
					if d.moved()[cLate] != 0 {
						t.Error("a packet from outside is late")
					}
					return
				}
				c.change(other)
				fixSum(other, etherHeader)
				d.wantUntouched(other, tally{miss: 1, cPassed: 1})
			})
		}
	}
}
