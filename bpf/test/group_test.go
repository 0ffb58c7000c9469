// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// groups are the packets of packets.py that are for a group, with the address.
var groups = map[string]uint32{
	"group-multicast":          addr(239, 1, 2, 3),
	"group-keyed":              addr(239, 1, 2, 3),
	"group-ttl-1":              addr(239, 1, 2, 3),
	"group-limited-broadcast":  addr(255, 255, 255, 255),
	"group-directed-broadcast": addr(10, 0, 4, 255),
}

// localPort is RDR_LOCAL_PORT.
const localPort = 0x10000

// join makes the node of a port take what comes there for an address.
func (d *domain) join(port, group uint32) {
	d.Helper()
	d.put(bpfobj.TcMapLocals, bpfobj.TcRdrLocal{Node: localPort | port, Addr: group}, uint8(1))
}

// fan plays a router between two links: copies of what came in by r1In go out by r1Out.
func (d *domain) fan(f frame, hidden int) frame {
	d.Helper()
	_, out := d.transit(f, hidden)
	return out
}

// TestGroup: a bridge hands out copies of one packet; a router has sent the next copy on
// before the last of the bridge's has arrived. Each gets its own bits back, the node that
// is no member gets them too, and no copy that arrives is the end of the story.
func TestGroup(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for name, group := range groups {
			t.Run(carry+"/"+name, func(t *testing.T) {
				d, orig := d.in(t), packet(t, name)
				d.empty(bpfobj.TcMapKeys)
				d.empty(bpfobj.TcMapLocals)
				d.join(h2In, group)
				keyed := name == "group-keyed" || name == "group-ttl-1"
				index := uint32(d.nextPos()) & (d.layout.Slots - 1)
				w := d.send(frame{data: orig})
				d.counted(tally{cSeen: 1, cMarked: 1})
				if keyed {
					same(t, "on the link", w.data, orig)
				} else {
					d.wantMarked(w.data, orig)
				}
				story := "out@0/FS" + k(keyed)
				if name != "group-ttl-1" {
					next := d.fan(w, 0)
					story += " in@1/F" + k(keyed) + " out@2/F" + k(keyed)
					d.join(h2Out, group) // h2 is on both links
					same(t, "behind the router", d.ingress(h2Out, d.link(next, 0)).data, lowered(t, orig, 1))
					story += " deliver@7/F" + k(keyed)
				}
				same(t, "late, on the first link", d.deliver(w, 0).data, orig)
				story += " deliver@3/F" + k(keyed)
				other, want := d.ingress(h3In, d.link(w, 0)), orig
				if d.layout.MarkMask == 0 && !keyed {
					want = w.data // --carry header
				}
				same(t, "at a node that is no member", other.data, want)
				story += " in@10/F" + k(keyed)
				same(t, "behind the bridge", d.egress(member, d.onLink(w)).data, orig)
				d.wantStory(index, story+" left@8/F")
				if s := d.slot(index); s.State&uint8(stGroup|stDone|stLost) != uint8(stGroup) {
					t.Errorf("state %#x of a tree", s.State)
				}
			})
		}
	}
}

// TestGroupEqual: a host sends the same packet for a group again while copies of the first
// may be in flight. If it has only its key, it is not measured, and adds nothing to the first
// one's story, wherever it is seen.
func TestGroupEqual(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for name, group := range groups {
			t.Run(carry+"/"+name, func(t *testing.T) {
				d, orig := d.in(t), packet(t, name)
				d.empty(bpfobj.TcMapKeys)
				d.empty(bpfobj.TcMapLocals)
				d.join(h2In, group)
				d.join(h2Out, group)
				keyed := name == "group-keyed" || name == "group-ttl-1"
				index := uint32(d.nextPos()) & (d.layout.Slots - 1)
				var story string
				for i := range 3 {
					d.last = d.counters()
					w := d.send(frame{data: orig})
					if keyed && i > 0 {
						d.counted(tally{cSeen: 1, cKeyInFlight: 1})
						same(t, "on the link", w.data, orig)
					} else {
						d.counted(tally{cSeen: 1, cMarked: 1})
					}
					d.deliver(w, 0)
					other := d.ingress(h3In, d.link(w, 0))
					if keyed && i > 0 && other.mark != 0 {
						t.Errorf("mark %#x on a packet that is not measured", other.mark)
					}
					if name != "group-ttl-1" {
						next := d.link(d.fan(w, 0), 0)
						same(t, "behind the router", d.ingress(h2Out, next).data, lowered(t, orig, 1))
					}
					same(t, "behind the bridge", d.egress(member, d.onLink(w)).data, orig)
					same(t, "up the bridge", d.up(w).data, orig)
					if i == 0 {
						story = d.slot(index).story()
					}
				}
				d.wantStory(index, story)
			})
		}
	}
}

