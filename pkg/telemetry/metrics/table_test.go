// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/netip"
	"testing"
)

// BenchmarkAppendRows is for how long a snapshot of full tables holds up the engine.
func BenchmarkAppendRows(b *testing.B) {
	e := New(DefaultConfig())
	for i := range e.Config.Flows {
		r := Report{At: 1, HasFlow: true, WholePath: true, Flow: Flow{
			Src: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), Dst: netip.AddrFrom4([4]byte{10, 1, 0, 1}), Proto: 6, HasPorts: true, DstPort: 80,
		}}
		for node := range uint32(4) {
			r.Hops = append(r.Hops, Hop{Has: HasNode | HasLatency, Node: node, LatencyNs: uint64(i)})
		}
		e.Add(&r, nil)
	}
	for b.Loop() {
		if n := len(e.AppendRows(nil)); n != 6*e.Config.Flows {
			b.Fatal(n)
		}
	}
}
