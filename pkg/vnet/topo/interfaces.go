// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// State is whether an interface can send and receive.
type State string

// The states. An interface without carrier is up itself: its peer is down, or a cable, or a program that has
// a tap open, is missing. The kernel drops what is sent there.
const (
	Up        State = "up"
	Down      State = "down"
	NoCarrier State = "no_carrier"
)

// Interface is what the kernel says of an interface now.
type Interface struct {
	State     State
	MTU       int            // bytes
	Addresses []netip.Prefix // of both versions, with the length of their prefix
}

// Interfaces returns the node's interfaces by their number. It takes the right to enter the namespace.
// ErrGone: the namespace is gone.
func (s NodeSpec) Interfaces() (map[int]Interface, error) {
	handle, links, err := s.Links()
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	addrs, err := host.RetryDump(func() ([]netlink.Addr, error) { return handle.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("node %s: list addresses: %w", s.Name, err)
	}
	list := make(map[int]Interface)
	for _, l := range links {
		a := l.Attrs()
		list[a.Index] = Interface{State: stateOf(a.RawFlags), MTU: a.MTU}
	}
	for _, a := range addrs {
		ip, ok := netip.AddrFromSlice(a.IP)
		if !ok {
			continue
		}
		bits, _ := a.Mask.Size()
		i := list[a.LinkIndex]
		i.Addresses = append(i.Addresses, netip.PrefixFrom(ip.Unmap(), bits))
		list[a.LinkIndex] = i
	}
	return list, nil
}

// stateOf reads the flags of an interface.
func stateOf(flags uint32) State {
	switch {
	case flags&unix.IFF_UP == 0:
		return Down
	case flags&unix.IFF_LOWER_UP == 0:
		return NoCarrier
	}
	return Up
}