// TestGroupTTL: the copies of each branch carry what that branch took from the TTL; what
// half a band cannot show is found by key. Routers that are not attached fit in between.
func TestGroupTTL(t *testing.T) {
	for _, c := range []config{{}, {carry: "header"}, {guid: "paper"}, {guid: "paper", carry: "header"}} {
		t.Run(fmt.Sprintf("%s %s", or(c.guid, "auto"), or(c.carry, "mark")), func(t *testing.T) {
			d := newDomain(t, c)
			d.join(h2In, groups["group-multicast"])
			orig := packet(t, "group-multicast")
			w := d.send(frame{data: orig})
			first := w
			hidden := 4
			if d.layout.TTLWidth == 1 {
				hidden = 0
			}
			for routers := 1; routers <= 6; routers++ {
				w = d.fan(w, 0)
				_, _, marked := d.decodeGUID(header(t, w.data))
				if want := routers < (int(d.layout.TTLWidth)+1)/2; marked != want {
					t.Errorf("behind %d routers: marked %v, want %v", routers, marked, want)
				}
				same(t, fmt.Sprintf("behind %d routers", routers), d.deliver(w, 0).data, lowered(t, orig, routers))
				same(t, fmt.Sprintf("behind %d routers and %d hidden ones", routers, hidden),
					d.deliver(w, hidden).data, lowered(t, orig, routers+hidden))
				same(t, "on the first link", d.deliver(first, hidden).data, lowered(t, orig, hidden))
			}
			for hidden := range int(d.layout.TTLWidth) {
				next := d.fan(first, hidden)
				same(t, fmt.Sprintf("behind %d hidden routers and one", hidden), d.deliver(next, 0).data, lowered(t, orig, hidden+1))
			}
		})
	}
}

// TestGroupBandUsedUp: copies that a node which carries the header has to know by key. Of
// two packets that are equal, the second one's is lost from sight, and counted.
func TestGroupBandUsedUp(t *testing.T) {
	d := newDomain(t, config{carry: "header"})
	orig := packet(t, "group-multicast")
	hidden := int(d.layout.TTLWidth) - 1
	d.fan(d.send(frame{data: orig}), hidden)
	d.counted(tally{cSeen: 1, cMarked: 1})
	out := d.fan(d.send(frame{data: orig}), hidden)
	same(t, "the second", out.data, lowered(t, orig, hidden+1))
	d.counted(tally{cSeen: 1, cMarked: 1, cKeyLost: 1, cPassed: 1})
}

// TestGroupOwnBits: a packet for a group whose true bits are those of the slot that it would
// get. Half a band behind, where it goes on with true bits, they would be taken for wire bits.
func TestGroupOwnBits(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		orig := packet(t, "group-multicast")
		setBits(t, orig, uint16(d.nextPos())&uint16(d.layout.Slots-1), d.layout.BandTop[0]-1, 0)
		w := d.send(frame{data: orig})
		d.counted(tally{cSeen: 1, cNoSlot: 1})
		_, w = d.transit(w, 4)
		same(t, carry+" at h2", d.deliver(w, 0).data, lowered(t, orig, 5))
		d.counted(tally{cPassed: 3})
		d.send(frame{data: orig})
		d.counted(tally{cSeen: 1, cMarked: 1}) // the next slot has other bits
	}
}

// TestGroupOtherBits: a branch on which a rule raised the TTL.
func TestGroupOtherBits(t *testing.T) {
	d := newDomain(t, config{})
	d.join(h2In, groups["group-multicast"])
	orig := packet(t, "group-multicast")
	w := d.send(frame{data: orig})
	in := d.ingress(r1In, d.link(w, 0))
	raised := bytes.Clone(orig)
	setBits(t, raised, header(t, orig).id(), 200, 0)
	out := d.egress(r1Out, frame{data: raised, mark: in.mark, from: ifindex(r1In)})
	same(t, "on the link", out.data, raised)
	same(t, "behind it", d.deliver(out, 0).data, raised)
	same(t, "on the first link", d.deliver(w, 0).data, orig)
}

// TestGroupHeld: the slot of a tree is reused when its time is over, not when a copy has
// arrived; and until then its key stays with it.
func TestGroupHeld(t *testing.T) {
	d := newDomain(t, config{slots: 16, block: 4, timeout: time.Minute})
	d.join(h2In, groups["group-multicast"])
	orig := packet(t, "group-multicast")
	tree := uint32(d.nextPos()) & (d.layout.Slots - 1)
	w := d.send(frame{data: orig})
	d.deliver(w, 0)
	for range 64 {
		d.deliver(d.send(frame{data: packet(t, "udp-64")}), 0)
		same(t, "a late copy", d.deliver(w, 0).data, orig)
	}
	if s := d.slot(tree); s.State&uint8(stGroup) == 0 {
		t.Errorf("slot %d has another packet", tree)
	}
	d.age(tree, time.Minute+time.Second)
	for range 32 {
		d.deliver(d.send(frame{data: packet(t, "udp-64")}), 0)
	}
	if s := d.slot(tree); s.State&uint8(stGroup) != 0 {
		t.Errorf("slot %d is not reused", tree)
	}
}

