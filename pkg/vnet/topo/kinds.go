// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"net"

	"github.com/vishvananda/netlink"
)

// Interfaces whose packets are seen at another attached interface as well: what
// enters a bridge port passes TC there first. Attaching both would count one visit twice.
var upperKinds = map[string]bool{
	"bridge": true, "bond": true, "team": true, "vrf": true,
	"hsr": true, "batadv": true, "openvswitch": true,
}

// Interfaces that carry no packets of the node: they replay or log other ones'.
var helperKinds = map[string]bool{"ifb": true, "nlmon": true, "vcan": true, "can": true}

// Interfaces that are the two ends of one wire.
var pairKinds = map[string]bool{"veth": true, "netkit": true}

// Kinds that stand on one lower device. Where that device is in the same node it sees all their
// packets first. They can be moved to another namespace, and then are what that one has.
var stackedKinds = map[string]bool{"macvlan": true, "macvtap": true, "ipvlan": true, "ipvtap": true, "vlan": true}

// attachable says whether radar attaches to the link.
func attachable(l netlink.Link) bool {
	attrs, kind := l.Attrs(), l.Type()
	switch {
	case attrs.Flags&net.FlagLoopback != 0, upperKinds[kind], helperKinds[kind]:
		return false
	case stackedKinds[kind] && attrs.ParentIndex > 0 && attrs.NetNsID < 0:
		return false // its lower device is in this node
	}
	return true
}

// isL3 says whether the link's packets lack an Ethernet header. The kernel tells
// by the ARP hardware type: only ARPHRD_ETHER has one.
func isL3(l netlink.Link) bool { return l.Attrs().EncapType != "ether" }

func hasXDP(l netlink.Link) bool {
	xdp := l.Attrs().Xdp
	return xdp != nil && xdp.Attached
}
