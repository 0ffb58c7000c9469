// SPDX-License-Identifier: Apache-2.0

package test

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
)

// trace attaches one of the tracing programs to the kernel, with the domain's maps and
// configuration. It is detached when the test ends.
func (d *domain) trace(t *testing.T, name string) {
	t.Helper()
	spec, err := bpfobj.LoadTrace()
	d.must("trace objects", err)
	d.configure(spec, config{})
	for other := range spec.Programs {
		if other != name {
			delete(spec.Programs, other)
		}
	}
	shared := make(map[string]*ebpf.Map)
	for name := range spec.Maps {
		if m := d.Maps[name]; m != nil && name[0] != '.' {
			shared[name] = m
		}
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared})
	d.must("load "+name, err)
	t.Cleanup(coll.Close)
	l, err := link.AttachTracing(link.TracingOptions{Program: coll.Programs[name]})
	d.must("attach "+name, err)
	t.Cleanup(func() { d.must("detach "+name, l.Close()) })
}

// isPort makes an interface of this namespace the port with that number, with more flags.
func (d *domain) isPort(index, port int, flags bpfobj.TcRdrPortFlag) {
	d.Helper()
	p := portTable[port]
	var st unix.Stat_t
	d.must("this namespace", unix.Stat("/proc/thread-self/ns/net", &st))
	p.Flags |= uint16(flags)
	p.Ifindex, p.NetnsInum = uint32(index), uint32(st.Ino)
	d.put(bpfobj.TcMapPorts, uint32(port), p)
	d.put(bpfobj.TcMapDevs, bpfobj.TcRdrDev{NetnsInum: p.NetnsInum, Ifindex: p.Ifindex}, uint32(port))
}

// needQueues is for tests of packets that leave queues, which a tracing program sees.
func needQueues(t *testing.T) {
	t.Helper()
	needBTF(t)
	need.Programs(t, "tc:iproute2")
}

// needBTF is for programs that read the kernel's structures.
func needBTF(t testing.TB) {
	t.Helper()
	need.AsRoot(t)
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		need.Lack(t, need.Kernel, "BTF")
	}
}

// TestSeveralFromQueue: a queue that hands several packets to its device at once. Each of them
// has left the queue, not the first alone.
func TestSeveralFromQueue(t *testing.T) {
	needQueues(t)
	d := newDomain(t, config{})
	b := d.newBridged(t)
	d.isPort(b.out, h1Out, bpfobj.TcRdrPortFlagRDR_PF_QUEUE)
	t.Cleanup(func() { d.empty(bpfobj.TcMapDevs) })
	d.attach(b.out, h1Out)
	d.trace(t, bpfobj.TraceProgRadarQdiscDequeue)

	// With one transmit queue the kernel takes several only if the device counts bytes.
	out, err := netlink.LinkByIndex(b.out)
	d.must("out", err)
	if out.Attrs().NumTxQueues < 2 {
		t.Fatalf("%d transmit queues", out.Attrs().NumTxQueues)
	}
	b.run("tc", "qdisc", "add", "dev", "out", "root", "handle", "1:", "tbf", "rate", "500bit", "burst", "1600", "limit", "100000")
	const n = 6
	pos := d.nextPos()
	for k := range n {
		if k == n-1 { // those before it wait: the first has used up the burst
			b.run("tc", "qdisc", "change", "dev", "out", "root", "handle", "1:", "tbf", "rate", "1gbit", "burst", "100000", "limit", "100000")
		}
		_, err := unix.Write(b.send, large(t, k))
		d.must("send", err)
	}
	for k := range n {
		b.receive(large(t, k))
	}
	for k := range n {
		d.wantStory(uint32(pos+uint64(k))&(d.layout.Slots-1), "out@0/FS queue@0/F")
	}
}

