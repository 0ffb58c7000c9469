// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"net"
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
	Name      string `json:",omitempty"`
	Kind      string `json:",omitempty"` // link kind, as Port has it
	Loopback  bool   `json:",omitempty"`
	State     State
	MTU       int            // bytes
	MAC       MAC            `json:",omitzero"`
	Bridge    int            `json:",omitempty"` // number of the bridge that it is a member of; 0: none
	Addresses []netip.Prefix // of both versions, with the length of their prefix
}

// MAC is an Ethernet address.
type MAC [6]byte

// IsZero reports whether there is none.
func (m MAC) IsZero() bool { return m == MAC{} }

// String writes it as ip does.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// MarshalText implements encoding.TextMarshaler.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *MAC) UnmarshalText(b []byte) error {
	a, err := net.ParseMAC(string(b))
	if err != nil || len(a) != len(m) {
		return fmt.Errorf("%q is no MAC address", b)
	}
	copy(m[:], a)
	return nil
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
	bridges := make(map[int]bool)
	for _, l := range links {
		bridges[l.Attrs().Index] = l.Type() == "bridge"
	}
	for _, l := range links {
		a := l.Attrs()
		i := Interface{Name: a.Name, Kind: l.Type(), Loopback: a.Flags&net.FlagLoopback != 0, State: stateOf(a.RawFlags), MTU: a.MTU}
		if !isL3(l) && len(a.HardwareAddr) == len(i.MAC) {
			copy(i.MAC[:], a.HardwareAddr)
		}
		if bridges[a.MasterIndex] {
			i.Bridge = a.MasterIndex
		}
		list[a.Index] = i
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
