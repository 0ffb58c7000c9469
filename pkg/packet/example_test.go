// SPDX-License-Identifier: Apache-2.0

package packet_test

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// measured is a packet of two nodes of a Registry, 1,200 ns on the link between them.
func measured(of *packet.Registry) *packet.Packet {
	h1, r1 := of.Node("h1"), of.Node("r1")
	p := &packet.Packet{
		T0: 1_772_446_504_000_000_000, State: record.Delivered, LatencyNs: 1200, HasTuple: true, Proto: record.ProtoUDP, TTL: 64, SentTTL: 64, Len: 100, Segs: 1,
		Tuple: packet.Tuple{
			Src: packet.AddrFrom4([4]byte{10, 0, 1, 1}), Dst: packet.AddrFrom4([4]byte{10, 0, 1, 2}), SrcPort: 40000, DstPort: 9000,
		},
	}
	p.Hops = []packet.Hop{
		{Node: h1, In: packet.NoPort, Out: of.Port(h1, 0), InNs: packet.NoTime, OutNs: 0, DequeueNs: packet.NoTime},
		{Node: r1, In: of.Port(r1, 3), Out: packet.NoPort, InNs: 1200, OutNs: packet.NoTime, DequeueNs: packet.NoTime},
	}
	return p
}

// A Packet is numbers. Its Scope has the names.
func ExamplePacket() {
	var names packet.Registry
	p := measured(&names)
	for i := range p.Hops {
		fmt.Println(names.NodeName(p.Hops[i].Node))
		if ns := p.LinkNs(i); ns != packet.NoTime {
			fmt.Println("-", ns, "ns on the link before it")
		}
	}
	fmt.Println(p.Src.Text(p.IPv6), p.SrcPort, ">", p.Dst.Text(p.IPv6), p.DstPort)
	// Output:
	// h1
	// r1
	// - 1200 ns on the link before it
	// 10.0.1.1 40000 > 10.0.1.2 9000
}

// A Recorder makes records, which have text. Its Memory is used again for the next packet.
func ExampleRecorder_Fill() {
	names := packet.Registry{Machine: "server1"}
	recorder := packet.NewRecorder(&names)
	var r record.Record
	var memory packet.Memory
	recorder.Fill(&r, measured(&names), &memory)
	fmt.Println(r.State, r.Src, *r.Sport, r.Dst, *r.Dport, r.Hops[1].Node, r.Hops[1].InPort, *r.Hops[1].LinkNs)
	// Output:
	// delivered 10.0.1.1 40000 10.0.1.2 9000 r1 3 1200
}

// The numbers of a TCP header in a packet that has 1,480 bytes from there on.
func ExampleReadTCP() {
	header := []byte{
		0xc3, 0x50, 0x14, 0x51, // ports
		0x00, 0x00, 0x03, 0xe8, // sequence number
		0x00, 0x00, 0x07, 0xd0, // acknowledgement
		0x80, 0x18, 0x01, 0xf6, // 32 bytes of header, PSH and ACK, window
	}
	tcp, ok := packet.ReadTCP(header, 1480)
	fmt.Println(ok, tcp.Seq, tcp.End(), tcp.Flags&packet.TCPPsh != 0, tcp.Payload)
	// Output:
	// true 1000 2448 true 1448
}
