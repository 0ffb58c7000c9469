// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// Addresses returns the addresses, of both versions, of the node's interfaces, with the length of
// their prefix, by interface number. It takes the right to enter the namespace.
// ErrGone: the namespace is gone.
func (s NodeSpec) Addresses() (map[int][]netip.Prefix, error) {
	ns, err := s.Open()
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	handle, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("node %s: open netlink socket: %w", s.Name, err)
	}
	defer handle.Close()
	list, err := host.RetryDump(func() ([]netlink.Addr, error) { return handle.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("node %s: list addresses: %w", s.Name, err)
	}
	addrs := make(map[int][]netip.Prefix)
	for _, a := range list {
		ip, ok := netip.AddrFromSlice(a.IP)
		if !ok {
			continue
		}
		ip = ip.Unmap()
		bits, _ := a.Mask.Size()
		addrs[a.LinkIndex] = append(addrs[a.LinkIndex], netip.PrefixFrom(ip, bits))
	}
	return addrs, nil
}
