// SPDX-License-Identifier: Apache-2.0

package test

import (
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/host/clock"
)

// ofTrace is a function of the programs for drops and queues.
func ofTrace(name string) callee { return callee{load: bpfobj.LoadTrace, name: name} }

// Where a packet was freed that has arrived, as look_at_place() says.
const atReceiver = 1

// lossAt packs what lose_run() takes: the port, the state of a loss inside a node, and where it was freed.
func lossAt(port uint32, state bpfobj.TcRdrState, place uint64) uint64 {
	return uint64(port) | uint64(state)<<16 | place<<24
}

// TestLossOfSegment: the destination frees one segment of a train that has arrived whole. That is a drop after delivery, of that
// segment alone, and its own log does not say where it is: its head's does.
func TestLossOfSegment(t *testing.T) {
	for _, name := range []string{"train-udp", "train-tcp"} {
		t.Run(name, func(t *testing.T) {
			d := newDomain(t, config{})
			tr := loadTrain(t, name)
			w := d.send(tr.whole)
			index := uint64(d.guid(w.data))
			d.deliver(w, 0)
			n := uint64(len(tr.segments))
			d.counted(tally{cSeen: n, cMarked: n})
			d.call(ofTrace("fill_train_at"), index+1)
			for inum, want := range map[uint32]uint32{netns(nodeH2): atReceiver, netns(nodeR1): 0, 0: atReceiver} {
				if got := d.call(ofTrace("look_at_place"), index+1, h2In, uint64(inum)); got != want {
					t.Errorf("freed in namespace %d: place %d, want %d", inum, got, want)
				}
			}
			d.call(ofTrace("lose_run"), index+1, 1, lossAt(h2In, 0, atReceiver), 0, 0)
			d.counted(tally{cLocalDrop: 1})
			for k := range n {
				s := d.slot(uint32(index + k))
				local, lost := s.State&uint8(stLocalDrop) != 0, s.State&uint8(stLost) != 0
				if local != (k == 1) || lost {
					t.Errorf("segment %d: state %#x", k, s.State)
				}
			}
		})
	}
}

// TestLossHeld: a loss inside a node may be withdrawn late, one on a link may not. Either is the packet's end, until it is seen
// in a queue after all; a packet that has arrived is not.
func TestLossHeld(t *testing.T) {
	d := newDomain(t, config{})
	for index, held := range []bpfobj.TcRdrState{0, stHeld} {
		d.send(frame{data: unique(t, index)})
		d.counted(tally{cSeen: 1, cMarked: 1})
		d.call(ofTrace("lose_run"), uint64(index), 1, lossAt(h1Out, held, 0), 0, 0)
		d.counted(tally{cLoss: 1})
		if s := d.slot(uint32(index)); s.State != uint8(stDone|stLost|held) {
			t.Errorf("state %#x of a loss, want %#x", s.State, stDone|stLost|held)
		}
		d.call(ofTrace("dequeue_run"), uint64(index), 1, uint64(clock.Monotonic()), h1Out)
		d.counted(tally{cWithdrawn: 1})
		d.wantStory(uint32(index), "out@0/FS loss@0/F queue@0/F")
	}
	w := d.send(frame{data: unique(t, 2)})
	d.deliver(w, 0)
	d.call(ofTrace("dequeue_run"), 2, 1, uint64(clock.Monotonic()), h1Out)
	d.wantStory(2, "out@0/FS deliver@3/F")
}

// TestLacksNodes: a segment's story begins with its train's, so it may lack what the train's log had no room for.
func TestLacksNodes(t *testing.T) {
	d := newDomain(t, config{})
	index := d.guid(d.send(loadTrain(t, "train-udp").whole).data)
	d.call(ofTrace("fill_train_at"), uint64(index+1))
	for _, c := range []struct {
		full   uint32 // the slot whose log is
		at     uint32
		expect bool
	}{{index, index, true}, {index, index + 1, true}, {index + 1, index + 1, true}, {index + 1, index, false}, {index + 1, index + 2, false}} {
		s := d.slot(c.full)
		was := s.State
		s.State |= uint8(stFull)
		d.write(s)
		if got := d.call(ofTrace("lacks_nodes"), uint64(c.at)) != 0; got != c.expect {
			t.Errorf("the log of slot %d is full: the packet in slot %d may lack nodes: %v, want %v", c.full, c.at, got, c.expect)
		}
		s.State = was
		d.write(s)
	}
}

