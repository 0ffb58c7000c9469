// SPDX-License-Identifier: Apache-2.0

package filter_test

import (
	"fmt"
	"log"

	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// query is a lost DNS query from 10.0.1.1 to 10.0.4.2.
func query() *packet.Packet {
	return &packet.Packet{
		State: record.Lost, HasTuple: true, Proto: record.ProtoUDP, TTL: 64, Len: 68, Segs: 1,
		Tuple: packet.Tuple{
			Src: packet.AddrFrom4([4]byte{10, 0, 1, 1}), Dst: packet.AddrFrom4([4]byte{10, 0, 4, 2}), SrcPort: 40000, DstPort: 53,
		},
	}
}

// A Filter is what --src, --dport and other flags select. All fields must match, of each one value.
func ExampleParse() {
	f, err := filter.Parse(filter.Spec{Src: "10.0.0.0/16", Dport: "53,5353", State: "lost"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Match(query(), &packet.Registry{}))

	_, err = filter.Parse(filter.Spec{Dport: "dns"})
	fmt.Println(err)
	// Output:
	// true
	// dport "dns": use a port (0 to 65535) or a range (1000-2000)
}
