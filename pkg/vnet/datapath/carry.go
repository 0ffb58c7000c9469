// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// conflictTime bounds the search for rules that use bits of the mark.
const conflictTime = 5 * time.Second

// carryOf is --carry of the domain, or of one that these options make.
func carryOf(d *domain.Domain, o *program.Options) string {
	switch {
	case d != nil:
		return d.Options.Carry
	case o != nil:
		return o.Carry
	}
	return program.DefaultOptions().Carry
}

// findUses looks for rules that use the mark in the nodes of a request.
func findUses(ctx context.Context, carry string, nodes []topo.NodeSpec) []rules.Conflict {
	if carry == program.CarryHeader {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, conflictTime)
	defer cancel()
	return rules.Find(ctx, nodes, rules.AllMarks)
}

// freeMark returns the n bits side by side that rules of the fewest nodes touch; of
// several such runs the highest, since people count from the lowest.
func freeMark(uses []rules.Conflict, n int) uint32 {
	best, least := uint32(0), 0
	for shift := 32 - n; shift >= 0; shift-- {
		mask := rules.AllMarks >> (32 - n) << shift
		nodes := make(map[string]bool)
		for _, u := range rules.Overlapping(uses, mask) {
			nodes[u.Node] = true
		}
		if best == 0 || len(nodes) < least {
			best, least = mask, len(nodes)
		}
	}
	return best
}

// carry decides which nodes carry the header while others carry the mark: those that
// the user names and, with --carry auto, nodes of the request whose rules use our bits.
// What is decided stays: a node's rules may be gone later, its connections' marks not.
func (c *change) carry(named []string, uses []rules.Conflict) error {
	d := c.next
	if err := c.checkCarry(named); err != nil {
		return err
	}
	for _, name := range named {
		if !slices.Contains(d.HeaderNodes, name) {
			d.HeaderNodes = append(d.HeaderNodes, name)
		}
	}
	if d.Options.MarkMask == 0 {
		return nil
	}
	if d.Options.GUIDBits == program.GUIDPaper {
		// Its bands cannot show that such a node has lowered the TTL.
		if len(d.HeaderNodes) > 0 {
			return fault.Usage.Errorf("‹carry-header› with ‹guid-bits› paper: use ‹carry› header, for all nodes")
		}
		return nil
	}
	why := make(map[string]string)
	if d.Options.Carry == program.CarryAuto {
		for _, u := range rules.Overlapping(uses, d.Options.MarkMask) {
			if why[u.Node] == "" {
				why[u.Node] = u.What + ": " + u.Text
			}
		}
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		switch {
		case n.Removed || n.Auto || n.Header != "":
		case slices.Contains(d.HeaderNodes, n.Name):
			n.Header = "‹carry-header›"
		default:
			n.Header = why[n.Name]
		}
		// Packets that are in it now bear marks.
		n.Late = n.Late || (n.Header != "" && c.old != nil && carriedMark(c.old, n.ID))
	}
	return nil
}

// carriedMark says whether a node is in the domain and carries the mark.
func carriedMark(d *domain.Domain, id uint16) bool {
	return slices.ContainsFunc(markNodes(d), func(n *domain.Node) bool { return n.ID == id })
}

// checkCarry refuses names that mean no node. A container that starts later may have one.
func (c *change) checkCarry(named []string) error {
	var have []string
	for _, n := range topo.SpecsOf(c.next.Chosen()) {
		have = append(have, n.Name)
	}
	for _, name := range named {
		if !slices.Contains(have, name) && !c.next.WatchContainers {
			return fault.Usage.Errorf("‹carry-header› %s: there is no such node, there are: %s", name, strings.Join(have, ", "))
		}
	}
	return nil
}

// headerNodes says of a node's name whether the node carries the header.
func headerNodes(d *domain.Domain) func(name string) bool {
	header := make(map[string]bool)
	for _, n := range d.Nodes {
		if !n.Removed && n.Apart == "" && (n.Header != "" || d.Options.MarkMask == 0) {
			header[n.Name] = true
		}
	}
	return func(name string) bool { return header[name] }
}

// collisions are the rules that use the mark's bits of nodes that carry it all the same.
func collisions(d *domain.Domain, uses []rules.Conflict) []rules.Conflict {
	marks := make(map[string]bool)
	for _, n := range markNodes(d) {
		marks[n.Name] = true
	}
	return slices.DeleteFunc(rules.Overlapping(uses, d.Options.MarkMask), func(u rules.Conflict) bool { return !marks[u.Node] })
}

// carryWarnings tells of new nodes whose processes can get rewritten headers.
func (c *change) carryWarnings() (texts []string) {
	header := headerNodes(c.next)
	for _, n := range c.next.Nodes {
		if header(n.Name) && !n.Auto && n.Redirects && slices.Contains(c.addedNodes, n.ID) {
			texts = append(texts, fmt.Sprintf("node %s carries the header and has rules that can redirect packets to itself: its processes see rewritten TTL, DSCP and IP ID on those, and they end as expired", n.Name))
		}
	}
	return texts
}

// refuseEncapsulations refuses new nodes that carry the header and put packets into
// others without a device: what is inside would leave the domain with our bits. Nodes
// that are attached already are warned of.
func (p *plan) refuseEncapsulations(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, conflictTime)
	defer cancel()
	c := p.change
	for _, e := range p.result.Topology.FindEncapsulations(ctx, headerNodes(c.next)) {
		text := fmt.Sprintf("%s carries the GUID in the header (%s) and has %s: packets that it puts into others would keep radar's bits inside",
			e.Node, whyHeader(c.next, e.Node), e.What)
		if c.old != nil && slices.ContainsFunc(c.old.Nodes, func(n domain.Node) bool { return n.Name == e.Node && !n.Removed }) {
			p.warn(text + "; detach it")
			continue
		}
		return fault.Usage.Errorf("%s; use ‹carry› mark=MASK with bits that it can spare, or leave it out", text)
	}
	return nil
}

// whyHeader says why a node carries the header.
func whyHeader(d *domain.Domain, name string) string {
	for _, n := range d.Nodes {
		if n.Name == name && !n.Removed && n.Header != "" {
			return n.Header
		}
	}
	return "‹carry› header"
}
