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

// FarEnd is an entry in the forwarding table of a tunnel: where it sends frames for a MAC address.
type FarEnd struct {
	Ifindex int // the tunnel's number
	MAC     topo.MAC
	Address netip.Addr
}

// FarEnds are those of all tunnels of a node. What is sent to every far end is none.
func FarEnds(node topo.NodeSpec) (list []FarEnd, err error) {
	handle, err := node.Handle()
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	entries, err := host.RetryDump(func() ([]netlink.Neigh, error) { return handle.NeighList(0, unix.AF_BRIDGE) })
	if err != nil {
		return nil, fmt.Errorf("node %s: list forwarding tables: %w", node.Name, err)
	}
	for _, e := range entries {
		to, ok := netip.AddrFromSlice(e.IP)
		if !ok || len(e.HardwareAddr) != len(topo.MAC{}) || topo.MAC(e.HardwareAddr).IsZero() {
			continue
		}
		list = append(list, FarEnd{e.LinkIndex, topo.MAC(e.HardwareAddr), to.Unmap()})
	}
	return list, nil
}
