// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"
	"time"
)

// oneHop is a report of a flow through one node.
func oneHop(f Flow, node uint32) *Report {
	return &Report{HasFlow: true, Flow: f, Hops: []Hop{{Has: HasNode | HasLatency, Node: node, LatencyNs: 100}}}
}

// TestHopsOfFlow: whatever nodes reports of a flow name, it has 64 of them: those reported last. A
// report whose own hops are more has no room for the rest.
func TestHopsOfFlow(t *testing.T) {
	e := New(shares())
	const others = 5000
	raised := 0
	for n := range uint32(others) {
		e.Add(oneHop(flowA, 1000+n), nil)
		raised += e.Add(oneHop(flowA, 1), nil)
	}
	f := e.flows[flowA]
	if len(f.hops) != maxHops || e.hops != maxHops || e.Counts.Replaced != others+1-maxHops || e.Counts.Full != 0 {
		t.Errorf("%d hops of the flow, %d of all, %+v", len(f.hops), e.hops, e.Counts)
	}
	if raised != 1 || f.at(0, 1) == nil || f.at(0, 1000+others-1) == nil || f.at(0, 1000) != nil {
		t.Errorf("%d events of the node that is in every second report; %+v", raised, f.hops)
	}
	long := wholePath(flowN(1))
	for n := range uint32(100) {
		long.Hops = append(long.Hops, at(n, 1, 1, 1))
	}
	e.Add(&long, nil)
	if n := len(e.flows[flowN(1)].hops); n != maxHops || e.hops != 2*maxHops || e.Counts.Full != 100-maxHops {
		t.Errorf("%d hops of the long report's flow, %d of all, %+v", n, e.hops, e.Counts)
	}
	var q Quiet
	if e.Quiet(&long, &q) {
		t.Error("a report with a hop for which there is no room is quiet")
	}
	if e.Quiet(oneHop(flowA, 1000), &q) || !e.Quiet(oneHop(flowA, 1), &q) {
		t.Error("what is quiet: a node that has gone, not one that is there")
	}
	if e.Same(oneHop(flowA, 1000), 1) || !e.Same(oneHop(flowA, 1), 1) {
		t.Error("what is known: a node that has gone, not one that is there")
	}
	e.Forget(int64(time.Hour))
	if e.hops != 0 {
		t.Errorf("%d hops when all flows have gone", e.hops)
	}
}

// BenchmarkAfterOthers is what a report with a node that its flow has not seen costs: as one of the
// first 64 of a flow, and after 100,000 others of it (ratio: this to that).
func BenchmarkAfterOthers(b *testing.B) {
	const some = 32
	e, node := New(shares()), uint32(0)
	for ; node < 100000; node++ {
		e.Add(oneHop(flowA, node), nil)
	}
	var fresh, after time.Duration
	for n := 0; b.Loop(); n++ { // in turn: the machine may have other work
		f := New(shares())
		f.Add(oneHop(flowA, 0), nil)
		begin := time.Now()
		for i := range uint32(some) {
			f.Add(oneHop(flowA, 1+i), nil)
		}
		middle := time.Now()
		for range some {
			e.Add(oneHop(flowA, node), nil)
			node++
		}
		fresh, after = fresh+middle.Sub(begin), after+time.Since(middle)
	}
	b.ReportMetric(float64(fresh)/float64(some*b.N), "ns-first")
	b.ReportMetric(float64(after)/float64(some*b.N), "ns-after")
	b.ReportMetric(float64(after)/float64(fresh), "ratio")
	b.ReportMetric(0, "ns/op")
}
