// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"cmp"
	"slices"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// MostPorts is how many ports are kept apart.
const MostPorts = 256

// Queues are the waits in the queues of ports, and what these dropped, over time.
type Queues struct {
	Over uint64 // packets at ports that there was no room for

	bins  *bins[uint16, queueCell]
	ports map[uint16]*queueSums
}

type queueCell struct {
	waits   aggregate.Distribution
	dropped uint64
}

// queueSums are of the whole time.
type queueSums struct{ passed, waited, dropped uint64 }

// NewQueues returns an empty one.
func NewQueues() *Queues {
	return &Queues{ports: make(map[uint16]*queueSums), bins: newBins[uint16](func(to, from *queueCell) {
		to.waits.Merge(&from.waits)
		to.dropped += from.dropped
	})}
}

// Add takes a packet.
func (q *Queues) Add(p *packet.Packet, unixNs int64) {
	n := uint64(p.Segs)
	for i := range p.Hops {
		h := &p.Hops[i]
		if h.Out == packet.NoPort || h.OutNs == packet.NoTime {
			continue
		}
		s := q.sums(h.Out, n)
		if s == nil {
			continue
		}
		s.passed += n
		if wait := h.QueueNs(); wait >= 0 {
			s.waited += n
			q.bins.at(unixNs+h.OutNs, h.Out).waits.AddTimes(wait, n)
		}
	}
	aggregate.EachLoss(p, func(d *packet.Drop, ns int64) {
		if d.At != record.AtQueue || d.Port == packet.NoPort {
			return
		}
		if s := q.sums(d.Port, n); s != nil {
			s.dropped += n
			q.bins.at(unixNs+ns, d.Port).dropped += n
		}
	})
}

// sums are those of a port; nil: there is no room.
func (q *Queues) sums(port uint16, n uint64) *queueSums {
	s := q.ports[port]
	switch {
	case s == nil && len(q.ports) >= MostPorts:
		q.Over += n
	case s == nil:
		s = new(queueSums)
		q.ports[port] = s
	}
	return s
}

// QueueBin is what was in a queue in a while.
type QueueBin struct {
	Port    string `json:"port"`
	StartNs int64  `json:"start_ns"` // Unix time
	WidthNs int64  `json:"width_ns"`
	Waited  uint64 `json:"waited"` // packets
	Min     int64  `json:"min_ns"` // of their waits
	P50     int64  `json:"p50_ns"`
	P99     int64  `json:"p99_ns"`
	Max     int64  `json:"max_ns"`
	Dropped uint64 `json:"dropped"`
}

// PortQueue is the queue of a port.
type PortQueue struct {
	Port                    string
	Passed, Waited, Dropped uint64
	Bins                    []QueueBin // in order of time; those in which nothing was are left out
}

// Ports are the queues in which anything waited or was dropped, those with most of it first. width is that of bins.
func (q *Queues) Ports(names packet.Names) (list []PortQueue, width int64) {
	of := make(map[string]*PortQueue)
	cells := make(map[string]map[int64]*queueCell)
	for port, s := range q.ports {
		if s.waited+s.dropped == 0 {
			continue
		}
		name := portName(port, names)
		p := of[name]
		if p == nil {
			p = &PortQueue{Port: name}
			of[name], cells[name] = p, make(map[int64]*queueCell)
		}
		p.Passed, p.Waited, p.Dropped = p.Passed+s.passed, p.Waited+s.waited, p.Dropped+s.dropped
		for i, ports := range q.bins.cells {
			if c := ports[port]; c != nil {
				if cells[name][i] == nil {
					cells[name][i] = new(queueCell)
				}
				q.bins.merge(cells[name][i], c)
			}
		}
	}
	for name, p := range of {
		for i, c := range cells[name] {
			b := QueueBin{Port: name, StartNs: i * q.bins.width, WidthNs: q.bins.width, Waited: c.waits.Count(), Dropped: c.dropped}
			if d, ok := c.waits.Quantiles(); ok {
				b.Min, b.P50, b.P99, b.Max = d.MinNs, d.P50Ns, d.P99Ns, d.MaxNs
			}
			p.Bins = append(p.Bins, b)
		}
		slices.SortFunc(p.Bins, func(a, b QueueBin) int { return cmp.Compare(a.StartNs, b.StartNs) })
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b PortQueue) int {
		return cmp.Or(cmp.Compare(b.Waited+b.Dropped, a.Waited+a.Dropped), cmp.Compare(a.Port, b.Port))
	})
	return list, q.bins.width
}

// portName is a port's as rows of latencies have it.
func portName(port uint16, names packet.Names) string {
	node := names.PortNode(port)
	if n, ok := names.(aggregate.HopNames); ok {
		return n.HopNode(node, port, packet.NoPort) + "/" + names.PortName(port)
	}
	return names.NodeName(node) + "/" + names.PortName(port)
}
