// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// outsideName is what is at the other end of an edge.
const outsideName = "outside"

// nodeLoad is what happened inside a node since attach.
type nodeLoad struct {
	P50Ns *int64 `json:"p50_ns,omitempty"` // from ingress to egress; absent: nothing passed through
	Lost  uint64 `json:"lost"`
	// Expired packets came in there, and were not seen again.
	Expired uint64 `json:"expired"`
}

// linkLoad is what passed in one direction since attach. Ends are NODE/PORT, "bridge
// CLOSINGNODE/BRIDGE" or "outside".
type linkLoad struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Packets uint64 `json:"packets"`          // seen at both ends; at an edge, at its port
	P50Ns   *int64 `json:"p50_ns,omitempty"` // pairs only; absent: not measured
	// QueueNs is the median of the packets that waited in the queue of From.
	QueueNs *int64 `json:"queue_p50_ns,omitempty"`
	Lost    uint64 `json:"lost"`    // leaving From, with its queue, or coming in at To
	Expired uint64 `json:"expired"` // went out at From, and were not seen again
}

// direction names one direction of a link as linkLoad does.
type direction struct{ from, to string }

// fillLoad adds what was measured.
func (v *topoView) fillLoad(agg *aggregate.Aggregates, names packet.Names) {
	v.loads, v.linkOf = make(map[direction]*linkLoad), make(map[string]*topoLink)
	for i := range v.Links {
		link := &v.Links[i]
		link.Load = link.directions()
		for j := range link.Load {
			l := &link.Load[j]
			v.loads[direction{l.From, l.To}] = l
		}
		for _, e := range link.Ends {
			v.linkOf[e.name()] = link
		}
	}
	for i := range v.Nodes {
		v.Nodes[i].Load = &nodeLoad{}
	}
	for _, row := range agg.Latency(aggregate.ByNode, names) {
		if n := v.node(row.Name); n != nil && n.Load.P50Ns == nil {
			n.Load.P50Ns = &row.P50Ns
		}
	}
	for _, row := range agg.Latency(aggregate.ByLink, names) {
		from, to, _ := strings.Cut(row.Name, " > ")
		if load := v.loads[direction{from, to}]; load != nil && load.P50Ns == nil {
			load.P50Ns = &row.P50Ns
		}
	}
	for _, row := range agg.Latency(aggregate.ByQueue, names) {
		v.addQueue(&row)
	}
	for _, row := range agg.Paths(names) {
		v.addPath(&row)
	}
	for _, row := range agg.Losses(names) {
		if !row.Inferred() { // paths have counted these as expired
			v.addLoss(&row)
		}
	}
}

