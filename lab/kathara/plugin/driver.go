// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/docker/go-plugins-helpers/network"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	bridgePrefix    = "kt-" // bridge of a network: kt-<first 12 of the network's id>
	hostPrefix      = "kh-" // host's end of an endpoint's veth: kh-<first 12 of the endpoint's id>
	containerPrefix = "kc-" // the container's end, until the engine moves and renames it
	idLen           = 12

	// interfacePrefix is what interfaces are called in a container: eth0, eth1, ...
	interfacePrefix = "eth"
	// macOption is the endpoint option in which Kathará passes the MAC address from lab.conf.
	macOption = "kathara.mac_addr"
)

// driver makes one Linux bridge for each network and one veth pair for each
// endpoint. It remembers nothing: names are made from the engine's ids, so that
// a plugin that was restarted goes on where the last one stopped. It is safe for
// concurrent use.
type driver struct {
	nl *netlink.Handle
}

// GetCapabilities says that networks exist on this host only.
func (d *driver) GetCapabilities() (*network.CapabilitiesResponse, error) {
	return &network.CapabilitiesResponse{Scope: network.LocalScope, ConnectivityScope: network.LocalScope}, nil
}

// CreateNetwork makes the network's bridge. The host takes no part in the
// network: its bridge device has no address, answers no ARP and says nothing in
// IPv6. A bridge that is there already (the engine died before it noted the
// network) is used again.
func (d *driver) CreateNetwork(r *network.CreateNetworkRequest) error {
	name, err := linkName(bridgePrefix, r.NetworkID)
	if err != nil {
		return err
	}
	snooping := false // nobody asks for memberships here: multicast goes to everyone
	bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs(), MulticastSnooping: &snooping}
	bridge.Name = name
	if err := d.nl.LinkAdd(bridge); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make bridge %s: %w", name, err)
	}
	if err := d.upBridge(name); err != nil {
		return errors.Join(err, d.remove(name))
	}
	return nil
}

func (d *driver) upBridge(name string) error {
	bridge, err := d.nl.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", name, err)
	}
	if err := d.nl.LinkSetARPOff(bridge); err != nil {
		return fmt.Errorf("switch ARP off on %s: %w", name, err)
	}
	return d.upSilent(bridge)
}

// upSilent sets an interface up without an IPv6 address, so that it sends nothing
// of its own.
func (d *driver) upSilent(link netlink.Link) error {
	name := link.Attrs().Name
	err := d.nl.LinkSetIP6AddrGenMode(link, nl.IN6_ADDR_GEN_MODE_NONE)
	if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) { // a kernel without IPv6
		return fmt.Errorf("switch IPv6 addresses off on %s: %w", name, err)
	}
	if err := d.nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

// DeleteNetwork removes the network's bridge and the veths that still hang on it.
// Removing what is gone is no error.
func (d *driver) DeleteNetwork(r *network.DeleteNetworkRequest) error {
	name, err := linkName(bridgePrefix, r.NetworkID)
	if err != nil {
		return err
	}
	bridge, err := d.nl.LinkByName(name)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", name, err)
	}
	links, err := d.nl.LinkList()
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	for _, l := range links {
		a := l.Attrs()
		if a.MasterIndex == bridge.Attrs().Index && strings.HasPrefix(a.Name, hostPrefix) {
			err = errors.Join(err, d.remove(a.Name))
		}
	}
	return errors.Join(err, d.remove(name))
}

// CreateEndpoint makes a veth pair and puts its host end into the network's
// bridge. The container's end gets the MAC address that the engine or Kathará
// wants, else the kernel's choice.
func (d *driver) CreateEndpoint(r *network.CreateEndpointRequest) (*network.CreateEndpointResponse, error) {
	bridgeName, err := linkName(bridgePrefix, r.NetworkID)
	if err != nil {
		return nil, err
	}
	hostName, err := linkName(hostPrefix, r.EndpointID)
	if err != nil {
		return nil, err
	}
	mac, given, err := wantedMAC(r)
	if err != nil {
		return nil, err
	}
	bridge, err := d.nl.LinkByName(bridgeName)
	if err != nil {
		return nil, fmt.Errorf("find bridge %s of the network: %w", bridgeName, err)
	}
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerHardwareAddr: mac}
	veth.Name, veth.MasterIndex = hostName, bridge.Attrs().Index
	veth.PeerName, _ = linkName(containerPrefix, r.EndpointID)
	if err := d.nl.LinkAdd(veth); err != nil {
		return nil, fmt.Errorf("make veth %s: %w", hostName, err)
	}
	end, err := d.upEndpoint(veth)
	if err != nil {
		return nil, errors.Join(err, d.remove(hostName))
	}
	res := &network.CreateEndpointResponse{Interface: &network.EndpointInterface{}}
	if !given { // the engine refuses to be told what it said itself
		res.Interface.MacAddress = end.Attrs().HardwareAddr.String()
	}
	return res, nil
}