// TestPartial: of a packet in a queue the end of the TCP header lies in a page, out of reach: without its time stamp the
// content would be another packet's. It is known by its flow.
func TestPartial(t *testing.T) {
	needQueues(t)
	d := newDomain(t, config{})
	b := d.newBridged(t)
	for _, name := range []string{"out", "in", "far", "to-far"} {
		l, err := netlink.LinkByName(name)
		d.must(name, err)
		d.must("MTU", netlink.LinkSetMTU(l, 9000))
	}
	d.isPort(b.out, h1Out, bpfobj.TcRdrPortFlagRDR_PF_QUEUE)
	t.Cleanup(func() { d.empty(bpfobj.TcMapDevs) })
	d.attach(b.out, h1Out)
	// Shorter frames are never in pages.
	orig := append(packet(t, "tcp-data"), make([]byte, os.Getpagesize())...)
	setLength(orig)
	fixSum(orig, etherHeader)
	index := uint32(d.nextPos()) & (d.layout.Slots - 1)
	wire := b.carry(orig)
	d.wantStory(index, "out@0/FS")

	out, err := netlink.LinkByIndex(b.out)
	d.must("out", err)
	d.must("no source", netlink.QdiscDel(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: b.out, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}))
	b.run("tc", "qdisc", "add", "dev", out.Attrs().Name, "root", "handle", "1:", "tbf", "rate", "1gbit", "burst", "100000", "limit", "100000")
	d.trace(t, bpfobj.TraceProgRadarQdiscDequeue)
	d.must("PACKET_VNET_HDR", unix.SetsockoptInt(b.send, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1))
	for _, reach := range []int{20, 24, 31, 32} {
		vnet := make([]byte, 10) // struct virtio_net_hdr
		binary.NativeEndian.PutUint16(vnet[2:], uint16(etherHeader+20+reach))
		_, err := unix.Write(b.send, append(vnet, wire...))
		d.must("send", err)
		b.receive(wire)
	}
	d.wantStory(index, "out@0/FS queue@0/F queue@0/F queue@0/F queue@0/F")
}

// TestQueueBelowTunnel: what leaves a queue around another packet says of that one, too, that it left
// it, in the node where that went into the tunnel alone.
func TestQueueBelowTunnel(t *testing.T) {
	needQueues(t)
	for _, c := range []struct {
		name  string
		port  int
		story string
	}{
		{"same node", closed, "out@0/FS in@1/F out@2/F queue@2/F"},
		{"further on", h2Out, "out@0/FS in@1/F out@2/F"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDomain(t, config{})
			d.tunnels(0)
			w := d.send(frame{data: packet(t, "tcp-data")})
			index := d.guid(w.data)
			_, inner := d.transit(w, 0)
			outer := d.egress(closed, outerPacket(t, inner))
			around := d.guid(outer.data)
			b := d.newBridged(t)
			d.isPort(b.out, c.port, bpfobj.TcRdrPortFlagRDR_PF_QUEUE)
			t.Cleanup(func() { d.empty(bpfobj.TcMapDevs) })
			d.trace(t, bpfobj.TraceProgRadarQdiscDequeue)
			b.run("tc", "qdisc", "add", "dev", "out", "root", "handle", "1:", "tbf", "rate", "1gbit", "burst", "100000", "limit", "100000")
			_, err := unix.Write(b.send, outer.data)
			d.must("send", err)
			b.receive(outer.data)
			d.wantStory(index, c.story)
			if got := d.slot(around).Nev; got != 5 {
				t.Errorf("%d cells of the packet around it, want 5", got)
			}
		})
	}
}

// large is a packet of 1,400 bytes, the k-th.
func large(t *testing.T, k int) []byte {
	t.Helper()
	data := append(unique(t, k), make([]byte, 1400)...)[:etherHeader+1400]
	setLength(data)
	fixSum(data, etherHeader)
	return data
}

// TestReasons: the number of a drop reason keeps its subsystem, in 16 bits.
func TestReasons(t *testing.T) {
	need.AsRoot(t)
	spec, err := bpfobj.LoadTrace()
	if err != nil {
		t.Fatal(err)
	}
	for reason, want := range map[uint32]uint16{
		0: 0, 2: 2, 77: 77, 0xfff: 0xfff,
		1<<16 | 3:     0x1003, // mac80211, unusable
		2<<16 | 0x11:  0x2011, // mac80211, monitor
		3<<16 | 5:     0x3005, // openvswitch
		15<<16 | 4095: 0xffff,
	} {
		p := &ebpf.ProgramSpec{Type: ebpf.SocketFilter, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R1, int32(reason))}}
		inside := false
		for _, ins := range spec.Programs[bpfobj.TraceProgRadarKfreeSkb].Instructions {
			if ins.Symbol() != "" {
				inside = ins.Symbol() == "pack_reason"
			}
			if inside {
				p.Instructions = append(p.Instructions, asm.Instruction{OpCode: ins.OpCode, Dst: ins.Dst, Src: ins.Src, Offset: ins.Offset, Constant: ins.Constant})
			}
		}
		if len(p.Instructions) == 1 {
			t.Fatal("radar_kfree_skb has no function pack_reason")
		}
		prog, err := ebpf.NewProgram(p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := prog.Run(&ebpf.RunOptions{Data: make([]byte, 64)})
		if err != nil {
			t.Fatal(err)
		}
		if prog.Close(); got != uint32(want) {
			t.Errorf("reason %#x becomes %#x, want %#x", reason, got, want)
		}
	}
}