// addQueue notes the time in a port's queue on the direction that begins there.
func (v *topoView) addQueue(row *aggregate.LatencyRow) {
	link := v.linkOf[row.Name]
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
func (l *topoLink) directions() []linkLoad {
	var loads []linkLoad
	both := func(a, b string) { loads = append(loads, linkLoad{From: a, To: b}, linkLoad{From: b, To: a}) }
	switch l.Kind {
	case pairLink:
		both(l.Ends[0].name(), l.Ends[1].name())
	case edgeLink:
		both(l.Ends[0].name(), outsideName)
	case tunnelLink:
		for i, a := range l.Ends {
			for _, b := range l.Ends[i+1:] {
				both(a.name(), b.name())
			}
		}
	case bridgeLink:
		for _, e := range l.Ends {
			both(e.name(), l.bridgeName())
		}
	}
	return loads
}

func (l *topoLink) bridgeName() string { return "bridge " + l.Name }

func (v *topoView) node(name string) *topoNode {
	for i := range v.Nodes {
		if v.Nodes[i].Name == name {
			return &v.Nodes[i]
		}
	}
	return nil
}

// sent counts n packets that went from one port to another, perhaps by a bridge, or
// over an edge.
func (v *topoView) sent(from, to string, n uint64) {
	if l := v.loads[direction{from, to}]; l != nil {
		l.Packets += n
		return
	}
	link := v.linkOf[from]
	if link == nil || link.Kind != bridgeLink || to == outsideName {
		return
	}
	if l := v.loads[direction{from, link.bridgeName()}]; l != nil {
		l.Packets += n
	}
	if l := v.loads[direction{link.bridgeName(), to}]; l != nil {
		l.Packets += n
	}
}

// addPath counts a path's packets on each of its links.
func (v *topoView) addPath(row *aggregate.PathRow) {
	for i, h := range row.Hops {
		if i == 0 && h.InPort != "" {
			v.sent(outsideName, h.Node+"/"+h.InPort, row.Packets)
		}
		left, expired := row.EndsAt(i)
		v.sent(h.Node+"/"+h.Port, outsideName, left)
		v.addExpired(h, expired)
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
		v.sent(h.Node+"/"+out, next.Node+"/"+in, row.Packets)
	}
}

// addExpired counts packets where they were seen last: on the link behind the port
// that they went out by, or inside the node.
func (v *topoView) addExpired(h aggregate.PathHop, n uint64) {
	end := h.Node + "/" + h.Port
	if link := v.linkOf[end]; link != nil && h.Port != "" {
		for i := range link.Load {
			if l := &link.Load[i]; l.From == end {
				l.Expired += n
				return
			}
		}
	}
	if node := v.node(h.Node); node != nil {
		node.Load.Expired += n
	}
}

// addLoss counts losses where the packets were lost.
func (v *topoView) addLoss(row *aggregate.LossRow) {
	end := row.Node + "/" + row.Port
	if link := v.linkOf[end]; link != nil && row.At != record.AtNode {
		for i := range link.Load {
			l := &link.Load[i]
			if row.At == record.AtIngress && l.To == end || row.At != record.AtIngress && l.From == end {
				l.Lost += row.Packets
				return
			}
		}
	}
	if n := v.node(row.Node); n != nil {
		n.Load.Lost += row.Packets
	}
}

// lines describes the load in a drawing.
func (l *nodeLoad) lines() []string {
	if l == nil {
		return nil
	}
	var parts []string
	if l.P50Ns != nil {
		parts = append(parts, "p50 "+humanDuration(float64(*l.P50Ns)))
	}
	if l.Lost > 0 {
		parts = append(parts, decimal(l.Lost)+" lost")
	}
	if l.Expired > 0 {
		parts = append(parts, decimal(l.Expired)+" expired")
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{strings.Join(parts, ", ")}
}

// loadLines describes the directions in which something passed, or was lost.
func (l *topoLink) loadLines() []string {
	var lines []string
	for _, d := range l.Load {
		lines = append(lines, d.lines()...)
	}
	return lines
}

// loadLinesOf is loadLines of one end of a bridge.
func (l *topoLink) loadLinesOf(end string) []string {
	var lines []string
	for _, d := range l.Load {
		if d.From == end || d.To == end {
			lines = append(lines, d.lines()...)
		}
	}
	return lines
}

func (d *linkLoad) lines() []string {
	if d.Packets == 0 && d.Lost == 0 && d.Expired == 0 {
		return nil
	}
	text := fmt.Sprintf("%s > %s: %s", shortEnd(d.From), shortEnd(d.To), decimal(d.Packets))
	if d.P50Ns != nil {
		text += ", p50 " + humanDuration(float64(*d.P50Ns))
	}
	if d.QueueNs != nil {
		text += ", queue p50 " + humanDuration(float64(*d.QueueNs))
	}
	if d.Lost > 0 {
		text += ", " + decimal(d.Lost) + " lost"
	}
	if d.Expired > 0 {
		text += ", " + decimal(d.Expired) + " expired"
	}
	return []string{text}
}

// shortEnd leaves out the port, which a drawing shows anyway.
func shortEnd(end string) string {
	if strings.HasPrefix(end, "bridge ") {
		return "bridge"
	}
	node, _, _ := strings.Cut(end, "/")
	return node
}

// printTopoLoad prints what --load adds; nothing without it.
func (a *app) printTopoLoad(v *topoView) error {
	links := newTable(column{title: "PACKETS", right: true}, column{title: "QUEUE P50", right: true}, column{title: "P50", right: true},
		column{title: "LOST", right: true}, column{title: "EXPIRED", right: true}, column{title: "LINK"})
	for _, l := range a.shown.links(v.Links) {
		for _, d := range l.Load {
			links.add(decimal(d.Packets), optionalDuration(d.QueueNs), optionalDuration(d.P50Ns), decimal(d.Lost), decimal(d.Expired), d.From+" > "+d.To)
		}
	}
	if len(links.rows) == 0 {
		return nil
	}
	fmt.Fprintln(a.out)
	if err := links.flush(a.out); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	nodes := newTable(column{title: "P50", right: true}, column{title: "LOST", right: true},
		column{title: "EXPIRED", right: true}, column{title: "NODE"})
	for _, n := range v.Nodes {
		nodes.add(optionalDuration(n.Load.P50Ns), decimal(n.Load.Lost), decimal(n.Load.Expired), n.Name)
	}
	return nodes.flush(a.out)
}

func optionalDuration(ns *int64) string {
	if ns == nil {
		return ""
	}
	return humanDuration(float64(*ns))
}
