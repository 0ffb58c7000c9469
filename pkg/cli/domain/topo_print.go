// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/topology"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/words"
)

// roleText is the role, and whether somebody chose it.
func roleText(role domain.Role, forced bool) string {
	if forced {
		return string(role) + " (forced)"
	}
	return string(role)
}

// optionalNumber is n, "" if that is not known.
func optionalNumber(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// maxNeighbours is how many ports beside or above another one a table names.
const maxNeighbours = 3

// connectedTo says in words what is at the other end of a port, and what stands on it.
func connectedTo(s *wording.Names, p *answer.Port, node string) string {
	text := otherEnd(s, p, node)
	if len(p.Uppers) > 0 {
		text += ", below " + someEnds(s, p.Uppers)
	}
	return text
}

// someEnds names ports; of many the first.
func someEnds(s *wording.Names, ends []string) string {
	var names []string
	for _, end := range ends[:min(len(ends), maxNeighbours)] {
		names = append(names, s.End(end))
	}
	if more := len(ends) - len(names); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}

// otherEnd says in words what is at the other end of a port.
func otherEnd(s *wording.Names, p *answer.Port, node string) string {
	switch {
	case p.Lower != "":
		text := s.End(p.Lower) + " by " + p.Kind
		if len(p.Beside) > 0 {
			text += ", beside " + someEnds(s, p.Beside)
		}
		return text
	case p.Place == topology.PlaceBridge:
		return fmt.Sprintf("bridge %s, toward %s itself", s.End(p.Link), node)
	case p.Tunnel && p.Link != "":
		return p.Link
	case p.Link != "":
		return "bridge " + s.End(p.Link)
	case p.Tunnel && p.Peer != "":
		return p.Peer + " by " + p.Kind
	case p.Stitched && p.Peer != "":
		return p.Peer + " by tc redirects"
	case p.Peer != "":
		return p.Peer
	}
	return "outside"
}

// byMember is " by veth3c1f", the interface by which a bridge reaches a port.
func byMember(p *answer.Port, wide bool) string {
	_, name, ok := strings.Cut(p.Member, "/")
	if !wide || !ok {
		return ""
	}
	return " by " + name
}

// shownLinks are the links as tables and drawings show them.
func shownLinks(s *wording.Names, list []topology.Link) []topology.Link {
	list = slices.Clone(list)
	for i := range list {
		l := &list[i]
		l.Ends, l.Load = slices.Clone(l.Ends), slices.Clone(l.Load)
		if l.Kind == topology.BridgeLink {
			l.Name = s.End(l.Name)
		}
		for j := range l.Ends {
			e := &l.Ends[j]
			e.Node, e.Port = s.Node(e.Node, e.Port), s.Port(e.Node, e.Port)
		}
		for j := range l.Load {
			l.Load[j].From, l.Load[j].To = s.End(l.Load[j].From), s.End(l.Load[j].To)
		}
	}
	return list
}

// countLinks counts the links inside the domain.
func countLinks(t *topology.Topology) (n int) {
	for _, l := range t.Links {
		if l.Kind != topology.EdgeLink {
			n++
		}
	}
	return n
}

// nodeLoadLines describes the load of a node in a drawing.
func nodeLoadLines(l *topology.NodeLoad) []string {
	if l == nil {
		return nil
	}
	var parts []string
	if l.P50Ns != nil {
		parts = append(parts, "p50 "+words.Duration(float64(*l.P50Ns)))
	}
	if l.Lost > 0 {
		parts = append(parts, words.Decimal(l.Lost)+" lost")
	}
	if l.Expired > 0 {
		parts = append(parts, words.Decimal(l.Expired)+" expired")
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{strings.Join(parts, ", ")}
}

// loadLines describes the directions in which something passed, or was lost.
func loadLines(l *topology.Link) []string {
	var lines []string
	for i := range l.Load {
		lines = append(lines, linkLoadLines(&l.Load[i])...)
	}
	return lines
}

// loadLinesOf is loadLines of one end of a bridge.
func loadLinesOf(l *topology.Link, end string) []string {
	var lines []string
	for i := range l.Load {
		if d := &l.Load[i]; d.From == end || d.To == end {
			lines = append(lines, linkLoadLines(d)...)
		}
	}
	return lines
}

func linkLoadLines(d *topology.LinkLoad) []string {
	if d.Packets == 0 && d.Lost == 0 && d.Expired == 0 {
		return nil
	}
	text := fmt.Sprintf("%s > %s: %s", shortEnd(d.From), shortEnd(d.To), words.Decimal(d.Packets))
	if d.P50Ns != nil {
		text += ", p50 " + words.Duration(float64(*d.P50Ns))
	}
	if d.QueueNs != nil {
		text += ", queue p50 " + words.Duration(float64(*d.QueueNs))
	}
	if d.Lost > 0 {
		text += ", " + words.Decimal(d.Lost) + " lost"
	}
	if d.Expired > 0 {
		text += ", " + words.Decimal(d.Expired) + " expired"
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
func printTopoLoad(k *kit.Kit, v *topology.Topology) error {
	links := kit.NewTable(kit.Column{Title: "PACKETS", Right: true}, kit.Column{Title: "QUEUE P50", Right: true}, kit.Column{Title: "P50", Right: true},
		kit.Column{Title: "LOST", Right: true}, kit.Column{Title: "EXPIRED", Right: true}, kit.Column{Title: "LINK"})
	for _, l := range shownLinks(k.Shown, v.Links) {
		for _, d := range l.Load {
			links.Add(words.Decimal(d.Packets), optionalDuration(d.QueueNs), optionalDuration(d.P50Ns), words.Decimal(d.Lost), words.Decimal(d.Expired), d.From+" > "+d.To)
		}
	}
	if links.Empty() {
		return nil
	}
	fmt.Fprintln(k.Out)
	if err := links.Flush(k.Out); err != nil {
		return err
	}
	fmt.Fprintln(k.Out)
	nodes := kit.NewTable(kit.Column{Title: "P50", Right: true}, kit.Column{Title: "LOST", Right: true},
		kit.Column{Title: "EXPIRED", Right: true}, kit.Column{Title: "NODE"})
	for _, n := range v.Nodes {
		nodes.Add(optionalDuration(n.Load.P50Ns), words.Decimal(n.Load.Lost), words.Decimal(n.Load.Expired), n.Name)
	}
	return nodes.Flush(k.Out)
}

func optionalDuration(ns *int64) string {
	if ns == nil {
		return ""
	}
	return words.Duration(float64(*ns))
}
