// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"cmp"
	"slices"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// MostPorts is how many ports with waits or drops are kept apart over time.
const MostPorts = 256

// Queues are the waits in the queues of ports, and what these dropped, over time.
type Queues struct {
	Over uint64 // packets that waited or were dropped at ports that there was no room for

	bins  *bins[uint16, queueCell]
	ports map[uint16]*queueSums
	drawn int // ports that have bins
}

type queueCell struct {
	waits   aggregate.Sparse
	dropped uint64
}

func mergeCells(to, from *queueCell) {
	to.waits.Merge(&from.waits)
	to.dropped += from.dropped
}

// queueSums are of the whole time.
type queueSums struct {
	passed, waited, dropped uint64
	drawn                   bool
}

// NewQueues returns an empty one.
func NewQueues() *Queues {
	q := &Queues{ports: make(map[uint16]*queueSums), bins: newBins[uint16](mergeCells)}
	q.bins.size = func(c *queueCell) int { return c.waits.Buckets() }
	return q
}

// Add takes a packet.
func (q *Queues) Add(p *packet.Packet, unixNs int64) {
	n, over := uint64(p.Segs), false
	for i := range p.Hops {
		h := &p.Hops[i]
		if h.Out == packet.NoPort || h.OutNs == packet.NoTime {
			continue
		}
		s := q.sums(h.Out)
		s.passed += n
		wait := h.QueueNs()
		if wait < 0 {
			continue
		}
		s.waited += n
		if !q.room(s) {
			over = true
			continue
		}
		waits := &q.bins.at(unixNs+h.OutNs, h.Out).waits
		before := waits.Buckets()
		waits.AddTimes(wait, n)
		q.bins.grew(waits.Buckets() - before)
	}
	aggregate.EachLoss(p, func(d *packet.Drop, ns int64) {
		if d.At != record.AtQueue || d.Port == packet.NoPort {
			return
		}
		s := q.sums(d.Port)
		s.dropped += n
		if !q.room(s) {
			over = true
			return
		}
		q.bins.at(unixNs+ns, d.Port).dropped += n
	})
	if over {
		q.Over += n
	}
}

// sums are those of a port. There are at most as many as there are numbers of ports.
func (q *Queues) sums(port uint16) *queueSums {
	s := q.ports[port]
	if s == nil {
		s = new(queueSums)
		q.ports[port] = s
	}
	return s
}

// room reports whether a port in which something waited or was dropped has bins.
func (q *Queues) room(s *queueSums) bool {
	if !s.drawn && q.drawn < MostPorts {
		s.drawn = true
		q.drawn++
	}
	return s.drawn
}

// QueueBin is what was in a queue in a while.
type QueueBin struct {
	Port    string `json:"port"`
	StartNs int64  `json:"start_ns"` // Unix time
	WidthNs int64  `json:"width_ns"`
	Waited  uint64 `json:"waited"`           // packets
	Min     *int64 `json:"min_ns,omitempty"` // of their waits; nil: none waited
	P50     *int64 `json:"p50_ns,omitempty"`
	P99     *int64 `json:"p99_ns,omitempty"`
	Max     *int64 `json:"max_ns,omitempty"`
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
	of := make(map[string][]uint16)
	for port, s := range q.ports {
		if s.drawn {
			name := portName(port, names)
			of[name] = append(of[name], port)
		}
	}
	for name, ports := range of {
		p := PortQueue{Port: name}
		for _, port := range ports {
			s := q.ports[port]
			p.Passed, p.Waited, p.Dropped = p.Passed+s.passed, p.Waited+s.waited, p.Dropped+s.dropped
		}
		for i, cells := range q.bins.cells {
			if c := cellOf(cells, ports); c != nil {
				p.Bins = append(p.Bins, c.bin(name, i*q.bins.width, q.bins.width))
			}
		}
		slices.SortFunc(p.Bins, func(a, b QueueBin) int { return cmp.Compare(a.StartNs, b.StartNs) })
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b PortQueue) int {
		return cmp.Or(cmp.Compare(b.Waited+b.Dropped, a.Waited+a.Dropped), cmp.Compare(a.Port, b.Port))
	})
	return list, q.bins.width
}

// cellOf is what is in the cells of these ports, which have one name; nil: there is no such cell. Few names have two ports:
// one cell is not copied.
func cellOf(cells map[uint16]*queueCell, ports []uint16) (one *queueCell) {
	merged := false
	for _, port := range ports {
		c := cells[port]
		switch {
		case c == nil:
		case one == nil:
			one = c
		case merged:
			mergeCells(one, c)
		default:
			both := new(queueCell)
			mergeCells(both, one)
			mergeCells(both, c)
			one, merged = both, true
		}
	}
	return one
}

func (c *queueCell) bin(port string, start, width int64) QueueBin {
	b := QueueBin{Port: port, StartNs: start, WidthNs: width, Waited: c.waits.Count(), Dropped: c.dropped}
	if d, ok := c.waits.Quantiles(); ok {
		b.Min, b.P50, b.P99, b.Max = &d.MinNs, &d.P50Ns, &d.P99Ns, &d.MaxNs
	}
	return b
}

// portName is a port's as rows of latencies have it.
func portName(port uint16, names packet.Names) string {
	node := names.PortNode(port)
	if n, ok := names.(aggregate.HopNames); ok {
		return n.HopNode(node, port, packet.NoPort) + "/" + names.PortName(port)
	}
	return names.NodeName(node) + "/" + names.PortName(port)
}
