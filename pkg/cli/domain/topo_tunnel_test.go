// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/topology"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// A tunnel is a link with its kind; one with more ends than two is drawn as a hub.
func TestTopoTunnels(t *testing.T) {
	const name = "vxlan 7 of a/mesh"
	d := &domain.Domain{
		Name:  "t",
		Nodes: []domain.Node{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}, {ID: 3, Name: "c"}},
		Ports: []domain.Port{
			{ID: 1, Node: 1, Name: "gre1", Kind: "gre", Role: domain.Internal, Peer: 2, Tunnel: true},
			{ID: 2, Node: 2, Name: "gre1", Kind: "gre", Role: domain.Internal, Peer: 1, Tunnel: true},
			{ID: 3, Node: 1, Name: "mesh", Kind: "vxlan", Role: domain.Internal, Peer: -1, Tunnel: true, Link: name},
			{ID: 4, Node: 2, Name: "mesh", Kind: "vxlan", Role: domain.Internal, Peer: -1, Tunnel: true, Link: name},
			{ID: 5, Node: 3, Name: "mesh", Kind: "vxlan", Role: domain.Internal, Peer: -1, Tunnel: true, Link: name},
			{ID: 6, Node: 3, Name: "out", Kind: "vxlan", Role: domain.Edge, Peer: -1, Tunnel: true},
		},
	}
	v := topology.New(d)
	table := string(clitest.Printed(t, kit.FormatTable, func(k *kit.Kit) error { return printTopo(k, v, "table", nil) }))
	for _, want := range []string{"2 links", "b/gre1 by gre", name, "edge      outside"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if v.Links[0].Kind != topology.TunnelLink || v.Links[0].Name != "gre" || v.Links[1].Kind != topology.TunnelLink || len(v.Links[1].Ends) != 3 {
		t.Errorf("links %+v", v.Links)
	}
	v.AddLoad(answer.NewCounts(aggregate.New(0), backpack.NewDecoder(d, nil)))
	if got := len(v.Links[1].Load); got != 6 {
		t.Errorf("%d directions among 3 ends", got)
	}
	drawing := string(clitest.Printed(t, kit.FormatTable, func(k *kit.Kit) error { return printTopo(k, v, kit.FormatMermaid, nil) }))
	if !strings.Contains(drawing, "gre1 - gre1<br/>gre") || strings.Count(drawing, "mesh") < 4 {
		t.Errorf("drawing\n%s", drawing)
	}
}
