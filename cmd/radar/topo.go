// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/graph"
)

const topoLong = `Show the nodes and ports of the domain, and what connects them: links between two
ports, tunnels (with their kind), bridges with any number of ports, and edges, where
packets enter and leave the domain.

-o mermaid and -o dot draw that, for Markdown pages and for Graphviz. A dashed node
was not named by anyone, but found: it closes a bridge.

--load adds what was measured since attach: packets of each direction of a link with
the median times in the sender's queue and on it and the losses, and the median time and the losses inside each
node. A link's losses are those of the sending port, with its queue, and those before
the receiving node had the packet. On a bridge a direction ends at the bridge; times
between two of its ports are in "radar latency --by link".`

func newTopoCmd(a *app) *cobra.Command {
	format := graphFormat(formatTable)
	load := false
	cmd := &cobra.Command{
		Use:   "topo",
		Short: "Show or draw nodes, ports and links",
		Long:  topoLong,
		Example: `  radar topo
  radar topo -o mermaid > topology.mmd
  radar topo --load -o dot | dot -Tsvg > topology.svg
  radar topo -o json | jq -r '.links[] | select(.kind == "edge") | .ends[0] | .node + "/" + .port'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.topo(cmd.Context(), format, load)
		},
	}
	format.register(cmd)
	cmd.Flags().BoolVar(&load, "load", false, "with packets, times and losses since attach")
	return cmd
}

func (a *app) topo(ctx context.Context, format graphFormat, load bool) error {
	d, err := domain.Load(a.domain)
	if err != nil {
		return err
	}
	a.showNames(d)
	v := answer.NewTopology(d)
	v.AddAddresses(d)
	if !load {
		return a.printTopo(v, format)
	}
	all := &answer.Selection{}
	return a.readRing(all, func(ring *answer.Ring) error {
		return a.askOnce(ctx, answer.Only(ring), &answer.Question{Selection: all, Now: a.now()}, func(c *answer.Counts) error {
			v.AddLoad(c)
			return a.printTopo(v, format)
		})
	})
}

func (a *app) printTopo(v *answer.Topology, format graphFormat) error {
	switch format {
	case formatMermaid:
		return drawing(v, a.shown).Mermaid(a.out)
	case formatDOT:
		return drawing(v, a.shown).DOT(a.out)
	case graphFormat(formatJSON):
		return printJSON(a.out, v)
	}
	ports := 0
	for _, n := range v.Nodes {
		ports += len(n.Ports)
	}
	fmt.Fprintf(a.out, "domain %s: %s, %s, %s\n", v.Domain,
		plural(len(v.Nodes), "node"), plural(ports, "port"), plural(countLinks(v), "link"))
	if err := a.printTopoPorts(v, format == graphFormat(formatWide)); err != nil {
		return err
	}
	return a.printTopoLoad(v)
}

func (a *app) printTopoPorts(v *answer.Topology, wide bool) error {
	columns := []column{{title: "NODE"}, {title: "PORT"}, {title: "ROLE"}, {title: "CONNECTED TO"}, {title: "ADDRESS"}}
	if wide {
		columns = append(columns, column{title: "KIND"}, column{title: "IFINDEX", right: true}, column{title: "SPEC"})
	}
	t := newTable(columns...)
	for _, n := range v.Nodes {
		name := n.Name
		if n.Auto {
			name += " (found)"
		}
		if len(n.Ports) == 0 {
			t.add(name)
		}
		for _, p := range n.Ports {
			node := name
			if p.Place == answer.PlaceMember {
				node = notAttached
			}
			cells := []string{node, a.shown.port(n.Name, p.Name), roleText(p.Role, p.Forced), a.shown.connectedTo(&p.Port, n.Name), strings.Join(p.ShownAddresses(), " ")}
			if wide {
				cells = append(cells, p.Kind, fmt.Sprint(p.Ifindex), n.Spec)
			}
			t.add(cells...)
		}
	}
	return t.flush(a.out)
}

// maxAddresses is how many addresses of a node a drawing shows.
const maxAddresses = 4

// drawing draws the topology. Every edge of the domain has an outside of its own, except
// those of one bridge: two edges need not lead to the same place.
func drawing(v *answer.Topology, shown *shownNames) *graph.Graph {
	g := &graph.Graph{Name: v.Domain}
	vertices := make(map[string]int)
	for _, n := range v.Nodes {
		kind := graph.Node
		if n.Auto {
			kind = graph.Auto
		}
		vertices[n.Name] = g.Add(graph.Vertex{Label: n.Name, Kind: kind, More: append(shortAddresses(&n), nodeLoadLines(n.Load)...)})
	}
	for _, l := range shown.links(v.Links) {
		switch l.Kind {
		case answer.PairLink:
			a, b := l.Ends[0], l.Ends[1]
			g.Connect(graph.Edge{From: vertices[a.Node], To: vertices[b.Node],
				FromPort: portLabel(a), ToPort: portLabel(b), More: loadLines(&l)})
		case answer.TunnelLink:
			drawTunnel(g, &l, vertices)
		case answer.EdgeLink:
			out := g.Add(graph.Vertex{Label: "outside", Kind: graph.Outside})
			g.Connect(graph.Edge{From: vertices[l.Ends[0].Node], To: out,
				FromPort: portLabel(l.Ends[0]), More: loadLines(&l), Dashed: true})
		case answer.BridgeLink:
			draw(g, &l, vertices)
		}
	}
	return g
}

// drawTunnel adds a tunnel: a line with its kind, or a hub if it has more ends than two.
func drawTunnel(g *graph.Graph, l *answer.Link, vertices map[string]int) {
	if len(l.Ends) != 2 {
		draw(g, l, vertices)
		return
	}
	a, b := l.Ends[0], l.Ends[1]
	g.Connect(graph.Edge{From: vertices[a.Node], To: vertices[b.Node], FromPort: portLabel(a),
		ToPort: portLabel(b), More: append([]string{l.Name}, loadLines(l)...)})
}

// draw adds a bridge. Members of which the other end is not attached lead outside,
// all to one place; the bridge's own device leads to the node that closes it.
func draw(g *graph.Graph, l *answer.Link, vertices map[string]int) {
	bridge := g.Add(graph.Vertex{Label: l.Name, Kind: graph.Bridge})
	outside := -1
	for _, e := range l.Ends {
		to := vertices[e.Node]
		if e.Place == answer.PlaceMember {
			if outside < 0 {
				outside = g.Add(graph.Vertex{Label: "outside", Kind: graph.Outside})
			}
			to = outside
		}
		g.Connect(graph.Edge{From: bridge, To: to, ToPort: portLabel(e), More: loadLinesOf(l, e.String()), Dashed: e.Place != ""})
	}
}

// portLabel names a port, and its role where somebody chose it.
func portLabel(e answer.LinkEnd) string {
	if e.Forced {
		return e.Port + " (" + string(e.Role) + ")"
	}
	return e.Port
}

func shortAddresses(n *answer.TopologyNode) []string {
	var all []string
	for _, p := range n.Ports {
		all = append(all, p.ShownAddresses()...)
	}
	if len(all) > maxAddresses {
		more := len(all) - maxAddresses
		all = append(all[:maxAddresses:maxAddresses], fmt.Sprintf("and %d more", more))
	}
	return all
}
