// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// TopoAnswer is what "radar topo" prints as JSON.
type TopoAnswer struct {
	Nodes []struct {
		Name  string `json:"name"`
		Ports []struct {
			Name      string   `json:"name"`
			Ifindex   int      `json:"ifindex"`
			Role      string   `json:"role"`
			Peer      string   `json:"peer"`
			Addresses []string `json:"addresses"`
		} `json:"ports"`
	} `json:"nodes"`
	Links []struct {
		Kind string `json:"kind"`
		Ends []struct {
			Node string `json:"node"`
			Port string `json:"port"`
			Role string `json:"role"`
		} `json:"ends"`
	} `json:"links"`
}

// CheckTopo compares radar's topology with the network: ports with numbers, roles, peers and
// addresses, and the links between them.
func (t *Truth) CheckTopo(d Domain, a *TopoAnswer) *Row {
	row := &Row{Check: "radar topo: ports, peers, addresses, links"}
	got := a.facts()
	want := t.topo.facts(d)
	row.Compared = len(want)
	for _, f := range got {
		if i := slices.Index(want, f); i >= 0 {
			want = slices.Delete(want, i, i+1)
		} else {
			row.bad("%s: it is not so", f)
		}
	}
	for _, f := range want {
		row.bad("%s: missing", f)
	}
	return row
}

// facts are one line for each port and each link.
func (a *TopoAnswer) facts() []string {
	var list []string
	for _, n := range a.Nodes {
		for _, p := range n.Ports {
			list = append(list, portFact(Ref{n.Name, p.Name}, p.Ifindex, p.Role, p.Peer, p.Addresses))
		}
	}
	for _, l := range a.Links {
		var ends []string
		for _, e := range l.Ends {
			ends = append(ends, Ref{e.Node, e.Port}.String()+" "+e.Role)
		}
		list = append(list, linkFact(l.Kind, ends))
	}
	return list
}

func (t *Topology) facts(d Domain) []string {
	var list []string
	for _, n := range t.Nodes {
		for _, p := range n.Ports {
			here := Ref{n.Name, p.Name}
			var addrs []string
			for _, a := range p.Addrs {
				addrs = append(addrs, a.String())
			}
			switch {
			case !d[n.Name]:
			case !d[p.Peer.Node]:
				list = append(list, portFact(here, p.Index, "edge", "", addrs), linkFact("edge", []string{here.String() + " edge"}))
			default:
				list = append(list, portFact(here, p.Index, "internal", p.Peer.String(), addrs))
				if here.String() < p.Peer.String() {
					list = append(list, linkFact("pair", []string{here.String() + " internal", p.Peer.String() + " internal"}))
				}
			}
		}
	}
	return list
}

func portFact(port Ref, index int, role, peer string, addrs []string) string {
	return fmt.Sprintf("port %s, number %d, %s, connected to %q, addresses %q", port, index, role, peer, addrs)
}

func linkFact(kind string, ends []string) string {
	slices.Sort(ends)
	return kind + " of " + strings.Join(ends, " and ")
}
