// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/pkg/record"
)

func ptr[T any](v T) *T { return &v }

// sampleRecords are one packet of each kind that prints differently.
func sampleRecords() []*record.Record {
	t0 := time.Date(2026, 3, 2, 10, 15, 4, 123456789, time.UTC)
	base := func(n int, proto string) *record.Record {
		ns := t0.Add(time.Duration(n) * time.Millisecond).UnixNano()
		return &record.Record{
			V: 1, ID: "5f3a9c01-" + string(rune('a'+n)), GUID: "0x1a2b", Source: "ebpf",
			TNs: ns, Time: record.TimeString(ns), IPVersion: 4,
			Src: "10.0.1.1", Dst: "10.0.4.2", Proto: proto, Len: 106, Segs: 1, TTL: 64, IPID: 7,
		}
	}
	delivered := base(0, "udp")
	delivered.State, delivered.Sport, delivered.Dport = record.Delivered, ptr(40001), ptr(9000)
	delivered.LatencyNs = ptr(int64(851300))
	delivered.Hops = []record.Hop{
		{Node: "h1", NodeID: 1, Port: "e0", Role: record.Source, AtNs: ptr(int64(0))},
		{Node: "r1", NodeID: 2, InPort: "e0", Port: "e1", Role: record.Transit, AtNs: ptr(int64(4600)), NodeNs: ptr(int64(1200)), LinkNs: ptr(int64(3400)), LatencyNs: ptr(int64(4600))},
		{Node: "h2", NodeID: 4, InPort: "e0", Role: record.Sink, AtNs: ptr(int64(851300)), LinkNs: ptr(int64(846700)), LatencyNs: ptr(int64(846700))},
	}
	lost := base(1, "tcp")
	lost.State, lost.Sport, lost.Dport, lost.Len, lost.Segs = record.Lost, ptr(40002), ptr(80), 14600, 10
	lost.LatencyNs, lost.Hops = ptr(int64(4700)), delivered.Hops[:2]
	lost.Loss = &record.Loss{Node: "r1", Port: "e1", At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf", Function: "__dev_queue_xmit", AtNs: ptr(int64(4700))}
	echo := base(2, "icmp")
	echo.State, echo.ICMPType, echo.ICMPID, echo.ICMPSeq = record.InFlight, ptr(8), ptr(77), ptr(1)
	echo.Hops = delivered.Hops[:1]
	nat := base(3, "udp")
	nat.State, nat.Sport, nat.Dport = record.Left, ptr(40001), ptr(53)
	nat.Hops = []record.Hop{
		{Node: "h1", Port: "e0", Role: record.Source, AtNs: ptr(int64(0))},
		{Node: "r1", InPort: "e0", Port: "e1", Role: record.Sink, NodeNs: ptr(int64(900)), Src: "192.0.2.1", Sport: ptr(1024)},
	}
	tree := base(4, "89")
	tree.State, tree.Truncated, tree.FragOff = record.Expired, true, ptr(1480)
	tree.Hops = []record.Hop{{Node: "h1"}, {Node: "s1"}, {Node: "h2"}, {Node: "h3", Prev: ptr(1)}}
	local := base(5, "udp")
	local.State, local.Hops = record.Delivered, delivered.Hops[2:]
	local.LocalDrop = &record.Loss{Node: "h2", At: record.AtNode, Reason: "SOCKET_RCVBUFF"}
	six := base(6, "icmpv6")
	six.State, six.IPVersion, six.Src, six.Dst, six.IPID = record.Delivered, 6, "2001:db8:1::1", "2001:db8:4::2", 0
	six.FlowLabel, six.ICMPType, six.ICMPID, six.ICMPSeq = ptr(0xa1234), ptr(128), ptr(77), ptr(1)
	six.Hops = delivered.Hops
	piece := base(7, "udp")
	piece.State, piece.IPVersion, piece.Src, piece.Dst, piece.IPID = record.Left, 6, "2001:db8:1::1", "2001:db8:4::2", 0
	piece.Sport, piece.Dport, piece.FragOff, piece.FragID, piece.Hops = ptr(4000), ptr(53), ptr(0), ptr(0xdeadbeef), nat.Hops[:1]
	return []*record.Record{delivered, lost, echo, nat, tree, local, six, piece}
}

func TestPrintPackets(t *testing.T) {
	for _, format := range []outputFormat{formatTable, formatWide, formatJSON, formatCSV} {
		t.Run(string(format), func(t *testing.T) {
			var out bytes.Buffer
			if err := newPacketPrinter(&out, format, time.UTC).print(sampleRecords()); err != nil {
				t.Fatal(err)
			}
			golden(t, "packets."+string(format), out.Bytes())
		})
	}
}

// A title alone says that nothing matched; JSON says it by saying nothing.
func TestPrintNoPackets(t *testing.T) {
	for format, want := range map[outputFormat]bool{formatTable: true, formatWide: true, formatJSON: false, formatCSV: true} {
		var out bytes.Buffer
		if err := newPacketPrinter(&out, format, time.UTC).print(nil); err != nil {
			t.Fatal(err)
		}
		if got := out.Len() > 0; got != want {
			t.Errorf("%s: printed %q", format, out.String())
		}
	}
}

// Rows that come later keep the columns where they are, or move them right.
func TestPrintPacketsAsTheyCome(t *testing.T) {
	var out bytes.Buffer
	p := newPacketPrinter(&out, formatTable, time.UTC)
	for _, r := range sampleRecords() {
		if err := p.print([]*record.Record{r}); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "packets.follow", out.Bytes())
}

func TestPacketJSONIsOneObjectALine(t *testing.T) {
	var out bytes.Buffer
	records := sampleRecords()
	if err := newPacketPrinter(&out, formatJSON, time.UTC).print(records); err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSuffix(out.Bytes(), []byte("\n")), []byte("\n"))
	if len(lines) != len(records) {
		t.Fatalf("%d lines for %d packets", len(lines), len(records))
	}
	for i, line := range lines {
		var back record.Record
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		if diff := cmp.Diff(records[i], &back); diff != "" {
			t.Errorf("line %d changed by the round trip:\n%s", i, diff)
		}
	}
}
