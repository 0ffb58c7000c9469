// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Tunnels are a node's VXLANs, with the entries of their forwarding tables.
type Tunnels struct {
	VNI     map[int]int // by the tunnel's number. A tunnel that takes its VNI from each packet has none
	FarEnds []FarEnd
}

// FarEnd is an entry in the forwarding table of a tunnel: where it sends frames for a MAC address.
type FarEnd struct {
	Ifindex int // the tunnel's number
	MAC     topo.MAC
	Address netip.Addr
}

// maxFarEnds bounds how many are kept of a node.
const maxFarEnds = 1 << 16

// TunnelsOf are those of a node. What is sent to every far end is no FarEnd.
func TunnelsOf(node topo.NodeSpec) (t Tunnels, err error) {
	handle, err := node.Handle()
	if err != nil {
		return t, err
	}
	defer handle.Close()
	links, err := host.RetryDump(handle.LinkList)
	if err != nil {
		return t, fmt.Errorf("node %s: list links: %w", node.Name, err)
	}
	t.VNI = make(map[int]int)
	for _, l := range links {
		if vxlan, is := l.(*netlink.Vxlan); is && !vxlan.FlowBased {
			t.VNI[vxlan.Index] = vxlan.VxlanId
		}
	}
	entries, err := host.RetryDump(func() ([]netlink.Neigh, error) { return handle.NeighList(0, unix.AF_BRIDGE) })
	if err != nil {
		return t, fmt.Errorf("node %s: list forwarding tables: %w", node.Name, err)
	}
	for _, e := range entries {
		to, ok := netip.AddrFromSlice(e.IP)
		if !ok || len(e.HardwareAddr) != len(topo.MAC{}) || topo.MAC(e.HardwareAddr).IsZero() || len(t.FarEnds) == maxFarEnds {
			continue
		}
		t.FarEnds = append(t.FarEnds, FarEnd{e.LinkIndex, topo.MAC(e.HardwareAddr), to.Unmap()})
	}
	return t, nil
}
