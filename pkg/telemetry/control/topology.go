// SPDX-License-Identifier: Apache-2.0

package control

// Topology is what an INT domain is made of. A node without a driver is a host, or anything else that
// does not speak INT.
type Topology struct {
	// Source says where it comes from: file, lab, domain, api.
	Source string         `json:"source,omitempty"`
	Nodes  []TopologyNode `json:"nodes"`
	// Links are wires and segments: each names its ends as NODE/PORT, two or more.
	Links [][]string `json:"links,omitempty"`
}

// TopologyNode is a node of it.
type TopologyNode struct {
	Device
	// Ports are roles that do not follow from links, by name of the port: edge, transit, or none.
	Ports map[string]Role `json:"ports,omitempty"`
	// MTU is that of ports (bytes of an IP packet), by name; the driver finds out those of others.
	MTU map[string]int `json:"mtu,omitempty"`
}
