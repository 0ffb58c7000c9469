// SPDX-License-Identifier: Apache-2.0

package topo

// end is what the kernel tells about both ends of a pair: the number of the
// interface itself and of its peer. Numbers are per namespace, so several pairs
// can look alike; the namespace id decides.
type end struct{ ifindex, peer int }

// connect finds the peer of every port among all ports.
//
// The kernel names the namespace of a peer by an id that is valid only where it
// was asked. There is no way from an id to a namespace, only the other way
// round, so the ids of the candidates' namespaces are asked for, each once.
func connect(t *Topology, probes []probe) {
	byEnd := make(map[end][]PortRef)
	for i := range probes {
		for j, w := range probes[i].wires {
			if w.pair {
				e := end{t.Nodes[i].Ports[j].Ifindex, w.ifindex}
				byEnd[e] = append(byEnd[e], PortRef{i, j})
			}
		}
	}
	ids := make(nsids)
	for i := range probes {
		for j, w := range probes[i].wires {
			self := &t.Nodes[i].Ports[j]
			if !w.pair || self.Peer != nil {
				continue
			}
			for _, c := range byEnd[end{w.ifindex, self.Ifindex}] {
				back := probes[c.Node].wires[c.Port]
				if ids.leads(probes, i, w.nsid, c.Node) && ids.leads(probes, c.Node, back.nsid, i) {
					self.Peer = &PortRef{c.Node, c.Port}
					t.Port(c).Peer = &PortRef{i, j}
					break
				}
			}
		}
	}
}

// nsids remembers which id one node's namespace has in another's: [from, to].
type nsids map[[2]int]int

// leads says whether nsid, as seen in node from, is the namespace of node to.
func (ids nsids) leads(probes []probe, from, nsid, to int) bool {
	if nsid < 0 || from == to {
		return nsid < 0 && from == to
	}
	key := [2]int{from, to}
	id, known := ids[key]
	if !known {
		var err error
		if id, err = probes[from].handle.GetNetNsIdByFd(int(probes[to].ns)); err != nil {
			id = -1 // cannot be told: no peer, so the port stays an edge
		}
		ids[key] = id
	}
	return id == nsid
}
