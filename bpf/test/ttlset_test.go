// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"
)

// withTTL is the packet as a rule of nftables leaves it that sets the TTL: it spells a checksum of
// zero 0xffff.
func withTTL(t testing.TB, data []byte, ttl byte) []byte {
	t.Helper()
	data = bytes.Clone(data)
	h := header(t, data)
	setBits(t, data, h.id(), ttl, h.tos())
	if !h.v6() && h[10] == 0 && h[11] == 0 {
		h[10], h[11] = 0xff, 0xff
	}
	return data
}

// setOnLink is d.link with a rule that sets the TTL.
func (d *domain) setOnLink(f frame, ttl byte) frame {
	d.Helper()
	f = d.link(f, 0)
	f.data = withTTL(d, f.data, ttl)
	return f
}

// setTTLs are what rules may set: in no band, in the band of another packet, too low for one.
var setTTLs = []byte{2, 8, 64, 80, 100, 200, 255}

// TestTTLSet: something between two nodes sets the TTL. The packet is known by its content: the
// ID is the sender's, the TTL is the rule's, and the story goes on.
func TestTTLSet(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, name := range byBits() {
			for _, ttl := range setTTLs {
				t.Run(fmt.Sprintf("%s/%s/%d", carry, name, ttl), func(t *testing.T) { testTTLSet(d.in(t), name, ttl) })
			}
		}
	}
}

func testTTLSet(d *domain, name string, ttl byte) {
	orig := packet(d, name)
	index := uint32(d.nextPos()) & (d.layout.Slots - 1)
	want := withTTL(d, orig, ttl)
	inside := d.ingress(r1In, d.setOnLink(d.send(frame{data: orig}), ttl))
	if d.layout.MarkMask != 0 {
		same(d, "inside r1", inside.data, want)
	}
	w := d.egress(r1Out, d.route(inside, r1In))
	want = lowered(d, want, 1)
	if ttl > 8 {
		d.wantMarked(w.data, want)
	}
	same(d, "at h2", d.deliver(w, 0).data, want)
	d.counted(tally{cSeen: 1, cMarked: 1, cTTLSet: 1})
	k := ""
	if ttl <= 8 {
		k = "K"
	}
	d.wantStory(index, "out@0/FS in@1/F out@2/F"+k+" deliver@3/F"+k)
}

// TestTTLSetAtEnd: the same on the last link, where the TTL may be one that no router passes on.
func TestTTLSetAtEnd(t *testing.T) {
	d := newDomain(t, config{})
	for _, ttl := range []byte{1, 64, 255} {
		orig := packet(t, "udp-64")
		same(t, "at h2", d.deliver(d.setOnLink(d.send(frame{data: orig}), ttl), 0).data, withTTL(t, orig, ttl))
		d.counted(tally{cSeen: 1, cMarked: 1, cTTLSet: 1})
	}
}

// TestTTLSetTrain: a train, whole and cut.
func TestTTLSetTrain(t *testing.T) {
	for _, name := range []string{"train-tcp", "train-fixed", "train-six-tcp", "train-six-udp"} {
		t.Run(name, func(t *testing.T) {
			d := newDomain(t, config{})
			tr := loadTrain(t, name)
			n := uint64(tr.whole.segs)
			out := d.deliver(d.setOnLink(d.send(tr.whole), 64), 0)
			same(t, "at h2", out.data, withTTL(t, tr.whole.data, 64))
			d.counted(tally{cSeen: n, cMarked: n, cTTLSet: n})
		})
	}
}

// TestTTLSetGroup: a packet for a group, whose TTL on the wire is lower by what its branch took.
func TestTTLSetGroup(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		t.Run(carry, func(t *testing.T) {
			d := newDomain(t, config{carry: carry})
			d.join(h2In, groups["group-multicast"])
			orig := packet(t, "group-multicast")
			for _, ttl := range []byte{9, 64, 255} {
				inside := d.ingress(r1In, d.setOnLink(d.send(frame{data: orig}), ttl))
				w := d.egress(r1Out, d.route(inside, r1In))
				same(t, "at h2", d.deliver(w, 0).data, lowered(t, withTTL(t, orig, ttl), 1))
				if got := d.counters()[cTTLSet]; got == 0 {
					t.Errorf("TTL %d: not known again", ttl)
				}
				d.clearCounters()
			}
		})
	}
}

