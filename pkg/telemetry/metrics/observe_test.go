// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"net/netip"
	"testing"
)

// TestObserve: every latency is observed, also what raises no event or finds no room.
func TestObserve(t *testing.T) {
	c := DefaultConfig()
	c.Flows = 1
	e := New(c)
	var got []string
	e.Observe = func(m Metric, node uint32, ns uint64) { got = append(got, fmt.Sprint(m, " ", node, " ", ns)) }
	latency := HasNode | HasLatency
	flow := func(port uint16) Flow {
		return Flow{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), Proto: 17, HasPorts: true, SrcPort: port}
	}
	for _, r := range []Report{
		{HasFlow: true, Flow: flow(1), WholePath: true, Hops: []Hop{{Has: latency, Node: 1, LatencyNs: 10}, {Has: latency, Node: 2, LatencyNs: 20}}},
		{HasFlow: true, Flow: flow(1), WholePath: true, Hops: []Hop{{Has: latency, Node: 1, LatencyNs: 10}}},                      // unchanged
		{HasFlow: true, Flow: flow(2), WholePath: true, Hops: []Hop{{Has: latency, Node: 1, LatencyNs: 11}}},                      // no room
		{HasFlow: true, Flow: flow(1), WholePath: true, Hops: []Hop{{Has: latency, Node: 1, LatencyNs: 12}, {Has: HasNode}}},      // not whole
		{HasFlow: true, Flow: flow(1), WholePath: true, Hops: []Hop{{Has: HasLatency, LatencyNs: 13}}},                            // no node
		{WholePath: true, Hops: []Hop{{Has: latency, Node: 3, LatencyNs: 14}}},                                                    // no flow
		{HasFlow: true, Flow: flow(1), Hops: []Hop{{Has: latency, Node: 3, LatencyNs: 15}}},                                       // a postcard
		{HasFlow: true, Flow: flow(1), WholePath: true, Hops: []Hop{{Has: HasNode | HasQueue | HasOccupancy, Node: 4, Queue: 1}}}, // nothing
	} {
		e.Add(&r, nil)
	}
	want := "[hop_latency 1 10 hop_latency 2 20 flow_latency 0 30 hop_latency 1 10 flow_latency 0 10 hop_latency 1 11 flow_latency 0 11 " +
		"hop_latency 1 12 flow_latency 0 13 hop_latency 3 14 hop_latency 3 15]"
	if fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}
