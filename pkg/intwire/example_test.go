// SPDX-License-Identifier: Apache-2.0

package intwire_test

import (
	"encoding/binary"
	"fmt"
	"log"

	"github.com/vnetradar/radar/pkg/intwire"
)

// udpWithINT is the UDP datagram of a flow that two nodes have added INT-MD 2.1 to: the shim's mark is UDP's port.
func udpWithINT() []byte {
	in := intwire.INT{
		Shim:   intwire.Shim{Form: intwire.Shim20, NPT: 1, OrigDstPort: 9000},
		Header: intwire.Header{Layout: intwire.INT20, Type: intwire.TypeMD, RemainingHops: 6},
	}
	in.Header.Bitmap = intwire.Bitmap(intwire.INT20, intwire.Of(intwire.NodeID, intwire.HopLatency))
	for _, latency := range []uint64{1500, 700} { // the newest hop first
		var hop intwire.Hop
		hop.Set(intwire.NodeID, uint64(2-len(in.Hops)))
		hop.Set(intwire.HopLatency, latency)
		in.Hops = append(in.Hops, hop)
	}
	const intPort = 5000 // the UDP port of INT
	udp := binary.BigEndian.AppendUint16(nil, 40000)
	udp = binary.BigEndian.AppendUint16(udp, intPort)
	udp = append(udp, 0, 0, 0, 0) // length, checksum
	udp, err := intwire.AppendINT(udp, &in)
	if err != nil {
		log.Fatal(err)
	}
	udp = append(udp, "payload"...)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	return udp
}

// A Decoder finds INT in a packet. Both it and the Message are used again for the next packet.
func ExampleDecoder_Decode() {
	var d intwire.Decoder
	var m intwire.Message
	d.Decode(&m, intwire.StartUDP, udpWithINT())
	for _, in := range m.INT {
		fmt.Printf("%v over %v, for port %d\n", in.Header.Layout, in.Carrier, in.Shim.OrigDstPort)
		for _, hop := range in.Hops {
			node, _ := hop.Get(intwire.NodeID)
			latency, ok := hop.Get(intwire.HopLatency)
			fmt.Println("node", node, "latency", latency, ok)
		}
	}
	fmt.Println("anomalies:", len(m.Anomalies))
	// Output:
	// INT 2.x over udp, for port 9000
	// node 2 latency 1500 true
	// node 1 latency 700 true
	// anomalies: 0
}

// What is wrong with a packet is an Anomaly beside what could be read.
func ExampleMessage_anomalies() {
	var d intwire.Decoder
	var m intwire.Message
	cut := udpWithINT()[:36] // the capture ends within the older hop
	d.Decode(&m, intwire.StartUDP, cut)
	fmt.Println("hops:", len(m.INT[0].Hops), "incomplete:", m.INT[0].Incomplete)
	for _, a := range m.Anomalies {
		fmt.Println(a)
	}
	// Output:
	// hops: 1 incomplete: true
	// the UDP length is 47, IP leaves room for 36
	// the INT header or stack is cut: 24 bytes are here, its length says 28
}

// A report 2.0 with one drop, as a node sends it to a collector, and decoded again.
func ExampleAppendSingle() {
	report, err := intwire.AppendGroup(nil, &intwire.Group{Version: 2, Sequence: 7, NodeID: 12})
	if err != nil {
		log.Fatal(err)
	}
	single := intwire.Single{RepType: 1, InType: intwire.InnerIPv4, D: true, Inner: []byte("the first bytes of the packet...")}
	single.Values.Set(intwire.DropReason, 1)
	single.Values.Set(intwire.DropQueueID, 0)
	single.RepMdBits = intwire.Bitmap(intwire.TR20, single.Values.Has)
	if report, err = intwire.AppendSingle(report, &single); err != nil {
		log.Fatal(err)
	}

	var d intwire.Decoder
	var m intwire.Message
	d.DecodeReport(&m, report)
	reason, _ := m.Reports[0].Values.Get(intwire.DropReason)
	fmt.Println("node", m.Group.NodeID, "sequence", m.Group.Sequence, "dropped:", m.Reports[0].D, "reason", reason)
	// Output:
	// node 12 sequence 7 dropped: true reason 1
}

// The JSON form is that of "radar int decode".
func ExampleMessage_AppendJSON() {
	var d intwire.Decoder
	var m intwire.Message
	d.Decode(&m, intwire.StartUDP, udpWithINT())
	fmt.Println(string(m.AppendJSON(nil)))
	// Output:
	// {"profile":"spec-2.1","packet":{"sport":40000,"dport":5000},"found_by":"port","carrier":"udp","shim":{"type":1,"length_words":7,"npt":1,"orig_dst_port":9000},"header":{"version":2,"D":0,"E":0,"M":0,"hop_ml":2,"remaining_hop_count":6,"instruction_bitmap":"0xa000","domain_specific_id":"0x0000","ds_instruction":"0x0000","ds_flags":"0x0000"},"hops_top_first":[{"node_id":2,"hop_latency":1500},{"node_id":1,"hop_latency":700}],"anomalies":[]}
}
