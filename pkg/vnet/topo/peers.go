// SPDX-License-Identifier: Apache-2.0

package topo

// connect finds the peer of every port that has one among all ports. Both ends
// must say so: one of them can have moved since it was looked at.
func connect(t *Topology, o *observer, probes []probe) {
	byIndex := make([]map[int]int, len(probes)) // of each node: port by interface number
	for i := range probes {
		byIndex[i] = make(map[int]int, len(t.Nodes[i].Ports))
		for j, p := range t.Nodes[i].Ports {
			byIndex[i][p.Ifindex] = j
		}
	}
	// leads says which port is at the other end of one.
	leads := func(from PortRef) (PortRef, bool) {
		w := probes[from.Node].wires[from.Port]
		node, ok := o.node(from.Node, w.nsid)
		if !ok || !w.pair {
			return PortRef{}, false
		}
		port, ok := byIndex[node][w.ifindex]
		return PortRef{node, port}, ok
	}
	for i := range probes {
		for j := range probes[i].wires {
			self := PortRef{i, j}
			peer, ok := leads(self)
			if !ok {
				continue
			}
			if back, ok := leads(peer); ok && back == self {
				t.Port(self).Peer = &peer
			}
		}
	}
}