// TestTreeKeepsSource: of several copies each may get other addresses. The slot keeps the source's, by which the others are found.
func TestTreeKeepsSource(t *testing.T) {
	for _, tree := range []bool{false, true} {
		d := newDomain(t, config{})
		index := d.guid(d.send(frame{data: packet(t, "udp-64")}).data)
		before := d.slot(index)
		if tree {
			before.State |= uint8(stGroup)
			d.write(before)
		}
		// Of the whole packet: RUN_IS_WHOLE.
		d.call(ofTrace("note_run"), uint64(index), 1, 0x0102030405060708, 53|r1Out<<32|1<<48, uint64(clock.Monotonic()))
		if s := d.slot(index); (s.FlowHash == before.FlowHash) != tree || s.story() != "out@0/FS addr@2/F" {
			t.Errorf("a tree: %v; flow hash %#x became %#x, story %q", tree, before.FlowHash, s.FlowHash, s.story())
		}
	}
}

// TestQuickSwitch: a switch that reads frames has sent the packet on before its arrival was noted. What another program sends with
// the packet's bits is not that packet once more.
func TestQuickSwitch(t *testing.T) {
	const byPacket = 2 // a packet socket has sent it
	for _, quick := range []bool{false, true} {
		d := newDomain(t, config{})
		d.send(frame{data: unique(t, 0)}) // the call returns an index that is not 0
		w := d.send(frame{data: packet(t, "udp-64")})
		index := d.guid(w.data)
		want, story := index, "out@0/FS in@1/F"
		if quick {
			d.egress(r1Out, d.link(w, 0))
			want, story = 0, "out@0/FS out@2/F in@1/F"
		}
		d.ingress(r1In, d.link(w, 0))
		d.wantStory(index, story)
		h := header(t, w.data)
		bits := uint64(h[4]) | uint64(h[5])<<8 | uint64(h.ttl())<<16 | uint64(h.tos())<<24
		const anotherFlow = 12345 << 32
		if got := d.call(callee{load: bpfobj.LoadTc, name: "whose_bits"}, bits|anotherFlow, r1In, uint64(clock.Monotonic()), byPacket); got != want {
			t.Errorf("quick: %v; the bits are those of slot %d, want %d", quick, got, want)
		}
	}
}

// TestRedirectElsewhere: interfaces of other namespaces have the same numbers. A packet that tc has redirected takes back the
// departure by the interface that it came from, and no other node's.
func TestRedirectElsewhere(t *testing.T) {
	if noIngressIfindex() {
		t.Skip("the test runner of this kernel takes no interface by which a packet came")
	}
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	var skb *btf.Struct
	if err := kernel.TypeByName("sk_buff", &skb); err != nil {
		t.Fatal(err)
	}
	var set uint32 // a bit that is set, as the one for redirected packets is: of the 64 bytes of the frame
	for _, m := range skb.Members {
		if m.Name == "len" {
			set = m.Offset.Bytes()<<8 | 64
		}
	}
	d := newDomain(t, config{})
	w := d.send(frame{data: packet(t, "udp-64")})
	index := d.guid(w.data)
	d.transit(w, 0)
	const found = 1 << 48
	for _, c := range []struct {
		port  uint64
		story string
	}{{h2Out, "out@0/FS in@1/F out@2/F"}, {closed, "out@0/FS in@1/F"}} {
		f := callee{load: bpfobj.LoadTc, name: "follow_redirect", skb: &skBuff{IngressIfindex: ifindex(r1Out)}, vars: map[string]any{bpfobj.TcVarCfgSkbRedirected: set}}
		d.call(f, uint64(index)|found, c.port, 0, 1)
		d.wantStory(index, c.story)
	}
}
