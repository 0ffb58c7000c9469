// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"encoding/binary"

	"github.com/vnetradar/radar/pkg/backpack"
)

// countFlow counts the packet's flow, if its path has not seen it yet: addresses,
// protocol and ports as sent, for an ICMP echo its identifier. Later fragments do
// not show their flow.
//
// What is kept is a 64-bit hash of path and flow: with MaxFlows of them, two agree
// by chance in one run out of half a billion.
func (a *Aggregates) countFlow(way *path, p *backpack.Packet) {
	if way == &a.unlisted || !p.HasTuple || p.Fragment() {
		return
	}
	h := flowHash(p, way.id)
	if _, ok := a.flows[h]; ok {
		return
	}
	if len(a.flows) >= MaxFlows {
		way.overFlows += uint64(p.Segs)
		a.totals.OverFlows += uint64(p.Segs)
		return
	}
	a.flows[h] = struct{}{}
	way.flows++
}

func flowHash(p *backpack.Packet, path uint64) uint64 {
	be := binary.BigEndian
	addrs := uint64(be.Uint32(p.Src[:]))<<32 | uint64(be.Uint32(p.Dst[:]))
	rest := uint64(p.Proto)
	switch {
	case p.HasPorts():
		rest |= uint64(p.SrcPort)<<48 | uint64(p.DstPort)<<32
	case p.IsEcho():
		rest |= uint64(p.SrcPort) << 48
	}
	return mix(mix(mix(addrs)^rest) ^ path)
}

// mix is the finalizer of splitmix64: a bijection in which every bit of the input
// changes half of the output.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
