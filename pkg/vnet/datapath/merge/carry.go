// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// FreeMark returns the n bits side by side that rules of the fewest nodes touch; of
// several such runs the highest, since people count from the lowest.
func FreeMark(uses []rules.Conflict, n int) uint32 {
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

// Carry decides which nodes carry the header while others carry the mark: those that
// the user names and, with --carry auto, nodes of the request whose rules use our bits.
// What is decided stays: a node's rules may be gone later, its connections' marks not.
func (c *Change) Carry(named []string, uses []rules.Conflict) error {
	d := c.Next
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
		n.Late = n.Late || (n.Header != "" && c.Old != nil && carriedMark(c.Old, n.ID))
	}
	return nil
}

// carriedMark says whether a node is in the domain and carries the mark.
func carriedMark(d *domain.Domain, id uint16) bool {
	return slices.ContainsFunc(MarkNodes(d), func(n *domain.Node) bool { return n.ID == id })
}

// checkCarry refuses names that mean no node. A container that starts later may have one.
func (c *Change) checkCarry(named []string) error {
	var have []string
	for _, n := range topo.SpecsOf(c.Next.Chosen()) {
		have = append(have, n.Name)
	}
	for _, name := range named {
		if !slices.Contains(have, name) && !c.Next.WatchContainers {
			return fault.Usage.Errorf("‹carry-header› %s: there is no such node%s, there are: %s", name, fault.Meant(name, have), strings.Join(have, ", "))
		}
	}
	return nil
}

// HeaderNodes says of a node's name whether the node carries the header.
func HeaderNodes(d *domain.Domain) func(name string) bool {
	header := make(map[string]bool)
	for _, n := range d.Nodes {
		if !n.Removed && n.Apart == "" && (n.Header != "" || d.Options.MarkMask == 0) {
			header[n.Name] = true
		}
	}
	return func(name string) bool { return header[name] }
}

// Collisions are the rules that use the mark's bits of nodes that carry it all the same.
func Collisions(d *domain.Domain, uses []rules.Conflict) []rules.Conflict {
	marks := make(map[string]bool)
	for _, n := range MarkNodes(d) {
		marks[n.Name] = true
	}
	return slices.DeleteFunc(rules.Overlapping(uses, d.Options.MarkMask), func(u rules.Conflict) bool { return !marks[u.Node] })
}

// WhyHeader says why a node carries the header.
func WhyHeader(d *domain.Domain, name string) string {
	for _, n := range d.Nodes {
		if n.Name == name && !n.Removed && n.Header != "" {
			return n.Header
		}
	}
	return "‹carry› header"
}

// MarkNodes are the nodes that carry the mark.
func MarkNodes(d *domain.Domain) (nodes []*domain.Node) {
	for i := range d.Nodes {
		if n := &d.Nodes[i]; d.Options.MarkMask != 0 && !n.Removed && !n.Auto && n.Header == "" && n.Apart == "" {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