// TestTTLSetInNode: a node that carries the header sets the TTL itself.
func TestTTLSetInNode(t *testing.T) {
	d := newDomain(t, config{carry: "header"})
	for _, name := range []string{"udp-64", "tcp-data", "six-udp-64"} {
		for _, ttl := range setTTLs {
			t.Run(fmt.Sprintf("%s/%d", name, ttl), func(t *testing.T) {
				d := d.in(t)
				orig := packet(t, name)
				inside := d.ingress(r1In, d.link(d.send(frame{data: orig}), 0))
				inside.data = withTTL(t, inside.data, ttl)
				w := d.egress(r1Out, d.route(inside, r1In))
				same(t, "at h2", d.deliver(w, 0).data, lowered(t, withTTL(t, orig, ttl), 1))
				d.counted(tally{cSeen: 1, cMarked: 1, cTTLSet: 1})
			})
		}
	}
}

// TestTTLSetByBridge: a bridge's rule sets it, and hands copies to its destination, and to a member
// that leads outside.
func TestTTLSetByBridge(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		for _, arrived := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/arrived %v", carry, arrived), func(t *testing.T) {
				d := newDomain(t, config{carry: carry})
				orig := packet(t, "udp-64")
				w := d.setOnLink(d.send(frame{data: orig}), 64)
				want := withTTL(t, orig, 64)
				if arrived {
					same(t, "at h2", d.deliver(w, 0).data, want)
				}
				same(t, "behind the member", d.egress(member, d.onLink(w)).data, want)
				same(t, "for the host", d.up(w).data, want)
				if !arrived {
					same(t, "at h2", d.deliver(w, 0).data, want)
				}
				d.counted(tally{cSeen: 1, cMarked: 1, cTTLSet: 3})
			})
		}
	}
}

// TestTTLSetRing: with more slots than IDs the upper bits of the index are not in the header any
// more. All that the ID may mean are looked at; where two are alike, neither is taken.
func TestTTLSetRing(t *testing.T) {
	for _, guid := range []string{"auto", "paper"} {
		t.Run(guid, func(t *testing.T) {
			d := newDomain(t, config{slots: 1 << 18, guid: guid, carry: "mark"})
			first := unique(t, 1)
			for k := range uint64(4) {
				orig := first
				if k > 0 {
					orig = unique(t, 10+int(k))
				}
				d.startAt(1<<18 + k<<16)
				w := d.send(frame{data: orig})
				if got := d.guid(w.data); got != uint32(k<<16) {
					t.Fatalf("slot %#x, want %#x", got, k<<16)
				}
				if k > 0 {
					same(t, "at h2", d.deliver(d.setOnLink(w, 64), 0).data, withTTL(t, orig, 64))
					d.counted(tally{cSeen: 1, cMarked: 1, cTTLSet: 1})
				} else {
					d.counted(tally{cSeen: 1, cMarked: 1})
				}
			}
			d.startAt(1<<18 + 1<<16)
			w := d.setOnLink(d.send(frame{data: first}), 64)
			same(t, "one of two", d.ingress(r1In, w).data, w.data)
			d.counted(tally{cSeen: 1, cMarked: 1, cPassed: 1})
		})
	}
}

// TestDSCPSet: with two bits of the DSCP in use a rule that sets it takes them away.
func TestDSCPSet(t *testing.T) {
	d := newDomain(t, config{slots: 1 << 21, guid: "22"})
	// Two bits that are equal to those of the slot's number look as if nobody had set them.
	for i, dscp := range []byte{0x2e, 0x03, 0x04, 0x3d} {
		d.startAt(1<<21 + uint64(i)<<16)
		orig := unique(t, i)
		w := d.link(d.send(frame{data: orig}), 3)
		want := lowered(t, orig, 3)
		for _, data := range [][]byte{w.data, want} {
			h := header(t, data)
			setBits(t, data, h.id(), h.ttl(), dscp<<2)
		}
		same(t, "at h2", d.deliver(w, 0).data, want)
	}
}

