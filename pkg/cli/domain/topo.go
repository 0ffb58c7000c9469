// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/answer/topology"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/cli/graph"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
	"github.com/vnetradar/radar/pkg/words"
)

const topoLong = `Show the nodes and ports of the domain, and what connects them: links between two
ports, tunnels (with their kind), bridges with any number of ports, and edges, where
packets enter and leave the domain.

STATE is what the kernel says of a port now: up, down, or "no carrier", which is up itself,
but nobody is at the other end: its peer is down. -o wide adds the MTU.

A macvlan, ipvlan or VLAN whose other end is an interface of another node is connected to
that; "beside" are those on the same interface that it reaches without going out there,
unseen by radar. A port with such ones on it is "below" them.

Below the table stand addresses that several nodes have: a MAC address on one link, an IP
address on one link or in all. Those of the loopback interface may be anycast, and do not
count.

-o mermaid and -o dot draw that, for Markdown pages and for Graphviz. A dashed node
was not named by anyone, but found: it closes a bridge.

--load adds what was measured since attach: packets of each direction of a link with
the median times in the sender's queue and on it and the losses, and the median time and the losses inside each
node. A link's losses are those of the sending port, with its queue, and those before
the receiving node had the packet. On a bridge a direction ends at the bridge; times
between two of its ports are in "radar latency --by link".`

// NewTopoCmd returns "radar topo".
func NewTopoCmd(k *kit.Kit) *cobra.Command {
	format := kit.GraphFormat(kit.FormatTable)
	load, read := false, &kit.ReadFlag{}
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
			if err := read.Open(k); err != nil {
				return err
			}
			if read.Given() {
				return showRecordedTopo(k, cmd.Context(), format, load)
			}
			return showTopo(k, cmd.Context(), format, load)
		},
	}
	format.Register(cmd)
	read.Add(cmd)
	cmd.Flags().BoolVar(&load, "load", false, "with packets, times and losses since attach")
	return cmd
}

// showRecordedTopo shows the topology as it was at the end of a recording.
func showRecordedTopo(k *kit.Kit, ctx context.Context, format kit.GraphFormat, load bool) error {
	all := &answer.Selection{}
	return k.ReadSources(all, func(s *answer.Sources) error {
		d := s.Domain()
		if d == nil {
			r := s.Recorded()
			k.Note(r.Missing())
			if covers := r.Covers(); covers.First.IsZero() {
				return fmt.Errorf("%s: it does not describe a domain", k.Sentences().Covers(covers))
			}
			return errors.New("the recording is of reports alone: it does not describe a domain")
		}
		k.ShowNames(d)
		v := shownTopology(d)
		v.AddInterfaces(s.Interfaces)
		doubles := topology.DoubleNotes(d, s.Interfaces)
		if !load {
			return printTopo(k, v, format, doubles)
		}
		return k.AskOnce(ctx, s, &answer.Question{Selection: all, Now: k.Now()}, func(c *answer.Counts) error {
			v.AddLoad(c)
			return printTopo(k, v, format, doubles)
		})
	})
}

func showTopo(k *kit.Kit, ctx context.Context, format kit.GraphFormat, load bool) error {
	d, err := domain.Load(k.Domain)
	if err != nil {
		return err
	}
	k.ShowNames(d)
	v := shownTopology(d)
	look := placenow.InterfacesNow(d)
	v.AddInterfaces(look)
	doubles := topology.DoubleNotes(d, look)
	if !load {
		return printTopo(k, v, format, doubles)
	}
	all := &answer.Selection{}
	return k.ReadRing(all, func(ring *answer.Ring) error {
		return k.AskOnce(ctx, answer.Only(ring), &answer.Question{Selection: all, Now: k.Now()}, func(c *answer.Counts) error {
			v.AddLoad(c)
			return printTopo(k, v, format, doubles)
		})
	})
}

// shownTopology is a domain's topology, with texts of libraries as users write them.
func shownTopology(d *domain.Domain) *topology.Topology {
	v := topology.New(d)
	for i := range v.Nodes {
		v.Nodes[i].Header = kit.Face.Render(v.Nodes[i].Header)
	}
	return v
}

// printTopo prints a topology, and what is to be said of it below.
func printTopo(k *kit.Kit, v *topology.Topology, format kit.GraphFormat, notes []answer.Note) (err error) {
	switch format {
	case kit.FormatMermaid:
		err = drawing(v, k.Shown).Mermaid(k.Out)
	case kit.FormatDOT:
		err = drawing(v, k.Shown).DOT(k.Out)
	case kit.GraphFormat(kit.FormatJSON):
		err = kit.PrintJSON(k.Out, v)
	default:
		err = printTopoTables(k, v, format == kit.GraphFormat(kit.FormatWide))
	}
	if err == nil {
		k.Note(notes)
	}
	return err
}

