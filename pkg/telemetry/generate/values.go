// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"math/bits"

	"github.com/vnetradar/radar/pkg/intwire"
)

// packet is one that crosses the nodes.
type packet struct {
	flow    uint32
	number  uint64 // of all packets, from 0
	dropAt  int    // the node, from 1; 0: it arrives
	queue   uint32
	ingress []uint64 // ns since 1970, at each node
	latency []uint32 // ns inside each node
}

// linkTime is how long packets are between two nodes, ns.
const linkTime = 1000

// cross lets the packet of a number cross the nodes.
func (m *Maker) cross(p *packet, number uint64) {
	d := &m.d
	p.flow, p.number, p.dropAt = uint32(number%uint64(d.Flows)), number, 0
	now := m.start
	p.queue = d.Queue.Min
	if !d.Constant {
		now += number * uint64(d.Interval)
		p.queue += uint32(number * uint64(d.QueueStep) % (uint64(d.Queue.Max-d.Queue.Min) + 1))
	}
	for k := range d.Hops {
		p.ingress[k], p.latency[k] = now, d.Latency.Min
		if !d.Constant {
			p.latency[k] += m.below(d.Latency.Max - d.Latency.Min + 1)
		}
		now += uint64(p.latency[k]) + linkTime
	}
	// 53 bits: a float64 has no more.
	if d.Drops > 0 && float64(m.random.Uint64()>>11) < d.Drops*(1<<53) {
		p.dropAt = 1 + int(m.below(uint32(d.Hops)))
	}
}

// below returns a number below n.
func (m *Maker) below(n uint32) uint32 {
	high, _ := bits.Mul64(m.random.Uint64(), uint64(n))
	return uint32(high)
}

// Ports of every node.
const (
	portIn  = 1
	portOut = 2
)

// dropReason is the number of a drop by an access list in two of the tables that are in use:
// the texts have none.
const dropReason = 80

// values sets what node k, from 0, says of a packet.
func (m *Maker) values(v *intwire.Values, p *packet, k int) {
	node := m.d.FirstNode + uint32(k)
	in, out := p.ingress[k], p.ingress[k]+uint64(p.latency[k])
	if m.d.Version == V10 {
		in, out = uint64(short(in)), uint64(short(out))
	}
	queue := uint64(p.flow % 8)
	v.Set(intwire.NodeID, uint64(node))
	v.Set(intwire.L1In, portIn)
	v.Set(intwire.L1Out, portOut)
	v.Set(intwire.HopLatency, uint64(p.latency[k]))
	v.Set(intwire.QueueID, queue)
	v.Set(intwire.QueueOcc, uint64(p.queue))
	v.Set(intwire.IngressTS, in)
	v.Set(intwire.EgressTS, out)
	v.Set(intwire.L2In, uint64(node)<<8&0xffffff00|portIn)
	v.Set(intwire.L2Out, uint64(node)<<8&0xffffff00|portOut)
	v.Set(intwire.EgressTxUtil, uint64(p.queue/2))
	v.Set(intwire.BufferID, queue)
	v.Set(intwire.BufferOcc, uint64(p.queue/4))
	v.Set(intwire.DropQueueID, queue)
	v.Set(intwire.DropReason, dropReason)
}

// short is a time in the 32 bits that version 1.0 has: it wraps every 4.29 s. All ones would say
// that there is none.
func short(ns uint64) uint32 { return min(uint32(ns), 1<<32-2) }
