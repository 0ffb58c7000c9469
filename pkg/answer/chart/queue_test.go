// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"testing"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// through is a packet that left by a port and waited there; a negative wait is none.
func through(port uint16, wait int64) *packet.Packet {
	h := packet.Hop{Node: 1, In: packet.NoPort, Out: port, InNs: packet.NoTime, DequeueNs: packet.NoTime}
	if wait >= 0 {
		h.DequeueNs = wait
	}
	return &packet.Packet{Segs: 1, Hops: []packet.Hop{h}}
}

// TestManyPorts: ports in whose queues nothing waits take no room from those where something does.
func TestManyPorts(t *testing.T) {
	var names packet.Registry
	node, q := names.Node("a"), NewQueues()
	for i := range 2 * MostPorts {
		q.Add(through(names.Port(node, uint64(i)+1), -1), 0)
	}
	last := names.Port(node, 2*MostPorts)
	q.Add(through(last, 1e6), 0)
	drop := &packet.Packet{Segs: 3, State: record.Lost, Lost: true, Loss: packet.Drop{Node: node, Port: last, At: record.AtQueue, AtNs: firstBin}}
	q.Add(drop, 0)
	list, width := q.Ports(&names)
	if len(list) != 1 || q.Over != 0 {
		t.Fatalf("%d ports, %d packets beyond: %+v", len(list), q.Over, list)
	}
	p := list[0]
	if p.Passed != 2 || p.Waited != 1 || p.Dropped != 3 || len(p.Bins) != 2 || width != firstBin {
		t.Fatalf("%+v", p)
	}
	if b := p.Bins[0]; b.Min == nil || *b.Min != 1e6 || b.Waited != 1 || *b.Max != 1e6 {
		t.Errorf("%+v", b)
	}
	if b := p.Bins[1]; b.Min != nil || b.P50 != nil || b.P99 != nil || b.Max != nil || b.Dropped != 3 {
		t.Errorf("waits where nothing waited: %+v", b)
	}
	for i := range MostPorts + 10 { // one packet that waits at many ports is one packet
		q.Add(through(names.Port(node, uint64(i)+1), 5), 0)
	}
	both := through(names.Port(node, MostPorts+8), 5)
	both.Hops = append(both.Hops, through(names.Port(node, MostPorts+9), 5).Hops...)
	q.Add(both, 0)
	if list, _ = q.Ports(&names); len(list) != MostPorts || q.Over != 12 {
		t.Errorf("%d ports, %d packets beyond", len(list), q.Over)
	}
}

// TestQueueMemory: what bins keep is bounded, and waits that are far apart take no room between them.
func TestQueueMemory(t *testing.T) {
	q := NewQueues()
	for bin := range int64(60) {
		for port := range uint16(250) {
			for _, wait := range []int64{0, 1 << 61} {
				q.Add(through(port, wait), bin*firstBin)
			}
		}
	}
	if want := 60 * 250 * 2; q.bins.parts != want || q.bins.width != firstBin {
		t.Errorf("%d buckets in bins %d ns wide, want %d", q.bins.parts, q.bins.width, want)
	}
	for bin := range int64(200) {
		for port := range uint16(16) {
			for i := range int64(1600) {
				q.Add(through(port, (64+i%64)<<(i/64)), bin*firstBin)
			}
		}
	}
	sum := 0
	for _, cells := range q.bins.cells {
		for _, c := range cells {
			sum += c.waits.Buckets()
		}
	}
	if sum != q.bins.parts || sum > mostParts || q.bins.width == firstBin {
		t.Errorf("%d buckets (%d) in bins %d ns wide", q.bins.parts, sum, q.bins.width)
	}
}

// sameNames are names in which all ports have one.
type sameNames struct{ packet.Registry }

func (*sameNames) PortName(uint16) string { return "eth0" }

// TestOneName: ports with one name are one queue.
func TestOneName(t *testing.T) {
	var names sameNames
	node, q := names.Node("a"), NewQueues()
	for i := range int64(3) {
		port := names.Port(node, uint64(i)+1)
		for bin := range int64(2) {
			q.Add(through(port, 100*(i+1)), bin*firstBin)
		}
	}
	for range 2 { // asking changes nothing
		list, _ := q.Ports(&names)
		if len(list) != 1 || list[0].Passed != 6 || list[0].Waited != 6 || len(list[0].Bins) != 2 {
			t.Fatalf("%+v", list)
		}
		for _, b := range list[0].Bins {
			if text := fmt.Sprint(b.Waited, *b.Min, *b.P50, *b.Max); text != "3 100 200 300" && text != "3 100 201 300" {
				t.Errorf("%s", text)
			}
		}
	}
}
