// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"fmt"
	"time"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/intwire"
)

// Version is a report format and the INT that belongs to it.
type Version uint8

// The versions.
const (
	V20 Version = iota // Telemetry Report 2.0, INT 2.0 and 2.1
	V10                // Telemetry Report 1.0, INT 1.0
)

// Mode is where a node's metadata go (INT 2.1, "INT Modes of Operation").
type Mode uint8

// The modes.
const (
	MD Mode = iota // into the packet, which the last node quotes
	XD             // into a report of each node: postcards
)

// Transport is what packets carry.
type Transport uint8

// The transports.
const (
	UDP   Transport = iota
	TCP             // acknowledgements with data, numbered as a sender would
	Mixed           // flows take turns
)

// Range is the values from Min to Max, both included.
type Range struct{ Min, Max uint32 }

// Description is what is reported. New says what is out of range.
type Description struct {
	Version Version
	Mode    Mode
	// Instructions is the instruction bitmap, bit 0 the most significant. In INT-XD, and of
	// drops, the report's metadata bits are made of it; there bit 0 (the header has the node)
	// and bit 15 (the drop) mean something else.
	Instructions uint16
	DSCP         uint8 // marks packets with INT in them

	Flows     int // with addresses of their own, in turn
	Hops      int // nodes that a packet crosses: FirstNode, FirstNode + 1, ...
	FirstNode uint32
	HwID      uint8

	IPv6      bool
	Transport Transport
	QuoteIP   bool   // quotes begin with the IP header, not with Ethernet's
	VLAN      uint16 // of the quoted packet; 0: no tag
	Payload   int    // bytes of the packet itself, behind its headers and INT
	Group     int    // reports in a datagram, at most; 1 of version 1.0

	Start    time.Time     // when the first packet comes to the first node; only the time since 1970 counts
	Interval time.Duration // from one packet to the next
	Latency  Range         // ns inside a node, each as likely as the others
	// Queue is the occupancy of queues: from one packet to the next it grows by QueueStep, and
	// begins at Min again behind Max.
	Queue     Range
	QueueStep uint32
	Constant  bool // all packets have the values of the first, latencies and occupancies of Min

	Drops         float64 // share of packets that are dropped, 0 to 1
	GapEvery      int     // a node leaves out a sequence number after so many datagrams; 0: never
	FirstSequence uint32
	Seed          uint64 // of latencies and drops
}

// Instructions returns the bitmap of all instructions that a version has, by intwire's table.
func (v Version) Instructions() (bitmap uint16) {
	for i := range intwire.Rows {
		if r := &intwire.Rows[i]; r.Formats&(1<<v.format()) != 0 {
			bitmap |= 0x8000 >> r.Bit
		}
	}
	return bitmap
}

func (v Version) format() intwire.Format {
	if v == V10 {
		return intwire.INT10
	}
	return intwire.INT20
}

// What a report may be about, at most.
const (
	MaxFlows = 1 << 16 // two bytes of an address
	MaxHops  = 60      // less than the TTL
	MaxGroup = 255
	MaxBytes = 65507 // of a datagram (RFC 768, over IPv4)
)

// check says what of a description cannot be, as fault.Usage.
func (d *Description) check() error {
	all := d.Version.Instructions()
	for _, c := range []struct {
		ok   bool
		what string
	}{
		{d.Version <= V10 && d.Mode <= XD && d.Transport <= Mixed, "an unknown version, mode or transport"},
		{d.Instructions&^all == 0, fmt.Sprintf("instructions 0x%04x: of this version use only bits of 0x%04x", d.Instructions, all)},
		{d.Instructions != 0, "no instructions"},
		{d.DSCP < 64, fmt.Sprintf("DSCP %d: use 0 to 63", d.DSCP)},
		{d.Flows >= 1 && d.Flows <= MaxFlows, fmt.Sprintf("%d flows: use 1 to %d", d.Flows, MaxFlows)},
		{d.Hops >= 1 && d.Hops <= MaxHops, fmt.Sprintf("%d hops: use 1 to %d", d.Hops, MaxHops)},
		{d.FirstNode <= 1<<32-1-MaxHops, fmt.Sprintf("node id %d: too large", d.FirstNode)},
		{d.HwID < 64, fmt.Sprintf("hw_id %d: use 0 to 63", d.HwID)},
		{d.VLAN < 4095, fmt.Sprintf("VLAN %d: use 1 to 4094", d.VLAN)},
		{d.VLAN == 0 || !d.QuoteIP, "a VLAN tag of a quote that begins with IP"},
		{d.Payload >= 0 && d.Payload <= 1400, fmt.Sprintf("payload of %d bytes: use 0 to 1400", d.Payload)},
		{d.Group >= 1 && d.Group <= MaxGroup, fmt.Sprintf("%d reports in a datagram: use 1 to %d", d.Group, MaxGroup)},
		{d.Group == 1 || d.Version == V20, "several reports in a datagram of version 1.0"},
		{d.Interval >= 0, fmt.Sprintf("interval %v", d.Interval)},
		{d.Latency.Min <= d.Latency.Max && d.Latency.Max < 1<<32-1, fmt.Sprintf("latency %d to %d ns: use 0 to %d", d.Latency.Min, d.Latency.Max, uint32(1<<32-2))},
		{d.Queue.Min <= d.Queue.Max && d.Queue.Max < 1<<24, fmt.Sprintf("queue occupancy %d to %d: use 0 to %d", d.Queue.Min, d.Queue.Max, 1<<24-1)},
		{d.Drops >= 0 && d.Drops <= 1, fmt.Sprintf("share of drops %v: use 0 to 1", d.Drops)},
		{d.GapEvery >= 0, fmt.Sprintf("a gap every %d datagrams", d.GapEvery)},
		{d.Version == V10 || d.FirstSequence < 1<<22, fmt.Sprintf("sequence number %d: 2.0 has 22 bits", d.FirstSequence)},
	} {
		if !c.ok {
			return fault.Usage.Errorf("%s: cannot be made", c.what)
		}
	}
	return nil
}