func printTopoTables(k *kit.Kit, v *topology.Topology, wide bool) error {
	ports := 0
	for _, n := range v.Nodes {
		ports += len(n.Ports)
	}
	fmt.Fprintf(k.Out, "domain %s: %s, %s, %s\n", v.Domain,
		words.Plural(len(v.Nodes), "node"), words.Plural(ports, "port"), words.Plural(countLinks(v), "link"))
	if err := printTopoPorts(k, v, wide); err != nil {
		return err
	}
	return printTopoLoad(k, v)
}

func printTopoPorts(k *kit.Kit, v *topology.Topology, wide bool) error {
	columns := []kit.Column{{Title: "NODE"}, {Title: "PORT"}, {Title: "STATE"}, {Title: "ROLE"}, {Title: "CONNECTED TO"}, {Title: "ADDRESS"}}
	if wide {
		columns = append(columns, kit.Column{Title: "KIND"}, kit.Column{Title: "MTU", Right: true}, kit.Column{Title: "IFINDEX", Right: true}, kit.Column{Title: "SPEC"})
	}
	t := kit.NewTable(columns...)
	for _, n := range v.Nodes {
		name := n.Name
		if n.Auto {
			name += " (found)"
		}
		if len(n.Ports) == 0 {
			t.Add(name)
		}
		for _, p := range n.Ports {
			node := name
			if p.Place == topology.PlaceMember {
				node = wording.NotAttached
			}
			cells := []string{node, k.Shown.Port(n.Name, p.Name), words.State(p.State), roleText(p.Role, p.Forced), connectedTo(k.Shown, &p.Port, n.Name) + byMember(&p.Port, wide), strings.Join(p.ShownAddresses(), " ")}
			if wide {
				cells = append(cells, p.Kind, optionalNumber(p.MTU), fmt.Sprint(p.Ifindex), n.Spec)
			}
			t.Add(cells...)
		}
	}
	return t.Flush(k.Out)
}

// maxAddresses is how many addresses of a node a drawing shows.
const maxAddresses = 4

// drawing draws the topology. Every edge of the domain has an outside of its own, except
// those of one bridge: two edges need not lead to the same place.
func drawing(v *topology.Topology, shown *wording.Names) *graph.Graph {
	g := &graph.Graph{Name: v.Domain}
	vertices := make(map[string]int)
	for _, n := range v.Nodes {
		kind := graph.Node
		if n.Auto {
			kind = graph.Auto
		}
		vertices[n.Name] = g.Add(graph.Vertex{Label: n.Name, Kind: kind, More: append(shortAddresses(&n), nodeLoadLines(n.Load)...)})
	}
	for _, l := range shownLinks(shown, v.Links) {
		switch l.Kind {
		case topology.PairLink:
			a, b := l.Ends[0], l.Ends[1]
			g.Connect(graph.Edge{From: vertices[a.Node], To: vertices[b.Node],
				FromPort: portLabel(a), ToPort: portLabel(b), More: loadLines(&l)})
		case topology.TunnelLink:
			drawTunnel(g, &l, vertices)
		case topology.EdgeLink:
			edge := graph.Edge{From: vertices[l.Ends[0].Node], FromPort: portLabel(l.Ends[0]), More: loadLines(&l), Dashed: true}
			node, lower, _ := strings.Cut(l.Lower, "/")
			if below, ok := vertices[node]; ok {
				edge.To, edge.ToPort = below, shown.Port(node, lower)
			} else {
				edge.To = g.Add(graph.Vertex{Label: topology.Outside, Kind: graph.Outside})
			}
			g.Connect(edge)
		case topology.BridgeLink:
			draw(g, &l, vertices)
		}
	}
	return g
}

// drawTunnel adds a tunnel: a line with its kind, or a hub if it has more ends than two.
func drawTunnel(g *graph.Graph, l *topology.Link, vertices map[string]int) {
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
func draw(g *graph.Graph, l *topology.Link, vertices map[string]int) {
	bridge := g.Add(graph.Vertex{Label: l.Name, Kind: graph.Bridge})
	outside := -1
	for _, e := range l.Ends {
		to := vertices[e.Node]
		if e.Place == topology.PlaceMember {
			if outside < 0 {
				outside = g.Add(graph.Vertex{Label: "outside", Kind: graph.Outside})
			}
			to = outside
		}
		g.Connect(graph.Edge{From: bridge, To: to, ToPort: portLabel(e), More: loadLinesOf(l, e.String()), Dashed: e.Place != ""})
	}
}

// portLabel names a port, with its role where somebody chose it, and its state where it is not up.
func portLabel(e topology.LinkEnd) string {
	label := e.Port
	if e.Forced {
		label += " (" + string(e.Role) + ")"
	}
	if e.State != "" && e.State != topo.Up {
		label += " (" + words.State(e.State) + ")"
	}
	return label
}

func shortAddresses(n *topology.TopologyNode) []string {
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
