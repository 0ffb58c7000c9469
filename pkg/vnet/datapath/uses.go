// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
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

// setApart keeps nodes from carrying the header in which nothing could restore it: those that deliver packets for
// others to themselves, whose sockets would see it, and those whose rules make packets unknown. It returns a text for
// each such node.
func setApart(d *domain.Domain) (texts []string) {
	header := merge.HeaderNodes(d)
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Auto || !header(n.Name) {
			continue
		}
		if n.Apart = whyApart(n); n.Apart != "" {
			texts = append(texts, fmt.Sprintf("node %s cannot carry the mark (%s), and has %s: stories end where packets enter it, as left, and begin anew where they leave it",
				n.Name, merge.WhyHeader(d, n.Name), n.Apart))
		}
	}
	return texts
}

// whyApart says why a node cannot carry the header; "": it can, by what its rules are.
func whyApart(n *domain.Node) string {
	spec := topo.SpecOf(*n)
	if n.Redirects {
		if what := rules.ToItself(spec); what != "" {
			return what
		}
	}
	return rules.Hiding(spec)
}

// discover is topo.Discover, and looks at what rules do on bridges between nodes.
func discover(ctx context.Context, specs []topo.NodeSpec, roles []topo.RoleOverride) (*topo.Topology, error) {
	t, err := topo.Discover(specs, roles)
	if err != nil {
		return nil, err
	}
	openBridges(ctx, t)
	return t, nil
}

// openBridges makes edges of the ports on bridges whose rules set the IP ID or the flow label: radar's number is
// there on links, and a packet without it is known no more.
func openBridges(ctx context.Context, t *topo.Topology) {
	ctx, cancel := context.WithTimeout(ctx, conflictTime)
	defer cancel()
	setting := make(map[uint32][]rules.ChangingRule) // by namespace
	for i := len(t.Bridges) - 1; i >= 0; i-- {       // from the last: Open removes it
		node := t.Nodes[t.Bridges[i].Node].NodeSpec
		found, known := setting[node.Inum]
		if !known {
			found = rules.OnBridges(ctx, node, rules.SetsNumber)
			setting[node.Inum] = found
		}
		if len(found) > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("bridge %s: a rule sets the IP ID or the flow label (%v): ports on it are edges, where stories of packets end and begin", t.Link(&t.Bridges[i]), &found[0]))
			t.Open(i)
		}
	}
}

// checkHeaderNodes sets those apart that cannot carry the header, and refuses new nodes that carry the header and put packets into
// others without a device: what is inside would leave the domain with our bits. Nodes
// that are attached already are warned of.
func (p *plan) checkHeaderNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, conflictTime)
	defer cancel()
	c := p.change
	setApart(c.Next) // attach names them, as it does others that carry no mark
	for _, e := range p.result.Topology.FindEncapsulations(ctx, merge.HeaderNodes(c.Next)) {
		text := fmt.Sprintf("%s carries the GUID in the header (%s) and has %s: packets that it puts into others would keep radar's bits inside",
			e.Node, merge.WhyHeader(c.Next, e.Node), e.What)
		if c.Old != nil && slices.ContainsFunc(c.Old.Nodes, func(n domain.Node) bool { return n.Name == e.Node && !n.Removed }) {
			p.warn(text + "; detach it")
			continue
		}
		return fault.Usage.Errorf("%s; use ‹carry› mark=MASK with bits that it can spare, or leave it out", text)
	}
	return nil
}
