// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/domain"
)

// roleText is the role, and whether somebody chose it.
func roleText(role domain.Role, forced bool) string {
	if forced {
		return string(role) + " (forced)"
	}
	return string(role)
}

// connectedTo says in words what is at the other end of a port.
func (s *shownNames) connectedTo(p *answer.Port, node string) string {
	switch {
	case p.Place == answer.PlaceBridge:
		return fmt.Sprintf("bridge %s, toward %s itself", s.end(p.Link), node)
	case p.Tunnel && p.Link != "":
		return p.Link
	case p.Link != "":
		return "bridge " + s.end(p.Link)
	case p.Tunnel && p.Peer != "":
		return p.Peer + " by " + p.Kind
	case p.Stitched && p.Peer != "":
		return p.Peer + " by tc redirects"
	case p.Peer != "":
		return p.Peer
	}
	return "outside"
}

// links are the links as tables and drawings show them.
func (s *shownNames) links(list []answer.Link) []answer.Link {
	list = slices.Clone(list)
	for i := range list {
		l := &list[i]
		l.Ends, l.Load = slices.Clone(l.Ends), slices.Clone(l.Load)
		if l.Kind == answer.BridgeLink {
			l.Name = s.end(l.Name)
		}
		for j := range l.Ends {
			e := &l.Ends[j]
			e.Node, e.Port = s.node(e.Node, e.Port), s.port(e.Node, e.Port)
		}
		for j := range l.Load {
			l.Load[j].From, l.Load[j].To = s.end(l.Load[j].From), s.end(l.Load[j].To)
		}
	}
	return list
}

// countLinks counts the links inside the domain.
func countLinks(t *answer.Topology) (n int) {
	for _, l := range t.Links {
		if l.Kind != answer.EdgeLink {
			n++
		}
	}
	return n
}

// nodeLoadLines describes the load of a node in a drawing.
func nodeLoadLines(l *answer.NodeLoad) []string {
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
func loadLines(l *answer.Link) []string {
	var lines []string
	for i := range l.Load {
		lines = append(lines, linkLoadLines(&l.Load[i])...)
	}
	return lines
}

// loadLinesOf is loadLines of one end of a bridge.
func loadLinesOf(l *answer.Link, end string) []string {
	var lines []string
	for i := range l.Load {
		if d := &l.Load[i]; d.From == end || d.To == end {
			lines = append(lines, linkLoadLines(d)...)
		}
	}
	return lines
}

func linkLoadLines(d *answer.LinkLoad) []string {
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
func (a *app) printTopoLoad(v *answer.Topology) error {
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
