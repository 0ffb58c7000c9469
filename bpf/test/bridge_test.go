// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// Marks of the host's own: closing ports must neither read one in radar's bits nor
// set them.
const (
	hostMark = 0xffffffff
	noMark   = 1 // not in radar's bits
)

// toHost makes the frame one for the device that it arrives at. BPF_PROG_TEST_RUN
// takes all frames for another host's that are not for the loopback's address.
func toHost(data []byte) []byte {
	data = bytes.Clone(data)
	clear(data[:6])
	return data
}

// onLink is what a bridge hands to one of its ports.
func (d *domain) onLink(f frame) frame {
	d.Helper()
	f = d.link(f, 0)
	f.mark, f.from = hostMark, 99
	return f
}

// wantMark: nothing in a closing node gets a mark, nor loses one.
func (d *domain) wantMark(f frame, want uint32) {
	d.Helper()
	if f.mark != want {
		d.Errorf("the mark is %#x behind a closing port, want %#x", f.mark, want)
	}
}

// up is a packet that the bridge hands to the host.
func (d *domain) up(f frame) frame {
	d.Helper()
	f = d.onLink(f)
	f.mark = noMark
	out := d.ingress(bridge, f)
	d.wantMark(out, noMark)
	return out
}

// eachCarry runs a test under both ways of carrying the index in a node, for every
// packet that is marked by its bits and for those that have a key.
func eachCarry(t *testing.T, test func(d *domain, name string, keyed bool)) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, name := range byBits() {
			t.Run(carry+"/"+name, func(t *testing.T) { test(d.in(t), name, false) })
		}
		for _, name := range named(false, "clear-", "fragment-") {
			t.Run(carry+"/"+name, func(t *testing.T) {
				d := d.in(t)
				d.empty(bpfobj.TcMapKeys)
				test(d, name, true)
			})
		}
	}
}

// k is the flag of events of packets with a key.
func k(keyed bool) string {
	if keyed {
		return "K"
	}
	return ""
}

// TestFlooded: a bridge hands copies of one packet to a member that leads outside, to
// its destination and to a node that it is not for, in any order. Every copy has its
// own bits again, and the packet is delivered.
func TestFlooded(t *testing.T) {
	eachCarry(t, func(d *domain, name string, keyed bool) {
		orig := packet(d, name)
		index := uint32(d.nextPos()) & (d.layout.Slots - 1)
		w := d.send(frame{data: orig})
		out := d.egress(member, d.onLink(w))
		same(d, "behind the member", out.data, orig)
		d.wantMark(out, hostMark)
		d.wantStory(index, "out@0/FS"+k(keyed)+" left@8/F")
		if s := d.slot(index); s.State&uint8(stDone) == 0 {
			d.Errorf("state %#x of a packet that left", s.State)
		}
		same(d, "at h2", d.deliver(w, 0).data, orig)
		story := "out@0/FS" + k(keyed) + " left@8/F deliver@3/F" + k(keyed)
		d.wantStory(index, story)

		// Later copies are restored, and do not change the packet's story.
		same(d, "behind the member again", d.egress(member, d.onLink(w)).data, orig)
		h3, want := d.ingress(h3In, d.link(w, 0)), orig
		if d.layout.MarkMask == 0 {
			want = w.data // --carry header shows true bits to the destination only
		}
		same(d, "at h3", h3.data, want)
		same(d, "shown to the host's taps", d.up(w).data, orig)
		story += " left@8/F ignored@10/F" + k(keyed)
		d.wantStory(index, story)
		if s := d.slot(index); s.State&uint8(stDone|stLost) != uint8(stDone) {
			d.Errorf("state %#x of a packet that was delivered", s.State)
		}
	})
}

// TestOntoLink: what comes from outside by a member goes straight onto the link: it
// is marked at once.
func TestOntoLink(t *testing.T) {
	eachCarry(t, func(d *domain, name string, keyed bool) {
		orig := packet(d, name)
		index := uint32(d.nextPos()) & (d.layout.Slots - 1)
		in := d.ingress(member, frame{data: orig, mark: noMark})
		d.counted(tally{cSeen: 1, cMarked: 1})
		d.wantMark(in, noMark)
		if keyed {
			same(d, "on the link", in.data, orig)
		} else {
			d.wantMarked(in.data, orig)
		}
		same(d, "at h2", d.deliver(in, 0).data, orig)
		d.wantStory(index, "out@8/FS"+k(keyed)+" deliver@3/F"+k(keyed))
	})
}

// TestEscaped: bits of ours come in by a member, though nobody should have them there.
// They go on as they are, to be restored.
func TestEscaped(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "udp-64")
	w := d.send(frame{data: orig})
	d.counted(tally{cSeen: 1, cMarked: 1})
	in := d.ingress(member, d.onLink(w))
	same(t, "on the link", in.data, w.data)
	d.wantMark(in, hostMark)
	d.counted(tally{cPassed: 1})
	same(t, "at h2", d.deliver(in, 0).data, orig)
	d.wantStory(d.guid(w.data), "out@0/FS deliver@3/F")
}

