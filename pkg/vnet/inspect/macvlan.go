// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
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
	ns, err := node.Open()
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	handle, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("node %s: open netlink socket: %w", node.Name, err)
	}
	defer handle.Close()
	links, err := host.RetryDump(handle.LinkList)
	if err != nil {
		return nil, fmt.Errorf("node %s: list interfaces: %w", node.Name, err)
	}
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
	in, err := node.Open()
	if err != nil {
		return -1, err
	}
	defer in.Close()
	ns, err := other.Open()
	if err != nil {
		return -1, err
	}
	defer ns.Close()
	handle, err := netlink.NewHandleAt(in, unix.NETLINK_ROUTE)
	if err != nil {
		return -1, fmt.Errorf("node %s: open netlink socket: %w", node.Name, err)
	}
	defer handle.Close()
	return handle.GetNetNsIdByFd(int(ns))
}
