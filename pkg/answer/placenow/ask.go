// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// PeerName is NODE/PORT of a port, "" if there is none.
func PeerName(d *domain.Domain, id int) string {
	if id < 0 {
		return ""
	}
	port := d.PortByID(uint16(id))
	if port == nil || port.Removed {
		return ""
	}
	node := d.NodeByID(port.Node)
	if node == nil {
		return ""
	}
	return node.Name + "/" + port.Name
}

// InterfacesOf are a node's interfaces now, nil if it cannot be entered or is a virtual machine.
func InterfacesOf(d *domain.Domain, node uint16) map[int]topo.Interface {
	n := d.NodeByID(node)
	if n == nil {
		return nil
	}
	interfaces, err := topo.SpecOf(*n).Interfaces()
	if err != nil {
		return nil
	}
	return interfaces
}

// QdiscsOf are the root queueing disciplines of a node's ports now; nil: it is not there, or cannot be entered.
func QdiscsOf(d *domain.Domain, node string) map[string]topo.Qdisc {
	for i := range d.Nodes {
		if n := &d.Nodes[i]; n.Name == node && !n.Removed {
			list, err := topo.SpecOf(*n).Qdiscs()
			if err != nil {
				return nil
			}
			return list
		}
	}
	return nil
}
