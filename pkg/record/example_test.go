// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"encoding/json"
	"fmt"
	"log"
	"strings"

	"github.com/vnetradar/radar/pkg/record"
)

// two are lines of "radar packets -o json", shortened.
const two = `{"v":1,"id":"5f3a9c01-1a2b","guid":"0x1a2b","source":"ebpf","state":"delivered","time":"2026-03-02T10:15:04.123456789Z","t_ns":1772446504123456789,"ip_version":4,"src":"10.0.1.1","dst":"10.0.4.2","proto":"udp","sport":40001,"dport":9000,"len":106,"segs":1,"ttl":64,"dscp":0,"ecn":0,"ip_id":7,"latency_ns":851300,"hops":[{"node":"h1","port":"e0","role":"source","at_ns":0},{"node":"r1","in_port":"e0","port":"e1","role":"transit","at_ns":4600,"node_ns":1200,"queue_ns":839100,"link_ns":3400,"latency_ns":4600},{"node":"h2","in_port":"e0","role":"sink","at_ns":851300,"link_ns":7600}]}
{"v":1,"id":"5f3a9c01-1a2c","guid":"0x1a2c","source":"ebpf","state":"lost","time":"2026-03-02T10:15:04.123556789Z","t_ns":1772446504123556789,"ip_version":4,"src":"10.0.1.1","dst":"10.0.4.2","proto":"udp","sport":40001,"dport":9000,"len":106,"segs":1,"ttl":64,"dscp":0,"ecn":0,"ip_id":8,"hops":[{"node":"h1","port":"e0","role":"source","at_ns":0},{"node":"r1","in_port":"e0","port":"e1","role":"transit","at_ns":4300,"node_ns":900,"link_ns":3400,"latency_ns":4300}],"loss":{"node":"r1","port":"e1","at":"queue","reason":"QDISC_DROP","qdisc":"tbf"}}
`

// Records are JSON, one a line. What is not known is absent, so numbers that may be are pointers.
func ExampleRecord() {
	lines := json.NewDecoder(strings.NewReader(two))
	for lines.More() {
		var r record.Record
		if err := lines.Decode(&r); err != nil {
			log.Fatal(err)
		}
		if r.LatencyNs != nil {
			fmt.Printf("%s %s after %d ns\n", r.ID, r.State, *r.LatencyNs)
		}
		for _, hop := range r.Hops {
			if hop.QueueNs != nil {
				fmt.Printf("%s waited %d ns in the queue of %s/%s\n", r.ID, *hop.QueueNs, hop.Node, hop.Port)
			}
		}
		if r.State == record.Lost {
			fmt.Printf("%s lost at %s/%s, %s: %s\n", r.ID, r.Loss.Node, r.Loss.Port, r.Loss.At, r.Loss.Reason)
		}
	}
	// Output:
	// 5f3a9c01-1a2b delivered after 851300 ns
	// 5f3a9c01-1a2b waited 839100 ns in the queue of r1/e1
	// 5f3a9c01-1a2c lost at r1/e1, queue: QDISC_DROP
}

// JSON leaves out what a packet does not have: IPv6 has no IP ID.
func ExampleRecord_JSON() {
	r := record.Record{
		V: record.Version, ID: "5f3a9c01-1a2d", GUID: "0x1a2d", Source: record.EBPF, State: record.Left, Time: record.TimeString(1772446504123456789),
		TNs: 1772446504123456789, IPVersion: 6, Src: "2001:db8:1::1", Dst: "2001:db8:4::2", Proto: "tcp", Len: 60, Segs: 1, TTL: 64, Hops: []record.Hop{},
	}
	text, err := json.Marshal(r.JSON())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
	// Output:
	// {"v":1,"id":"5f3a9c01-1a2d","guid":"0x1a2d","source":"ebpf","state":"left","time":"2026-03-02T10:15:04.123456789Z","t_ns":1772446504123456789,"ip_version":6,"src":"2001:db8:1::1","dst":"2001:db8:4::2","proto":"tcp","len":60,"segs":1,"ttl":64,"dscp":0,"ecn":0,"hops":[]}
}

// A packet that comes to the same node by the same ports again goes round in a circle.
func ExampleRecord_Loop() {
	var r record.Record
	for _, node := range []string{"h1", "r1", "r2", "r1", "r2"} {
		r.Hops = append(r.Hops, record.Hop{Node: node, InPort: "eth0", Port: "eth1"})
	}
	first, again, ok := r.Loop()
	fmt.Println(first, again, ok, r.Hops[first].Node)
	// Output:
	// 1 3 true r1
}

// A path that branches stands in braces.
func ExamplePathText() {
	fmt.Println(record.PathText([]record.Step{
		{Text: "h1", Prev: -1, Same: -1}, {Text: "sw", Prev: 0, Same: -1}, {Text: "h2", Prev: 1, Same: -1}, {Text: "h3", Prev: 1, Same: -1},
	}))
	// Output:
	// h1 > sw > {h2, h3}
}
