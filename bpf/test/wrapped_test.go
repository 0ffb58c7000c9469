// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// wrap puts headers between a frame's Ethernet header and what it holds.
func wrap(inner frame, etherType uint16, headers []byte) frame {
	data := append(bytes.Clone(inner.data[:12]), byte(etherType>>8), byte(etherType))
	inner.data = append(append(data, headers...), inner.data[etherHeader:]...)
	return inner
}

// wrappings are what routes with an encapsulation put before a packet of size bytes.
func wrappings(size int, v6 bool) map[string]func(frame) frame {
	next := byte(4)
	if v6 {
		next = 41
	}
	ip4 := make([]byte, 20)
	ip4[0], ip4[6], ip4[8], ip4[9] = 0x45, 0x40, 64, next
	binary.BigEndian.PutUint16(ip4[2:], uint16(20+size))
	srv6 := make([]byte, 40+24)
	srv6[0], srv6[6], srv6[7] = 0x60, 43, 64
	binary.BigEndian.PutUint16(srv6[4:], uint16(24+size))
	srv6[40], srv6[41], srv6[42] = next, 2, 4
	return map[string]func(frame) frame{
		"MPLS": func(f frame) frame { return wrap(f, 0x8847, []byte{0, 6, 0x41, 64}) },
		"IPv4": func(f frame) frame { return wrap(f, 0x0800, ip4) },
		"SRv6": func(f frame) frame { return wrap(f, 0x86dd, srv6) },
	}
}

// TestWrapped: a packet that leaves inside another, without a tunnel's interface, has left. Nobody changes the outer
// one, which has no mark any more.
func TestWrapped(t *testing.T) {
	for _, name := range []string{"tcp-data", "train-tcp", "six-tcp-data", "udp-1472"} {
		orig := frame{data: packet(t, name)}
		n := 1
		if isTrain(name) {
			tr := loadTrain(t, name)
			orig, n = tr.whole, len(tr.segments)
		}
		v6 := header(t, orig.data).v6()
		for kind, put := range wrappings(len(orig.data)-etherHeader, v6) {
			t.Run(name+"/"+kind, func(t *testing.T) {
				d := newDomain(t, config{})
				w := d.send(orig)
				index := d.guid(w.data)
				inside := d.ingress(r1In, d.link(w, 0))
				outer := put(d.route(inside, r1In))
				out := d.egress(r1Out, outer)
				same(t, "outer packet", out.data, outer.data)
				if out.mark != 0 {
					t.Errorf("mark %#x goes into a queue", out.mark)
				}
				d.wantStory(index, "out@0/FS in@1/F left@2/F")
				want := tally{cSeen: uint64(n), cMarked: uint64(n), cPassed: uint64(n)}
				if kind == "MPLS" {
					want = tally{cSeen: uint64(n), cMarked: uint64(n), cOther: 1}
				}
				d.counted(want)
			})
		}
	}
}

// TestNotWrapped: a mark alone does not end a story. The packet must be the end of what bears it, and in that node.
func TestNotWrapped(t *testing.T) {
	spoil := func(at int) func(frame) frame {
		return func(f frame) frame {
			f.data = bytes.Clone(f.data)
			f.data[etherHeader+4+at] ^= 1
			return f
		}
	}
	for name, c := range map[string]struct {
		change func(frame) frame
		at     uint32
	}{
		"another ID":       {spoil(5), r1Out},
		"another length":   {spoil(3), r1Out},
		"another protocol": {spoil(9), r1Out},
		"another version":  {spoil(0), r1Out},
		"cut off": {func(f frame) frame {
			f.data = bytes.Clone(f.data[:len(f.data)-4])
			return f
		}, r1Out},
		"another node": {func(f frame) frame { return f }, h2Out},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDomain(t, config{})
			orig := packet(t, "tcp-data")
			w := d.send(frame{data: orig})
			index := d.guid(w.data)
			inside := d.ingress(r1In, d.link(w, 0))
			outer := c.change(wrappings(len(orig)-etherHeader, false)["MPLS"](d.route(inside, r1In)))
			if name == "another version" {
				outer.data[etherHeader+4] ^= 0x20
			}
			d.egress(c.at, outer)
			d.wantStory(index, "out@0/FS in@1/F")
		})
	}
	// A packet that has left, or that left by another way, cannot leave once more.
	d := newDomain(t, config{})
	orig := packet(t, "tcp-data")
	w := d.send(frame{data: orig})
	index := d.guid(w.data)
	inside, _ := d.transit(w, 0)
	d.egress(r1Out, wrappings(len(orig)-etherHeader, false)["MPLS"](d.route(inside, r1In)))
	d.wantStory(index, "out@0/FS in@1/F out@2/F")
}

