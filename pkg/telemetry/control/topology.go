// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"slices"
	"strings"
)

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
	// Ports are roles that do not follow from links, by name of the port: edge or transit; "none" leaves
	// a port alone.
	Ports map[string]Role `json:"ports,omitempty"`
	// MTU is that of ports (bytes of an IP packet), by name; the driver finds out those of others.
	MTU map[string]int `json:"mtu,omitempty"`
}

// leftAlone is a role that users write: the port gets none.
const leftAlone Role = "none"

// Bounds of a topology.
const (
	maxNodes = 1024
	maxLinks = 16384
	leastMTU = 68
)

// Drivers are the names that topologies may use for them.
var Drivers = []string{"ebpf", "p4runtime", "mapped", "backpack"}

// backpackDriver is the driver of a domain of radar's own: no packet bears INT there.
const backpackDriver = "backpack"

// IsDevice reports whether a driver controls the node.
func (n *TopologyNode) IsDevice() bool { return n.Driver != "" }

func (n *TopologyNode) speaksINT() bool { return n.IsDevice() && n.Driver != backpackDriver }

// Node returns the one of that name, nil if there is none.
func (t *Topology) Node(name string) *TopologyNode {
	for i := range t.Nodes {
		if t.Nodes[i].Name == name {
			return &t.Nodes[i]
		}
	}
	return nil
}

func (t *Topology) deviceNames() (names []string) {
	for i := range t.Nodes {
		if t.Nodes[i].IsDevice() {
			names = append(names, t.Nodes[i].Name)
		}
	}
	return names
}

// splitEnd cuts NODE/PORT: ports have no slash in their names.
func splitEnd(end string) (node, port string, ok bool) {
	i := strings.LastIndexByte(end, '/')
	if i <= 0 || i == len(end)-1 {
		return "", "", false
	}
	return end[:i], end[i+1:], true
}

// Check refuses a topology that makes no sense. Errors are FieldErrors.
func (t *Topology) Check() error {
	if len(t.Nodes) > maxNodes {
		return fieldErrorf("nodes", "there are %d: use %d at most", len(t.Nodes), maxNodes)
	}
	if len(t.Links) > maxLinks {
		return fieldErrorf("links", "there are %d: use %d at most", len(t.Links), maxLinks)
	}
	var errs []error
	seen, specs := make(map[string]int), make(map[[2]string]string)
	for i := range t.Nodes {
		n, path := &t.Nodes[i], at("nodes", i)
		if first, is := seen[n.Name]; is {
			errs = append(errs, fieldErrorf(join(path, "name"), "%q is that of nodes[%d], too", n.Name, first))
		}
		seen[n.Name] = i
		if key := [2]string{n.Driver, n.Spec}; n.IsDevice() && n.Spec != "" && len(n.Options) == 0 {
			if other, is := specs[key]; is {
				errs = append(errs, fieldErrorf(join(path, "spec"), "%s is that of %s, too", n.Spec, other))
			}
			specs[key] = n.Name
		}
		errs = append(errs, n.check(path))
	}
	return errors.Join(append(errs, t.checkLinks(seen))...)
}

func (n *TopologyNode) check(path string) error {
	var errs []error
	if !nameForm.MatchString(n.Name) {
		errs = append(errs, fieldErrorf(join(path, "name"), "%q: %s", n.Name, nameRule))
	}
	if n.Driver != "" && !slices.Contains(Drivers, n.Driver) {
		errs = append(errs, fieldErrorf(join(path, "driver"), "%q: use %s, or leave it out for a host", n.Driver, strings.Join(Drivers, ", ")))
	}
	if !n.IsDevice() && (len(n.Ports) > 0 || len(n.MTU) > 0 || len(n.Options) > 0) {
		errs = append(errs, fieldErrorf(join(path, "driver"), "%s has settings of a device and no driver: use %s", n.Name, strings.Join(Drivers, ", ")))
	}
	for port, role := range n.Ports {
		if role != Edge && role != Transit && role != leftAlone {
			errs = append(errs, fieldErrorf(join(path, "ports."+port), "%q: use %s, %s or %s", role, Edge, Transit, leftAlone))
		}
	}
	for port, mtu := range n.MTU {
		if mtu < leastMTU || mtu > 0xffff {
			errs = append(errs, fieldErrorf(join(path, "mtu."+port), "%d: use %d to 65535", mtu, leastMTU))
		}
	}
	return errors.Join(errs...)
}

