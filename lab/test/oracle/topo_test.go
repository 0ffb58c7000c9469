// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"encoding/json"
	"testing"
)

// routersTopo is what "radar topo -o json" says of the made-up network's routers.
const routersTopo = `{"nodes":[
{"name":"r1","ports":[
	{"name":"e0","ifindex":21,"role":"edge","addresses":["10.0.1.2/24"]},
	{"name":"e1","ifindex":22,"role":"internal","peer":"r2/e0","addresses":["10.0.2.1/24"]}]},
{"name":"r2","ports":[
	{"name":"e0","ifindex":31,"role":"internal","peer":"r1/e1","addresses":["10.0.2.2/24"]},
	{"name":"e1","ifindex":32,"role":"edge","addresses":["10.0.3.1/24"]}]}],
"links":[
{"kind":"edge","ends":[{"node":"r1","port":"e0","role":"edge"}]},
{"kind":"pair","ends":[{"node":"r2","port":"e0","role":"internal"},{"node":"r1","port":"e1","role":"internal"}]},
{"kind":"edge","ends":[{"node":"r2","port":"e1","role":"edge"}]}]}`

// TestTopoAnswer: the true topology passes, and each that is spoiled is found.
func TestTopoAnswer(t *testing.T) {
	truth := &Truth{topo: topology()}
	for _, m := range []struct {
		name  string
		spoil func(a *TopoAnswer)
		wrong int
	}{
		{"nothing", func(*TopoAnswer) {}, 0},
		{"node missing", func(a *TopoAnswer) { a.Nodes = a.Nodes[:1] }, 2},
		{"node twice", func(a *TopoAnswer) { a.Nodes = append(a.Nodes, a.Nodes[0]) }, 2},
		{"port missing", func(a *TopoAnswer) { a.Nodes[0].Ports = a.Nodes[0].Ports[:1] }, 1},
		{"number of a port", func(a *TopoAnswer) { a.Nodes[0].Ports[0].Ifindex++ }, 2},
		{"role", func(a *TopoAnswer) { a.Nodes[1].Ports[1].Role = "internal" }, 2},
		{"peer", func(a *TopoAnswer) { a.Nodes[1].Ports[0].Peer = "r1/e0" }, 2},
		{"peer outside", func(a *TopoAnswer) { a.Nodes[1].Ports[1].Peer = "h2/e0" }, 2},
		{"address", func(a *TopoAnswer) { a.Nodes[0].Ports[0].Addresses[0] = "10.0.1.2/16" }, 2},
		{"no address", func(a *TopoAnswer) { a.Nodes[0].Ports[0].Addresses = nil }, 2},
		{"link missing", func(a *TopoAnswer) { a.Links = a.Links[1:] }, 1},
		{"end of a link", func(a *TopoAnswer) { a.Links[1].Ends[0].Port = "e1" }, 2},
		{"kind of a link", func(a *TopoAnswer) { a.Links[0].Kind = "bridge" }, 2},
	} {
		t.Run(m.name, func(t *testing.T) {
			a := new(TopoAnswer)
			if err := json.Unmarshal([]byte(routersTopo), a); err != nil {
				t.Fatal(err)
			}
			m.spoil(a)
			row := truth.CheckTopo(NewDomain("r1", "r2"), a)
			if row.Compared != 7 || row.Wrong != m.wrong {
				t.Errorf("%+v, want 7 compared and %d wrong", row, m.wrong)
			}
		})
	}
}