// TestTTLSetForeign: a packet with any TTL whose ID names the slot of another one is left alone,
// if anything of what is known of that one differs.
func TestTTLSetForeign(t *testing.T) {
	flip := func(at int) func(frame) frame {
		return func(f frame) frame { f.data[etherHeader+20+at] ^= 0x40; return f }
	}
	for _, c := range []struct {
		name, packet string
		change       func(frame) frame
	}{
		{"tcp sequence", "tcp-data", flip(5)},
		{"tcp ack", "tcp-data", flip(9)},
		{"tcp timestamp", "tcp-data", flip(25)},
		{"tcp port", "tcp-data", flip(1)},
		{"udp payload", "udp-64", flip(8)},
		{"udp payload, second word", "udp-64", flip(14)},
		{"udp port", "udp-64", flip(3)},
		{"icmp sequence", "icmp-echo", flip(7)},
		{"icmp identifier", "icmp-echo", flip(5)},
		{"icmp type", "icmp-echo", flip(0)},
		{"esp sequence", "esp", flip(7)},
		{"protocol number", "proto-253", func(f frame) frame { f.data[etherHeader+9] = 254; return f }},
		{"length", "udp-64", func(f frame) frame {
			binary.BigEndian.PutUint16(f.data[etherHeader+2:], 91)
			return f
		}},
		{"address", "udp-64", func(f frame) frame { f.data[etherHeader+15] ^= 1; return f }},
		{"ID", "udp-64", func(f frame) frame { f.data[etherHeader+5] ^= 1; return f }},
		{"DF clear", "udp-64", func(f frame) frame { f.data[etherHeader+6] = 0; return f }},
	} {
		for _, carry := range []string{"mark", "header"} {
			for _, ttl := range []byte{64, 80, 255} {
				t.Run(fmt.Sprintf("%s/%s/%d", c.name, carry, ttl), func(t *testing.T) {
					d := newDomain(t, config{carry: carry})
					w := d.send(frame{data: packet(t, c.packet)})
					d.counted(tally{cSeen: 1, cMarked: 1})
					index := d.guid(w.data)
					before := d.slot(index)
					foreign := c.change(d.setOnLink(w, ttl))
					fixSum(foreign.data, etherHeader)
					for _, port := range []uint32{r1In, h2In} {
						in := d.ingress(port, foreign)
						same(t, "the foreign one", in.data, foreign.data)
						if in.mark != 0 {
							t.Errorf("it has the mark %#x", in.mark)
						}
					}
					foreign.from = ifindex(r1In)
					same(t, "the foreign one, as it leaves", d.egress(closed, foreign).data, foreign.data)
					if got := d.counters(); got[cTTLSet] != 0 {
						t.Errorf("%d packets are said to be ours", got[cTTLSet])
					}
					if now := d.slot(index); !bytes.Equal(now.raw, before.raw) {
						t.Errorf("the slot of the other packet has changed: %q to %q", before.story(), now.story())
					}
				})
			}
		}
	}
}

// TestTTLSetElsewhere: nor is one that is equal in all of that, at a port to which the slot's packet
// is not in flight.
func TestTTLSetElsewhere(t *testing.T) {
	for _, c := range []struct {
		name string
		port uint32
		prep func(d *domain, w frame)
	}{
		{"on another link", h2In, func(d *domain, _ frame) { d.towards(h1Out, nodeR1) }},
		{"it has come", r1In, func(d *domain, w frame) { d.ingress(r1In, d.link(w, 0)) }},
		{"it has arrived", h2In, func(d *domain, w frame) { d.deliver(w, 0) }},
		{"long ago", r1In, func(d *domain, w frame) { d.age(d.guid(w.data), time.Hour) }},
		{"sources have stopped long ago", r1In, func(d *domain, _ frame) { d.lease(false) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDomain(t, config{})
			orig := packet(t, "udp-64")
			w := d.send(frame{data: orig})
			c.prep(d, w)
			other := d.setOnLink(w, 64)
			same(t, "an equal one", d.ingress(c.port, other).data, other.data)
			d.counted(tally{cSeen: 1, cMarked: 1, cPassed: 1})
		})
	}
	t.Run("from outside", func(t *testing.T) {
		d := newDomain(t, config{})
		w := d.setOnLink(d.send(frame{data: packet(t, "udp-64")}), 64)
		same(t, "an equal one", d.ingress(r1Edge, w).data, w.data)
		d.counted(tally{cSeen: 2, cMarked: 2})
	})
}

// TestTTLSetCircle: many routers that are not attached look like one that sets the TTL. What goes
// round in circles through them ends all the same.
func TestTTLSetCircle(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		t.Run(carry, func(t *testing.T) {
			d := newDomain(t, config{carry: carry})
			w := d.send(frame{data: packet(t, "udp-64")})
			for range 300 {
				if header(t, w.data).ttl() <= 10 {
					return
				}
				f := d.link(w, 9)
				inside := d.ingress(r1In, f)
				ttl := header(t, inside.data).ttl()
				if index, _, ok := d.decodeGUID(header(t, inside.data)); ok && d.layout.MarkMask == 0 {
					ttl = d.slot(index).Ttl
				}
				if ttl <= 1 {
					return
				}
				w = d.egress(r1Out, d.route(inside, r1In))
			}
			t.Error("a packet has gone round 300 times")
		})
	}
}