// wrappedTrains are trains of each kind.
var wrappedTrains = []string{"train-tcp", "train-wrap", "train-fixed", "train-udp", "train-udp-short", "train-six-tcp", "train-six-udp"}

// TestWrappedSegments: a queue has cut a train, and each segment leaves inside a packet of its own. It has left, and
// what is behind its train has not.
func TestWrappedSegments(t *testing.T) {
	for _, name := range wrappedTrains {
		tr := loadTrain(t, name)
		for kind := range wrappings(1, false) {
			t.Run(name+"/"+kind, func(t *testing.T) {
				d := newDomain(t, config{})
				w := d.send(tr.whole)
				index := d.guid(w.data)
				for range tr.segments {
					d.send(frame{data: packet(t, "udp-8")})
				}
				n := uint32(len(tr.segments))
				for k, seg := range tr.cut(t, w) {
					put := wrappings(len(seg.data)-etherHeader, header(t, seg.data).v6())[kind]
					inside := d.ingress(r1In, d.link(seg, 0))
					d.egress(r1Out, put(d.route(inside, r1In)))
					want := "in@1/FP left@2/FP"
					if k == 0 {
						want = "out@0/FS " + want
					}
					d.wantStory(index+uint32(k), want)
				}
				for k := range n {
					d.wantStory(index+n+k, "out@0/FS")
				}
			})
		}
	}
}

// TestWrappedStale: the slot of a train's segment still has what a train before it has left there: how long it was, and
// its ID. A packet that goes by that would reach over the end of the train, into the slots of others.
func TestWrappedStale(t *testing.T) {
	d, tr := newDomain(t, config{}), loadTrain(t, "train-tcp")
	w := d.send(tr.whole)
	index, n := d.guid(w.data), uint32(len(tr.segments))
	for range tr.segments {
		d.ingress(r1In, d.link(d.send(frame{data: packet(t, "udp-8")}), 0))
	}
	inside := d.ingress(r1In, d.link(tr.cut(t, w)[1], 0))
	old := d.slot(index)
	s := d.slot(index + 1)
	s.TrainLen, s.Hdr, s.Id = old.TrainLen, old.Hdr, old.FirstId
	d.write(s)
	train := d.route(frame{data: tr.whole.data, mark: inside.mark, segs: tr.whole.segs, size: tr.whole.size}, r1In)
	d.egress(r1Out, wrappings(len(tr.whole.data)-etherHeader, false)["MPLS"](train))
	d.wantStory(index, "out@0/FS")
	d.wantStory(index+1, "in@1/FP")
	for k := range n {
		d.wantStory(index+n+k, "out@0/FS in@1/F")
	}
}

// TestWrappedJoined: GRO has joined packets that leave inside one. If one of them is another packet, or is elsewhere,
// no story ends.
func TestWrappedJoined(t *testing.T) {
	for name, c := range map[string]struct {
		change func(d *domain, s *slot) // the third packet's slot, before they leave
		want   string
	}{
		"all of a flow":  {nil, "out@0/FS in@1 left@2"},
		"another flow":   {func(d *domain, s *slot) { s.FlowHash++ }, "out@0/FS in@1"},
		"another turn":   {func(d *domain, s *slot) { s.Pos -= uint64(d.layout.Slots) }, "out@0/FS in@1"},
		"too old":        {func(d *domain, s *slot) { s.T0Ns -= uint64(usualTimeout) }, "out@0/FS in@1"},
		"not here":       {func(d *domain, s *slot) { s.Nev-- }, "out@0/FS"},
		"other protocol": {func(d *domain, s *slot) { s.Proto ^= 1 }, "out@0/FS in@1"},
	} {
		for _, udp := range []bool{false, true} {
			t.Run(name+map[bool]string{true: "/UDP", false: "/TCP"}[udp], func(t *testing.T) {
				d, tr := newDomain(t, config{}), loneSegments(t, udp)
				wire := d.sendLone(tr)
				index := d.guid(wire[0].data)
				inside := d.ingress(r1In, d.link(join(t, wire...), 0))
				if c.change != nil {
					s := d.slot(index + 2)
					c.change(d, s)
					d.write(s)
				}
				out := d.egress(r1Out, wrappings(len(inside.data)-etherHeader, false)["SRv6"](d.route(inside, r1In)))
				if c.change == nil && out.mark != 0 {
					t.Errorf("mark %#x goes into a queue", out.mark)
				}
				d.wantStory(index+2, c.want)
				others := "out@0/FS in@1 left@2"
				if c.change != nil {
					others = "out@0/FS in@1"
				}
				d.wantStory(index+1, others)
				d.wantStory(index, strings.ReplaceAll(strings.ReplaceAll(others, "in@1", "in@1/F"), "left@2", "left@2/F"))
			})
		}
	}
}
