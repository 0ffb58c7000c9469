// SPDX-License-Identifier: Apache-2.0

package domain

import "github.com/vnetradar/radar/pkg/system"

// Network is the domain as every system tells of its own.
func (d *Domain) Network() *system.Network {
	n := &system.Network{Name: d.Name, Since: d.Created}
	for i := range d.Nodes {
		of := &d.Nodes[i]
		n.Nodes = append(n.Nodes, system.NetworkNode{ID: of.ID, Place: system.Place{Name: of.Name, Spec: of.Spec, Path: of.Path, Inum: of.Inum}, Found: of.Auto, Removed: of.Removed})
	}
	for i := range d.VMs {
		of := &d.VMs[i]
		n.Nodes = append(n.Nodes, system.NetworkNode{ID: of.ID, Place: system.Place{Name: of.Name}, Machine: true, Removed: of.Removed})
	}
	for i := range d.Ports {
		p := &d.Ports[i]
		port := system.NetworkPort{ID: p.ID, Node: p.Node, Name: p.Name, Ifindex: p.Ifindex, Removed: p.Removed}
		n.Ports = append(n.Ports, port)
		if p.VM != 0 {
			port.Node = p.VM
			n.Ports = append(n.Ports, port)
		}
	}
	return n
}
