// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// skBuff is struct __sk_buff of linux/bpf.h. BPF_PROG_TEST_RUN takes mark,
// IngressIfindex, Cb, GsoSegs and GsoSize of it; all else must be 0.
type skBuff struct {
	Len, PktType, Mark, QueueMapping, Protocol     uint32
	VlanPresent, VlanTci, VlanProto, Priority      uint32
	IngressIfindex, Ifindex, TcIndex               uint32
	Cb                                             [5]uint32
	Hash, TcClassid, Data, DataEnd, NapiID, Family uint32
	RemoteIP4, LocalIP4                            uint32
	RemoteIP6, LocalIP6                            [4]uint32
	RemotePort, LocalPort, DataMeta                uint32
	FlowKeys, Tstamp                               uint64
	WireLen, GsoSegs                               uint32
	Sk                                             uint64
	GsoSize, TstampType                            uint32
	Hwtstamp                                       uint64
}

// bytes are the struct's own: to encode it by reflection takes longer than many a run.
func (s *skBuff) bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s)) }

// frame is a packet and what the kernel knows about it.
type frame struct {
	data []byte
	mark uint32
	from uint32 // ifindex by which it entered the node; 0: the node's own
	segs uint32 // GSO, as in skb_shared_info
	size uint32
}

// runnable says whether BPF_PROG_TEST_RUN takes the frame: it wants whole IP headers
// straight behind an Ethernet header. (Behind a VLAN tag it does not look.)
func runnable(data []byte) bool {
	if len(data) <= etherHeader {
		return false
	}
	switch binary.BigEndian.Uint16(data[12:]) {
	case 0x0800:
		return len(data) >= etherHeader+20
	case 0x86dd:
		return len(data) >= etherHeader+40
	}
	return true
}

// pass is TCX_NEXT and TC_ACT_UNSPEC.
const pass = ^uint32(0)

// egress and ingress run one program for a port and return the packet as it is
// behind the hook.
func (d *domain) egress(port uint32, f frame) frame {
	d.Helper()
	if d.full {
		return d.run(d.Programs[bpfobj.TcProgRadarEgress4], port, f)
	}
	return d.run(d.Programs[bpfobj.TcProgRadarEgress], port, f)
}

func (d *domain) ingress(port uint32, f frame) frame {
	d.Helper()
	if d.full {
		return d.run(d.Programs[bpfobj.TcProgRadarIngress4], port, f)
	}
	return d.run(d.Programs[bpfobj.TcProgRadarIngress], port, f)
}

func (d *domain) run(prog *ebpf.Program, port uint32, f frame) frame {
	d.Helper()
	in := skBuff{Mark: f.mark, IngressIfindex: f.from, GsoSegs: f.segs, GsoSize: f.size}
	in.Cb[0] = port
	if noIngressIfindex() {
		in.IngressIfindex, in.Priority = 0, f.from
	}
	if f.size > 0 {
		in.WireLen = wireLen(f)
	}
	var out skBuff
	opts := ebpf.RunOptions{Data: f.data, DataOut: make([]byte, len(f.data)+64), Context: in.bytes(), ContextOut: out.bytes()}
	ret, err := prog.Run(&opts)
	if err != nil {
		d.Fatalf("run %s: %v", prog, err)
	}
	if ret != pass {
		d.Fatalf("%s returned %d: it must leave the verdict to others", prog, int32(ret))
	}
	if len(opts.DataOut) != len(f.data) {
		d.Fatalf("%s changed the packet's length from %d to %d", prog, len(f.data), len(opts.DataOut))
	}
	if out.Cb[0] != 0 {
		d.Errorf("%s left the port number in cb[0]", prog)
	}
	f.data, f.mark = opts.DataOut, out.Mark
	return f
}

// link carries a frame to the next node: what is no byte of it stays behind, as
// between two namespaces. hidden is how many routers lower its TTL on the way.
func (d *domain) link(f frame, hidden int) frame {
	d.Helper()
	f.data = bytes.Clone(f.data)
	for range hidden {
		decrement(d, f.data)
	}
	f.mark, f.from = 0, 0
	return f
}

// route is what the node does between its ingress at port and its egress.
func (d *domain) route(f frame, port int) frame {
	d.Helper()
	f.data = bytes.Clone(f.data)
	decrement(d, f.data)
	f.from = ifindex(port)
	return f
}

// send plays h1: the packet leaves the node that made it.
func (d *domain) send(f frame) frame {
	d.Helper()
	f.from = 0
	return d.egress(h1Out, f)
}

// transit carries a frame over r1: link, ingress, routing, egress.
func (d *domain) transit(f frame, hidden int) (inside, out frame) {
	d.Helper()
	inside = d.ingress(r1In, d.link(f, hidden))
	return inside, d.egress(r1Out, d.route(inside, r1In))
}

// deliver carries a frame to h2, its destination.
func (d *domain) deliver(f frame, hidden int) frame {
	d.Helper()
	return d.ingress(h2In, d.link(f, hidden))
}

// wireLen is what qdisc_pkt_len_init() counts for a train of datagrams, with the headers
// of each; 0 (as long as it is) for all others, of which the programs do not ask.
func wireLen(f frame) uint32 {
	at := ipAt(f.data)
	if at < 0 {
		return 0
	}
	proto, l4 := l4Of(f.data, at)
	if proto != 17 {
		return 0
	}
	hdr, n := l4+8, int(f.segs)
	if n == 0 {
		n = (len(f.data) - hdr + int(f.size) - 1) / int(f.size)
	}
	return uint32(min(len(f.data)+max(0, n-1)*hdr, 1<<16))
}
