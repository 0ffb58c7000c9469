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

// InterfacesNow is InterfacesOf the nodes of one domain, which asks a node once.
func InterfacesNow(d *domain.Domain) func(node uint16) map[int]topo.Interface {
	return LookOnce(func(node uint16) map[int]topo.Interface { return InterfacesOf(d, node) })
}

// LookOnce is a look that asks a node once.
func LookOnce(look func(node uint16) map[int]topo.Interface) func(node uint16) map[int]topo.Interface {
	seen := make(map[uint16]map[int]topo.Interface)
	return func(node uint16) map[int]topo.Interface {
		interfaces, known := seen[node]
		if !known {
			interfaces = look(node)
			seen[node] = interfaces
		}
		return interfaces
	}
}