// TestGrows: a packet for one becomes one for many at its last router.
func TestGrows(t *testing.T) {
	d := newDomain(t, config{})
	d.join(h2In, groups["group-directed-broadcast"])
	orig := packet(t, "group-directed-broadcast")
	copy(orig, packet(t, "udp-64")[:6])
	w := d.send(frame{data: orig})
	index := d.guid(w.data)
	in := d.route(d.ingress(r1In, d.link(w, 0)), r1In)
	in.data = slices.Concat(bytes.Repeat([]byte{0xff}, 6), in.data[6:])
	out := d.egress(r1Out, in)
	for range 3 {
		same(t, "behind the router", d.deliver(out, 0).data, in.data)
	}
	if s := d.slot(index); s.State&uint8(stGroup|stDone) != uint8(stGroup) {
		t.Errorf("state %#x of a tree", s.State)
	}
	d.wantStory(index, "out@0/FS in@1/F out@2/F deliver@3/F deliver@3/F deliver@3/F")
}

// TestGroupTrain: copies of a train for a group; one is cut, one stays whole.
func TestGroupTrain(t *testing.T) {
	d := newDomain(t, config{})
	for _, name := range trainNames {
		t.Run(name, func(t *testing.T) {
			d, tr := d.in(t), loadTrain(t, name)
			d.join(h2In, addr(10, 0, 4, 2))
			many := func(f frame) frame {
				f.data = slices.Concat(bytes.Repeat([]byte{0xff}, 6), f.data[6:])
				return f
			}
			w := d.send(many(tr.whole))
			_, next := d.transit(w, 0)
			same(t, "whole, late", d.deliver(w, 0).data, many(tr.whole).data)
			for i, s := range tr.cut(t, d.link(next, 0)) {
				same(t, "segment behind the router", d.deliver(many(s), 0).data, lowered(t, many(frame{data: tr.segments[i]}).data, 1))
			}
			for i, s := range tr.cut(t, d.link(w, 0)) {
				same(t, "segment, late", d.deliver(many(s), 0).data, many(frame{data: tr.segments[i]}).data)
			}
		})
	}
}

// TestGrowsCut: the same for a train that was cut on its path: each segment becomes a tree
// with bits of its own, also where some have been joined again.
func TestGrowsCut(t *testing.T) {
	many := func(data []byte) []byte { return slices.Concat(bytes.Repeat([]byte{0xff}, 6), data[6:]) }
	for _, name := range []string{"train-udp", "train-tcp", "train-wrap", "train-fixed"} {
		for _, size := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/by %d", name, size), func(t *testing.T) {
				d, tr := newDomain(t, config{}), loadTrain(t, name)
				d.join(h2In, addr(10, 0, 4, 2))
				segs := tr.cut(t, d.send(tr.whole))
				for at := 0; at < len(segs); at += size {
					n := min(size, len(segs)-at)
					piece := segs[at]
					if n > 1 {
						piece = join(t, segs[at:at+n]...)
					}
					in := d.route(d.ingress(r1In, d.link(piece, 0)), r1In)
					in.data = many(in.data)
					part := trainOf{segments: tr.segments[at : at+n], fixedID: tr.fixedID}
					for k, seg := range part.cut(t, d.egress(r1Out, in)) {
						seg.data = many(seg.data)
						same(t, fmt.Sprint("segment ", at+k), d.deliver(seg, 0).data, lowered(t, many(tr.segments[at+k]), 1))
					}
				}
			})
		}
	}
}

// TestGroupTrainFixed: a train for a group whose segments have all the same ID is cut, and
// they go through a node that carries the header.
func TestGroupTrainFixed(t *testing.T) {
	many := func(data []byte) []byte { return slices.Concat(bytes.Repeat([]byte{0xff}, 6), data[6:]) }
	d, tr := newDomain(t, config{carry: "header"}), loadTrain(t, "train-fixed")
	d.join(h2In, addr(10, 0, 4, 2))
	tr.whole.data = many(tr.whole.data)
	for k, seg := range tr.cut(t, d.send(tr.whole)) {
		seg.data = many(seg.data)
		_, out := d.transit(seg, 0)
		same(t, fmt.Sprint("segment ", k), d.deliver(out, 0).data, lowered(t, many(tr.segments[k]), 1))
	}
}
