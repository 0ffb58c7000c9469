// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// TestEdgeLeave: a packet that leaves the domain at r1 has its own bits, whether
// r1 is a router (found by mark) or a program in user space that hands the frame
// on as it came (found by the header).
func TestEdgeLeave(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, name := range byBits() {
			t.Run(carry+"/routed/"+name, func(t *testing.T) {
				d, orig := d.in(t), packet(t, name)
				w := d.send(frame{data: orig})
				inside := d.ingress(r1In, d.link(w, 2))
				out := d.egress(r1Edge, d.route(inside, r1In))
				same(t, "outside", out.data, lowered(t, orig, 3))
				if out.mark != 0 {
					t.Errorf("mark %#x left on the packet", out.mark)
				}
				d.wantStory(d.guid(w.data), "out@0/FS in@1/F left@4/F")
				if s := d.slot(d.guid(w.data)); s.State&^uint8(stIPv6) != uint8(stDone) {
					t.Errorf("state %#x of a packet that left", s.State)
				}
			})
			t.Run(carry+"/unseen/"+name, func(t *testing.T) {
				d, orig := d.in(t), packet(t, name)
				w := d.send(frame{data: orig})
				out := d.egress(r1Edge, d.link(w, 3))
				same(t, "outside", out.data, lowered(t, orig, 3))
				d.wantStory(d.guid(w.data), "out@0/FS left@4/F")
			})
		}
	}
}

// TestForwarderInUserSpace: r1 hands frames on with their wire bits; the next
// link carries a GUID whose TTL stands at its band's top again.
func TestForwarderInUserSpace(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "tcp-data")
	w := d.send(frame{data: orig})
	index := d.guid(w.data)
	out := d.egress(r1Out, d.link(w, 7))
	d.wantMarked(out.data, lowered(t, orig, 7))
	end := d.deliver(out, 7)
	same(t, "at h2", end.data, lowered(t, orig, 14))
	d.wantStory(index, "out@0/FS out@2/F deliver@3/F")
}

// TestEdgeSource: what enters at an edge is sourced there, and travels on.
func TestEdgeSource(t *testing.T) {
	for _, carry := range []string{"mark", "header"} {
		d := newDomain(t, config{carry: carry})
		for _, name := range append(byBits(), byKey()...) {
			orig := packet(t, name)
			if header(t, orig).ttl() < 3 {
				continue
			}
			t.Run(carry+"/"+name, func(t *testing.T) {
				d := d.in(t)
				inside := d.ingress(r1Edge, frame{data: orig})
				if d.layout.MarkMask != 0 {
					same(t, "inside r1", inside.data, orig)
				}
				out := d.egress(r1Out, d.route(inside, r1Edge))
				end := d.deliver(out, 0)
				same(t, "at h2", end.data, lowered(t, orig, 1))
				d.counted(tally{cSeen: 1, cMarked: 1})
				if left := d.keyCount(); left != 0 {
					t.Errorf("%d keys left behind", left)
				}
			})
		}
	}
}

// TestEdgeSourceStory: the log of a packet that entered at an edge.
func TestEdgeSourceStory(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "udp-64")
	inside := d.ingress(r1Edge, frame{data: orig})
	index := d.markIndex(inside.mark)
	d.wantStory(index, "in@4/FS")
	out := d.egress(r1Out, d.route(inside, r1Edge))
	d.wantMarked(out.data, lowered(t, orig, 1))
	d.deliver(out, 0)
	d.wantStory(index, "in@4/FS out@2/F deliver@3/F")
}

// TestEdgeToEdge: a packet that only crosses r1 is measured and never changed.
func TestEdgeToEdge(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "tcp-data")
	inside := d.ingress(r1Edge, frame{data: orig})
	same(t, "inside r1", inside.data, orig)
	out := d.egress(r1Edge, d.route(inside, r1Edge))
	same(t, "outside", out.data, lowered(t, orig, 1))
	d.wantStory(d.markIndex(inside.mark), "in@4/FS left@4/F")
}

// TestEdgeToLocal: from outside to a process of the node: one event, done at once.
func TestEdgeToLocal(t *testing.T) {
	d := newDomain(t, config{})
	d.put(bpfobj.TcMapLocals, bpfobj.TcRdrLocal{Node: nodeR1, Addr: addr(10, 0, 4, 2)}, uint8(1))
	orig := packet(t, "tcp-data")
	inside := d.ingress(r1Edge, frame{data: orig})
	same(t, "inside r1", inside.data, orig)
	index := uint32(0)
	d.wantStory(index, "deliver@4/FS")
	if s := d.slot(index); s.State != uint8(stDone) {
		t.Errorf("state %#x", s.State)
	}
}