// upEndpoint sets the host's end up and returns the container's.
func (d *driver) upEndpoint(veth *netlink.Veth) (netlink.Link, error) {
	host, err := d.nl.LinkByName(veth.Name)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", veth.Name, err)
	}
	if err := d.upSilent(host); err != nil {
		return nil, err
	}
	end, err := d.nl.LinkByName(veth.PeerName)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", veth.PeerName, err)
	}
	return end, nil
}

// DeleteEndpoint removes the endpoint's veth pair. It may be gone already, with
// the namespace of its container.
func (d *driver) DeleteEndpoint(r *network.DeleteEndpointRequest) error {
	name, err := linkName(hostPrefix, r.EndpointID)
	if err != nil {
		return err
	}
	return d.remove(name)
}

// Join names the interface that the engine moves into the container.
func (d *driver) Join(r *network.JoinRequest) (*network.JoinResponse, error) {
	name, err := linkName(containerPrefix, r.EndpointID)
	if err != nil {
		return nil, err
	}
	if _, err := d.nl.LinkByName(name); err != nil {
		return nil, fmt.Errorf("find %s of the endpoint: %w", name, err)
	}
	return &network.JoinResponse{
		InterfaceName:         network.InterfaceName{SrcName: name, DstPrefix: interfacePrefix},
		DisableGatewayService: true, // else the engine adds an interface toward the host
	}, nil
}

// EndpointInfo has nothing to say.
func (d *driver) EndpointInfo(*network.InfoRequest) (*network.InfoResponse, error) {
	return &network.InfoResponse{Value: map[string]string{}}, nil
}

// Leave does nothing: the engine has moved the interface back, and
// DeleteEndpoint follows.
func (d *driver) Leave(*network.LeaveRequest) error { return nil }

// The rest of the API is for drivers that span hosts or publish ports.

func (d *driver) AllocateNetwork(*network.AllocateNetworkRequest) (*network.AllocateNetworkResponse, error) {
	return &network.AllocateNetworkResponse{}, nil
}
func (d *driver) FreeNetwork(*network.FreeNetworkRequest) error       { return nil }
func (d *driver) DiscoverNew(*network.DiscoveryNotification) error    { return nil }
func (d *driver) DiscoverDelete(*network.DiscoveryNotification) error { return nil }
func (d *driver) ProgramExternalConnectivity(*network.ProgramExternalConnectivityRequest) error {
	return nil
}
func (d *driver) RevokeExternalConnectivity(*network.RevokeExternalConnectivityRequest) error {
	return nil
}

// remove deletes an interface; one that is gone is no error.
func (d *driver) remove(name string) error {
	link, err := d.nl.LinkByName(name)
	if err == nil {
		err = d.nl.LinkDel(link)
	}
	if err != nil && !isNotFound(err) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

func isNotFound(err error) bool {
	_, ok := errors.AsType[netlink.LinkNotFoundError](err)
	return ok
}

// linkName makes the name of an interface from the engine's id of what it serves.
func linkName(prefix, id string) (string, error) {
	if len(id) < idLen {
		return "", fmt.Errorf("id %q is shorter than %d characters", id, idLen)
	}
	return prefix + id[:idLen], nil
}

// wantedMAC is the address that the container's end must get, nil for none. given
// is true if it is the engine's own wish.
func wantedMAC(r *network.CreateEndpointRequest) (mac net.HardwareAddr, given bool, err error) {
	var text string
	if r.Interface != nil {
		text = r.Interface.MacAddress
	}
	given = text != ""
	if !given {
		text, _ = r.Options[macOption].(string)
	}
	if text == "" {
		return nil, false, nil
	}
	mac, err = net.ParseMAC(text)
	if err != nil {
		return nil, false, fmt.Errorf("read MAC address: %w", err)
	}
	if len(mac) != 6 || mac[0]&1 != 0 {
		return nil, false, fmt.Errorf("read MAC address: %s is no address of a single Ethernet interface", text)
	}
	return mac, given, nil
}
