// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strings"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Outside is what is at the other end of an edge.
const Outside = domain.Outside

// NodeLoad is what happened inside a node since attach.
type NodeLoad struct {
	Packets uint64 `json:"packets"`          // visits
	P50Ns   *int64 `json:"p50_ns,omitempty"` // from ingress to egress; absent: nothing passed through
	P99Ns   *int64 `json:"p99_ns,omitempty"`
	Lost    uint64 `json:"lost"`
	// Expired packets came in there, and were not seen again.
	Expired uint64 `json:"expired"`
}

// LinkLoad is what passed in one direction since attach. Ends are NODE/PORT, "bridge
// CLOSINGNODE/BRIDGE" or "outside".
type LinkLoad struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Packets uint64 `json:"packets"`          // seen at both ends; at an edge, at its port
	Bytes   uint64 `json:"bytes"`            // IP bytes of these
	P50Ns   *int64 `json:"p50_ns,omitempty"` // pairs only; absent: not measured
	P99Ns   *int64 `json:"p99_ns,omitempty"`
	// QueueNs is the median of the packets that waited in the queue of From.
	QueueNs *int64 `json:"queue_p50_ns,omitempty"`
	Lost    uint64 `json:"lost"`    // leaving From, with its queue, or coming in at To
	Expired uint64 `json:"expired"` // went out at From, and were not seen again
}

// direction names one direction of a link as LinkLoad does.
type direction struct{ from, to string }

// AddLoad adds what was measured. Nodes and ports have the names that the domain gives them.
func (t *Topology) AddLoad(c *answer.Counts) {
	agg, names := c.Sums()
	t.loads, t.linkOf = make(map[direction]*LinkLoad), make(map[string]*Link)
	for i := range t.Links {
		link := &t.Links[i]
		link.Load = link.directions()
		for j := range link.Load {
			l := &link.Load[j]
			t.loads[direction{l.From, l.To}] = l
		}
		for _, e := range link.Ends {
			t.linkOf[e.String()] = link
		}
	}
	for i := range t.Nodes {
		t.Nodes[i].Load = &NodeLoad{}
	}
	for _, row := range agg.Latency(aggregate.ByNode, names) {
		if n := t.Node(row.Name); n != nil && n.Load.P50Ns == nil {
			n.Load.P50Ns, n.Load.P99Ns = &row.P50Ns, &row.P99Ns
		}
	}
	for i, row := range agg.Throughput(aggregate.ByNode, names, 0, 1) {
		if n := t.Node(row.Name); n != nil && i > 0 { // the first is of all nodes
			n.Load.Packets = row.Packets
		}
	}
	for _, row := range agg.Latency(aggregate.ByLink, names) {
		from, to, _ := strings.Cut(row.Name, " > ")
		if load := t.loads[direction{from, to}]; load != nil && load.P50Ns == nil {
			load.P50Ns, load.P99Ns = &row.P50Ns, &row.P99Ns
		}
	}
	for _, row := range agg.Latency(aggregate.ByQueue, names) {
		t.addQueue(&row)
	}
	for _, row := range agg.Paths(names) {
		t.addPath(&row)
	}
	for _, row := range agg.Losses(names) {
		if !row.Inferred() { // paths have counted these as expired
			t.addLoss(&row)
		}
	}
}

// addQueue notes the time in a port's queue on the direction that begins there.
func (t *Topology) addQueue(row *aggregate.LatencyRow) {
	link := t.linkOf[row.Name]
	if link == nil {
		return
	}
	for i := range link.Load {
		if l := &link.Load[i]; l.From == row.Name && l.QueueNs == nil {
			l.QueueNs = &row.P50Ns
		}
	}
}

// directions lists both directions of a pair or edge, and both of each end of a
// bridge.
func (l *Link) directions() []LinkLoad {
	var loads []LinkLoad
	both := func(a, b string) { loads = append(loads, LinkLoad{From: a, To: b}, LinkLoad{From: b, To: a}) }
	switch l.Kind {
	case PairLink:
		both(l.Ends[0].String(), l.Ends[1].String())
	case EdgeLink:
		both(l.Ends[0].String(), Outside)
	case TunnelLink:
		for i, a := range l.Ends {
			for _, b := range l.Ends[i+1:] {
				both(a.String(), b.String())
			}
		}
	case BridgeLink:
		for _, e := range l.Ends {
			both(e.String(), l.bridgeName())
		}
	}
	return loads
}

func (l *Link) bridgeName() string { return "bridge " + l.Name }

// Node is the node of that name; nil: there is none.
func (t *Topology) Node(name string) *TopologyNode {
	for i := range t.Nodes {
		if t.Nodes[i].Name == name {
			return &t.Nodes[i]
		}
	}
	return nil
}

// sent counts n packets of a path that went from one port to another, perhaps by a bridge, or
// over an edge.
func (t *Topology) sent(row *aggregate.PathRow, from, to string, n uint64) {
	bytes := uint64(0)
	if row.Packets > 0 {
		bytes = uint64(float64(row.Bytes) * float64(n) / float64(row.Packets))
	}
	if l := t.loads[direction{from, to}]; l != nil {
		l.add(n, bytes)
		return
	}
	link := t.linkOf[from]
	if link == nil || link.Kind != BridgeLink || to == Outside {
		return
	}
	if l := t.loads[direction{from, link.bridgeName()}]; l != nil {
		l.add(n, bytes)
	}
	if l := t.loads[direction{link.bridgeName(), to}]; l != nil {
		l.add(n, bytes)
	}
}

func (l *LinkLoad) add(packets, bytes uint64) {
	l.Packets += packets
	l.Bytes += bytes
}

// addPath counts a path's packets on each of its links.
func (t *Topology) addPath(row *aggregate.PathRow) {
	for i, h := range row.Hops {
		if i == 0 && h.InPort != "" {
			t.sent(row, Outside, h.Node+"/"+h.InPort, row.Packets)
		}
		left, expired := row.EndsAt(i)
		t.sent(row, h.Node+"/"+h.Port, Outside, left)
		t.addExpired(h, expired)
	}
	for i, next := range row.Hops {
		prev := row.PrevOf(i)
		if prev < 0 || next.Copy {
			continue
		}
		h := row.Hops[prev]
		// A bridge's member that is not attached sees a packet once: it comes in
		// and is on the bridge, or goes out from there.
		out, in := h.Port, next.InPort
		if out == "" {
			out = h.InPort
		}
		if in == "" {
			in = next.Port
		}
		t.sent(row, h.Node+"/"+out, next.Node+"/"+in, row.Packets)
	}
}

// addExpired counts packets where they were seen last: on the link behind the port
// that they went out by, or inside the node.
func (t *Topology) addExpired(h aggregate.PathHop, n uint64) {
	end := h.Node + "/" + h.Port
	if link := t.linkOf[end]; link != nil && h.Port != "" {
		for i := range link.Load {
			if l := &link.Load[i]; l.From == end {
				l.Expired += n
				return
			}
		}
	}
	if node := t.Node(h.Node); node != nil {
		node.Load.Expired += n
	}
}

// addLoss counts losses where the packets were lost.
func (t *Topology) addLoss(row *aggregate.LossRow) {
	end := row.Node + "/" + row.Port
	if link := t.linkOf[end]; link != nil && row.At != record.AtNode {
		for i := range link.Load {
			l := &link.Load[i]
			if row.At == record.AtIngress && l.To == end || row.At != record.AtIngress && l.From == end {
				l.Lost += row.Packets
				return
			}
		}
	}
	if n := t.Node(row.Node); n != nil {
		n.Load.Lost += row.Packets
	}
}