// TestOwnPacketToEdge: what r1 itself sends out of the domain.
func TestOwnPacketToEdge(t *testing.T) {
	d := newDomain(t, config{})
	for _, name := range []string{"udp-64", "clear-udp", "ttl-1"} {
		orig := packet(t, name)
		out := d.egress(r1Edge, frame{data: orig})
		same(t, name, out.data, orig)
		d.counted(tally{cSeen: 1, cMarked: 1})
	}
	d.wantStory(0, "left@4/FS")
	if n := d.keyCount(); n != 0 {
		t.Errorf("%d keys for packets that left", n)
	}
}

// TestNotSourcedAgain: a packet that was refused once stays so: no port inside
// the domain and no egress of a forwarded packet makes a second source.
func TestNotSourcedAgain(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "udp-64")
	in := d.ingress(r1In, frame{data: orig})
	same(t, "behind ingress", in.data, orig)
	d.counted(tally{cPassed: 1})
	for _, port := range []uint32{r1Out, r1Edge} {
		out := d.egress(port, frame{data: orig, from: ifindex(r1In)})
		same(t, "behind egress", out.data, orig)
		d.counted(tally{cPassed: 1})
	}
	out := d.egress(closed, frame{data: orig})
	same(t, "behind a port that sources nothing", out.data, orig)
	d.counted(tally{cPassed: 1})
	// An interface that is not attached: nobody has met the packet before.
	d.wantMarked(d.egress(r1Out, frame{data: orig, from: 99}).data, orig)
	d.counted(tally{cSeen: 1, cMarked: 1})
}

// TestUnknownPort: a port number that nobody wrote is no port.
func TestUnknownPort(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "udp-64")
	for _, port := range []uint32{100, 20000, ^uint32(0)} {
		same(t, "ingress", d.ingress(port, frame{data: orig}).data, orig)
		same(t, "egress", d.egress(port, frame{data: orig}).data, orig)
	}
}

// TestRawInterface: an interface without Ethernet header. The first bytes are
// fixed by what test_run takes for the protocol, see packets.py.
func TestRawInterface(t *testing.T) {
	d := newDomain(t, config{})
	orig := packet(t, "raw-ip")
	ether := append(make([]byte, 12), 8, 0)
	out := d.egress(r1Raw, frame{data: orig})
	d.counted(tally{cSeen: 1, cMarked: 1})
	d.wantMarked(append(bytes.Clone(ether), out.data...), append(bytes.Clone(ether), orig...))
	in := d.ingress(r1Raw, d.link(frame{data: out.data}, 0))
	same(t, "restored", in.data, orig)
	d.wantStory(d.guid(append(ether, out.data...)), "out@6/FS in@6/F")
}

// TestVLANInMetadata: the kernel keeps the outer tag beside the packet. A small
// program in front moves it there and jumps to the real one, as stubs do.
func TestVLANInMetadata(t *testing.T) {
	d := newDomain(t, config{})
	inner := packet(t, "udp-64")
	for _, c := range []struct {
		name string
		data []byte
		want tally
	}{
		{"one tag", inner, tally{cSeen: 1, cMarked: 1}},
		{"two tags", packet(t, "vlan"), tally{cSeen: 1, cMarked: 1}},
		{"three tags", packet(t, "vlan-2"), tally{cSeen: 1, cVLANDepth: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := d.in(t)
			orig := c.data
			out := d.run(d.tagger(bpfobj.TcRdrProgRDR_PROG_EGRESS), h1Out, frame{data: orig})
			d.counted(c.want)
			if c.want[cMarked] == 0 {
				same(t, "egress", out.data, orig)
				return
			}
			d.wantMarked(out.data, orig)
			if s := d.slot(d.guid(out.data)); s.Flags&uint8(bpfobj.TcRdrSlotFlagRDR_SF_VLAN) == 0 {
				t.Error("the slot does not tell of the tag")
			}
			in := d.run(d.tagger(bpfobj.TcRdrProgRDR_PROG_INGRESS), h2In, d.link(out, 3))
			same(t, "ingress", in.data, lowered(t, orig, 3))
		})
	}
}

// tagger loads a program that puts a VLAN tag into the skb's metadata and jumps to
// one of radar's.
func (d *domain) tagger(prog bpfobj.TcRdrProg) *ebpf.Program {
	d.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "tagger", Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R6, asm.R1),
			asm.Mov.Imm(asm.R2, int32(binary.NativeEndian.Uint16([]byte{0x81, 0x00}))),
			asm.Mov.Imm(asm.R3, 42),
			asm.FnSkbVlanPush.Call(),
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.LoadMapPtr(asm.R2, d.Maps[bpfobj.TcMapProgs].FD()),
			asm.Mov.Imm(asm.R3, int32(prog)),
			asm.FnTailCall.Call(),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		},
	})
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { p.Close() })
	return p
}