// checkLinks refuses ends that are not there, or are of two links, or of one link twice.
func (t *Topology) checkLinks(nodes map[string]int) error {
	var errs []error
	used := make(map[string]string)
	for i, ends := range t.Links {
		path := at("links", i)
		if len(ends) < 2 {
			errs = append(errs, fieldErrorf(path, "it has %d ends: use two or more, each NODE/PORT", len(ends)))
		}
		of := make(map[string]string)
		for k, end := range ends {
			name, _, ok := splitEnd(end)
			if !ok {
				errs = append(errs, fieldErrorf(at(path, k), "%q: use NODE/PORT", end))
				continue
			}
			if _, is := nodes[name]; !is {
				errs = append(errs, fieldErrorf(at(path, k), "there is no node %q", name))
			}
			if first, is := used[end]; is {
				errs = append(errs, fieldErrorf(at(path, k), "%s is an end of %s, too", end, first))
			} else if other, is := of[name]; is {
				errs = append(errs, fieldErrorf(at(path, k), "the link leads from %s back to the same node: %s", other, end))
			}
			used[end], of[name] = path, end
		}
	}
	return errors.Join(errs...)
}

// domainGraph is what follows from a topology.
type domainGraph struct {
	ports map[string][]DevicePort // by device
	// group is a number for each device: those that packets can reach from each other, without leaving
	// the domain, have the same.
	group map[string]int
}

// graph works out roles of ports, and which devices are neighbours. A port is Transit if all that is at
// the other end, or on the segment, are devices. Else hosts are there, or may be: it is Edge.
func (t *Topology) graph() *domainGraph {
	g := &domainGraph{make(map[string][]DevicePort), make(map[string]int)}
	for i := range t.Nodes {
		if n := &t.Nodes[i]; n.speaksINT() {
			g.ports[n.Name], g.group[n.Name] = nil, i
		}
	}
	for _, ends := range t.Links {
		inside := true
		for _, end := range ends {
			name, _, _ := splitEnd(end)
			inside = inside && t.Node(name).speaksINT()
		}
		role := Edge
		if inside {
			role = Transit
			g.unite(ends)
		}
		for _, end := range ends {
			name, port, _ := splitEnd(end)
			if n := t.Node(name); n.speaksINT() {
				if _, said := n.Ports[port]; !said {
					g.ports[name] = append(g.ports[name], DevicePort{Name: port, Role: role, MTU: n.MTU[port]})
				}
			}
		}
	}
	for i := range t.Nodes {
		n := &t.Nodes[i]
		for port, role := range n.Ports {
			if role != leftAlone {
				g.ports[n.Name] = append(g.ports[n.Name], DevicePort{Name: port, Role: role, MTU: n.MTU[port]})
			}
		}
		slices.SortFunc(g.ports[n.Name], func(a, b DevicePort) int { return strings.Compare(a.Name, b.Name) })
	}
	return g
}

// unite gives the devices of a link one group.
func (g *domainGraph) unite(ends []string) {
	first, _, _ := splitEnd(ends[0])
	for _, end := range ends[1:] {
		name, _, _ := splitEnd(end)
		from, to := g.group[name], g.group[first]
		for device, group := range g.group {
			if group == from {
				g.group[device] = to
			}
		}
	}
}

// hasEdge reports whether hosts are behind a port of the device.
func (g *domainGraph) hasEdge(device string) bool {
	return slices.ContainsFunc(g.ports[device], func(p DevicePort) bool { return p.Role == Edge })
}

// Devices are those of a topology, of which nobody has said anything yet.
func (t *Topology) Devices(c Config) []DeviceStatus {
	g, list := t.graph(), []DeviceStatus{}
	for i := range t.Nodes {
		if n := &t.Nodes[i]; n.IsDevice() {
			list = append(list, DeviceStatus{Device: n.Device, NodeID: c.NodeIDs[n.Name], State: Off, Ports: g.ports[n.Name]})
		}
	}
	return list
}
