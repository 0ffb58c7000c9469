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

// AddressState is why a node does not use an address of its own.
type AddressState string

// The states.
const (
	Tentative AddressState = "tentative" // duplicate address detection goes on
	DADFailed AddressState = "dadfailed" // another host has it
)

// Address is one that a node has and does not use.
type Address struct {
	Port    string
	Address netip.Addr
	State   AddressState
}

// maxUnusable bounds how many of a node's addresses are told.
const maxUnusable = 16

// Unusable are addresses that the node has, and neither sends from nor answers for.
func Unusable(node topo.NodeSpec) (list []Address, err error) {
	handle, err := node.Handle()
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	addrs, err := host.RetryDump(func() ([]netlink.Addr, error) { return handle.AddrList(nil, netlink.FAMILY_V6) })
	if err != nil {
		return nil, fmt.Errorf("node %s: list addresses: %w", node.Name, err)
	}
	for _, a := range addrs {
		state := stateOf(a.Flags)
		ip, ok := netip.AddrFromSlice(a.IP)
		if state == "" || !ok || len(list) >= maxUnusable {
			continue
		}
		link, err := handle.LinkByIndex(a.LinkIndex)
		if err != nil {
			continue // it is gone
		}
		if link.Attrs().RawFlags&unix.IFF_LOWER_UP == 0 { // a port without carrier detects nothing: that it is not up is told
			continue
		}
		list = append(list, Address{link.Attrs().Name, ip, state})
	}
	return list, nil
}

func stateOf(flags int) AddressState {
	switch {
	case flags&unix.IFA_F_DADFAILED != 0:
		return DADFailed
	case flags&unix.IFA_F_TENTATIVE != 0 && flags&unix.IFA_F_OPTIMISTIC == 0:
		return Tentative
	}
	return ""
}
