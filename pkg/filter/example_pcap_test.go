// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nopcap

package filter_test

import (
	"fmt"
	"log"

	"github.com/vnetradar/radar/pkg/filter"
)

// An Expr is an expression of tcpdump's language, compiled by libpcap.
func ExampleCompile() {
	e, err := filter.Compile("udp dst port 53 and net 10.0.4.0/24")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e, e.Match(query()))
	fmt.Println("all packets of a flow match, or none:", e.OnlyFlow())

	// Records hold no payload.
	e, err = filter.Compile("udp[8] == 0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.CheckRecords() != nil)
	// Output:
	// udp dst port 53 and net 10.0.4.0/24 true
	// all packets of a flow match, or none: true
	// true
}
