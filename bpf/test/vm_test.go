// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"testing"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

const nodeVM = 6

// tap makes r1Edge a tap that a virtual machine has open; the machine owns addr.
func (d *domain) tap(owned uint32) {
	d.Helper()
	d.put(bpfobj.TcMapPorts, uint32(r1Edge), &bpfobj.TcRdrPort{
		Node: nodeR1, Ifindex: ifindex(r1Edge), NetnsInum: netns(nodeR1), Behind: nodeVM,
		Flags: internal | uint16(bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN|bpfobj.TcRdrPortFlagRDR_PF_TRUE),
	})
	d.put(bpfobj.TcMapLocals, &bpfobj.TcRdrLocal{Node: nodeVM, Addr: owned}, uint8(1))
}

// TestThroughVM: what goes into a virtual machine has true bits and is found again as it
// comes back, one router later.
func TestThroughVM(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, name := range byBits() {
			t.Run(carry+"/"+name, func(t *testing.T) {
				d, orig := d.in(t), packet(t, name)
				if header(t, orig).ttl() < 3+8 {
					return // behind the third router too low for a band
				}
				d.tap(addr(10, 0, 9, 9))
				w := d.send(frame{data: orig})
				index := d.guid(w.data)
				inside := d.ingress(r1In, d.link(w, 0))
				into := d.egress(r1Edge, d.route(inside, r1In))
				same(t, "in the machine", into.data, lowered(t, orig, 1))
				back := d.ingress(r1Edge, d.link(frame{data: into.data}, 1))
				out := d.egress(r1Out, d.route(back, r1Edge))
				d.wantMarked(out.data, lowered(t, orig, 3))
				same(t, "at h2", d.deliver(out, 0).data, lowered(t, orig, 3))
				d.wantStory(index, "out@0/FS in@1/F out@4/FK in@4/FK out@2/F deliver@3/F")
				if n := d.keyCount(); n != 0 {
					t.Errorf("%d keys left behind: %v", n, d.keyList())
				}
			})
		}
	}
}

// TestToVM: what is for an address of the machine ends there; its key is not needed.
func TestToVM(t *testing.T) {
	d := newDomain(t, config{})
	d.tap(addr(10, 0, 4, 2)) // where packets.py sends to
	orig := packet(t, "tcp-data")
	w := d.send(frame{data: orig})
	out := d.egress(r1Edge, d.route(d.ingress(r1In, w), r1In))
	same(t, "in the machine", out.data, lowered(t, orig, 1))
	d.wantStory(d.guid(w.data), "out@0/FS in@1/F left@4/F")
	if n := d.keyCount(); n != 0 {
		t.Errorf("%d keys", n)
	}
	// The node's own packet to it.
	out = d.egress(r1Edge, frame{data: orig})
	same(t, "from the node", out.data, orig)
	d.counted(tally{cSeen: 2, cMarked: 2})
}

// TestVMEqualPackets: of two packets that are the same in all that a key holds only one
// can be found again; the other one's story ends, and says so.
func TestVMEqualPackets(t *testing.T) {
	d := newDomain(t, config{})
	d.tap(addr(10, 0, 9, 9))
	orig := packet(t, "tcp-data")
	var stories []uint32
	for range 2 {
		w := d.send(frame{data: orig})
		stories = append(stories, d.guid(w.data))
		out := d.egress(r1Edge, d.route(d.ingress(r1In, w), r1In))
		same(t, "in the machine", out.data, lowered(t, orig, 1))
	}
	d.wantStory(stories[0], "out@0/FS in@1/F out@4/FK")
	d.wantStory(stories[1], "out@0/FS in@1/F left@4/FK")
	d.counted(tally{cSeen: 2, cMarked: 2, cKeyLost: 1})
}

// TestVMJoins: a machine joins packets whose slots are not neighbours, because another
// one came between them. That one's story is not touched, nor any bit.
func TestVMJoins(t *testing.T) {
	d := newDomain(t, config{})
	d.tap(addr(10, 0, 9, 9))
	singles := trainOf{segments: [][]byte{packet(t, "single-0"), packet(t, "single-1")}}
	for k, data := range singles.segments {
		setBits(t, data, uint16(500+k), 64, 0)
	}
	into := func(data []byte) (frame, uint32) {
		w := d.send(frame{data: data})
		return d.egress(r1Edge, d.route(d.ingress(r1In, w), r1In)), d.guid(w.data)
	}
	first, _ := into(singles.segments[0])
	_, between := into(packet(t, "tcp-data"))
	second, _ := into(singles.segments[1])
	back := d.ingress(r1Edge, join(t, frame{data: first.data}, frame{data: second.data}))
	for k, seg := range singles.cut(t, frame{data: back.data, segs: back.segs, size: back.size}) {
		same(t, fmt.Sprint("packet ", k), seg.data, lowered(t, singles.segments[k], 1))
	}
	d.wantStory(between, "out@0/FS in@1/F out@4/FK")
}

// TestVMCuts: a port without segmentation offload cuts trains behind the hook, and a switch in
// user space hands each segment back alone, or joined with its neighbours. Each is found by its
// own key, whatever has come back before it: none is lost, none begins anew.
func TestVMCuts(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, name := range trainNames {
			for _, order := range []string{"in order", "backwards", "pairs"} {
				t.Run(carry+"/"+name+"/"+order, func(t *testing.T) {
					d, tr := d.in(t), loadTrain(t, name)
					d.tap(addr(10, 0, 9, 9))
					testVMCuts(d, tr, order)
				})
			}
		}
	}
}

func testVMCuts(d *domain, tr trainOf, order string) {
	w := d.send(tr.whole)
	index := d.guid(w.data)
	into := d.egress(r1Edge, d.route(d.ingress(r1In, d.link(w, 0)), r1In))
	same(d, "in the machine", into.data, lowered(d, tr.whole.data, 1))
	segs := tr.cut(d, into)
	d.counted(tally{cSeen: uint64(len(segs)), cMarked: uint64(len(segs))})
	n := 1
	if order == "pairs" {
		n = 2
	}
	for at := 0; at < len(segs); at += n {
		k, m := at, min(n, len(segs)-at)
		if order == "backwards" {
			k = len(segs) - 1 - at
		}
		piece := d.link(segs[k], 0)
		if m > 1 {
			piece = d.link(join(d, segs[k:k+m]...), 0)
		}
		out := d.egress(r1Out, d.route(d.ingress(r1Edge, piece), r1Edge))
		part := trainOf{segments: tr.segments[k : k+m], fixedID: tr.fixedID}
		for i, seg := range part.cut(d, out) {
			end := d.deliver(seg, 0)
			same(d, fmt.Sprint("segment ", k+i), end.data, lowered(d, tr.segments[k+i], 2))
		}
	}
	for k := range segs {
		want := "in@4/FPK out@2/FP deliver@3/FP"
		if m := k % n; m > 0 { // the second of two that came as one
			want = "in@4/PK out@2/P deliver@3/FP"
		}
		if k == 0 {
			want = "out@0/FS in@1/F out@4/FK " + want
		}
		d.wantStory(index+uint32(k), want)
	}
	d.counted(tally{})
	if n := d.keyCount(); n != 0 {
		d.Errorf("%d keys left behind: %v", n, d.keyList())
	}
}