// TestComesBack: a packet that left and is sent back in is another one, whatever key
// the first had.
func TestComesBack(t *testing.T) {
	eachCarry(t, func(d *domain, name string, keyed bool) {
		orig := packet(d, name)
		first := uint32(d.nextPos()) & (d.layout.Slots - 1)
		out := d.egress(member, d.onLink(d.send(frame{data: orig})))
		second := uint32(d.nextPos()) & (d.layout.Slots - 1)
		back := d.ingress(member, d.link(out, 0))
		same(d, "at h2", d.deliver(back, 0).data, orig)
		d.wantStory(first, "out@0/FS"+k(keyed)+" left@8/F")
		d.wantStory(second, "out@8/FS"+k(keyed)+" deliver@3/F"+k(keyed))
	})
}

// TestUpToHost: the host behind the bridge device sees true headers and no mark. What
// is for one of its addresses is delivered, the rest leaves; what it sends back, by
// by the same path and under whatever mark, is a new packet.
func TestUpToHost(t *testing.T) {
	eachCarry(t, func(d *domain, name string, keyed bool) {
		orig := packet(d, name)
		first := uint32(d.nextPos()) & (d.layout.Slots - 1)
		w := d.send(frame{data: toHost(orig)})
		up := d.up(w)
		same(d, "in the host", up.data, toHost(orig))
		d.wantStory(first, "out@0/FS"+k(keyed)+" left@9/F"+k(keyed))
		if keyed && d.keyCount() != 0 {
			d.Errorf("%d keys of packets that left", d.keyCount())
		}

		second := uint32(d.nextPos()) & (d.layout.Slots - 1)
		up.from, up.mark = ifindex(bridge), hostMark
		down := d.egress(bridge, up)
		d.wantMark(down, hostMark)
		same(d, "at h2", d.deliver(down, 0).data, toHost(orig))
		d.wantStory(second, "out@9/FS"+k(keyed)+" deliver@3/F"+k(keyed))
	})
}

// TestForHost: the host owns the address.
func TestForHost(t *testing.T) {
	d := newDomain(t, config{})
	d.put(bpfobj.TcMapLocals, bpfobj.TcRdrLocal{Node: nodeHost, Addr: addr(10, 0, 4, 2)}, uint8(1))
	orig := toHost(packet(t, "udp-64"))
	w := d.send(frame{data: orig})
	same(t, "in the host", d.up(w).data, orig)
	d.wantStory(d.guid(w.data), "out@0/FS deliver@9/F")
}

// TestClosingUnknown: packets that no source has marked pass closing ports untouched;
// only what comes onto the link meets a source there.
func TestClosingUnknown(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "udp-64")
	for _, from := range []uint32{0, 99} {
		f := frame{data: orig, mark: hostMark, from: from}
		out := d.egress(member, f)
		same(t, "behind the member", out.data, orig)
		d.wantMark(out, hostMark)
		d.counted(tally{cPassed: 1})
	}
	up := d.ingress(bridge, frame{data: orig, mark: hostMark})
	same(t, "in the host", up.data, orig)
	d.wantMark(up, hostMark)
	d.counted(tally{cPassed: 1})
	d.lease(false)
	same(t, "onto the link without lease", d.ingress(member, frame{data: orig}).data, orig)
	d.counted(tally{cSeen: 1, cLease: 1})
}

// TestFloodedTrain: copies of a train that a queue has cut on one path and not on the
// other.
func TestFloodedTrain(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, name := range trainNames {
			t.Run(carry+"/"+name, func(t *testing.T) {
				d, tr := d.in(t), loadTrain(t, name)
				w := d.send(tr.whole)
				whole := d.onLink(w)
				whole.segs, whole.size = tr.whole.segs, tr.whole.size
				same(t, "whole behind the member", d.egress(member, whole).data, tr.whole.data)
				for i, s := range tr.cut(t, d.link(w, 0)) {
					same(t, "segment at h2", d.deliver(s, 0).data, tr.segments[i])
				}
				for i, s := range tr.cut(t, d.link(w, 0)) {
					same(t, "segment behind the member", d.egress(member, d.onLink(s)).data, tr.segments[i])
				}
			})
		}
	}
}

// TestFloodedAtTheEnd: the lease ends while a packet is in flight that a bridge floods.
// The copy that leaves first is not the only one to restore: the destination and every
// other member have their own.
func TestFloodedAtTheEnd(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, name := range byBits() {
			t.Run(carry+"/"+name, func(t *testing.T) {
				d := d.in(t)
				orig := packet(t, name)
				var copies [4][]byte
				for end := time.Now().Add(2 * time.Minute); ; {
					d.lease(true)
					w := d.send(frame{data: orig})
					d.lease(false)
					first := time.Now()
					copies[0] = d.egress(member, d.onLink(w)).data
					copies[1] = d.egress(member, d.onLink(w)).data
					copies[2] = d.deliver(w, 0).data
					copies[3] = d.up(w).data
					// Copies count as such for 2 ms.
					if time.Since(first) < time.Millisecond {
						break
					}
					if time.Now().After(end) {
						t.Fatal("the machine is too busy: four packets always took more than 1 ms")
					}
				}
				for i, where := range []string{"behind the member", "behind the member again", "at h2", "shown to the host's taps"} {
					same(t, where, copies[i], orig)
				}
			})
		}
	}
}
