// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Macvlan is a port that hangs on a port of another namespace, its parent.
type Macvlan struct {
	Port    string
	Ifindex int
	Parent  int // its number, in its own namespace
	// Inside is the number of the parent's namespace in that of the node; -1: it is the same.
	Inside int
	Kind   string // "macvlan", "ipvlan"
}

// Macvlans are the node's.
func Macvlans(node topo.NodeSpec) (list []Macvlan, err error) {
	handle, links, err := node.Links()
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	for _, l := range links {
		if kind := l.Type(); kind == "macvlan" || kind == "ipvlan" {
			a := l.Attrs()
			list = append(list, Macvlan{Port: a.Name, Ifindex: a.Index, Parent: a.ParentIndex, Inside: a.NetNsID, Kind: kind})
		}
	}
	return list, nil
}

// NumberOf is the number of another node's namespace in that of the node; -1: it has none.
func NumberOf(node, other topo.NodeSpec) (int, error) {
	handle, err := node.Handle()
	if err != nil {
		return -1, err
	}
	defer handle.Close()
	ns, err := other.Open()
	if err != nil {
		return -1, err
	}
	defer ns.Close()
	return handle.GetNetNsIdByFd(int(ns))
}
