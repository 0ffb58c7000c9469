// SPDX-License-Identifier: Apache-2.0

// Package network makes networks to measure on: nodes, links between them, and routes between all ends of a line. They end
// with the process.
package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Network is a set of nodes: network namespaces without a name, which end with the
// process, however it ends.
type Network struct {
	Nodes []netns.NsHandle
	IPv6  bool
	Ports []Port
}

// Port is one end of a veth pair.
type Port struct {
	Node   int
	Device int // ifindex
	Name   string
	MAC    net.HardwareAddr
}

// New makes nodes that forward what is not theirs. Unless ipv6 is set they have no
// IPv6, so that no packet passes but those of the measurement.
func New(nodes int, ipv6 bool) (_ *Network, err error) {
	n := &Network{IPv6: ipv6}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	for range nodes {
		ns, err := newNamespace(ipv6)
		if err != nil {
			return nil, fmt.Errorf("create network namespace: %w", err)
		}
		n.Nodes = append(n.Nodes, ns)
	}
	return n, nil
}

func (n *Network) Close() {
	for _, ns := range n.Nodes {
		ns.Close()
	}
}

// Path is where another process can open the namespace of a node.
func (n *Network) Path(node int) string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(n.Nodes[node]))
}

// Inum is what the kernel calls the namespace of a node, 0 if it does not say.
func (n *Network) Inum(node int) uint32 {
	var s unix.Stat_t
	if unix.Fstat(int(n.Nodes[node]), &s) != nil {
		return 0
	}
	return uint32(s.Ino)
}

// OnThread runs f on a thread that ends with it, whatever f made of the thread.
func OnThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// sysctls of every node. A second address of a flow's source is no spoofing here.
func sysctls(ipv6 bool) map[string]string {
	s := map[string]string{
		"ipv4/ip_forward":                "1",
		"ipv4/conf/all/rp_filter":        "0",
		"ipv4/conf/default/rp_filter":    "0",
		"ipv4/ping_group_range":          "0 2147483647",
		"ipv6/conf/default/disable_ipv6": "1",
	}
	if ipv6 {
		delete(s, "ipv6/conf/default/disable_ipv6")
		s["ipv6/conf/all/forwarding"] = "1"
		s["ipv6/conf/default/accept_dad"] = "0"
	}
	return s
}

func newNamespace(ipv6 bool) (netns.NsHandle, error) {
	ns := netns.None()
	err := OnThread(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		if ns, err = netns.Get(); err != nil {
			return err
		}
		for name, value := range sysctls(ipv6) {
			err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0o644)
			// Missing where the kernel has no IPv6.
			if err != nil && (ipv6 || !errors.Is(err, fs.ErrNotExist)) {
				return err
			}
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	if err != nil && ns.IsOpen() {
		ns.Close()
	}
	return ns, err
}

// In runs f inside a node, on a thread of its own.
func (n *Network) In(node int, f func() error) error {
	return OnThread(func() error {
		if err := netns.Set(n.Nodes[node]); err != nil {
			return fmt.Errorf("enter namespace: %w", err)
		}
		return f()
	})
}

// End is where a link is to end, and what address it has there.
type End struct {
	Node int
	Name string
	Addr []netip.Prefix
}

// Connect lays a veth pair between two nodes, whose ends know each other's MAC addresses
// for good. It returns the numbers of the two ports.
func (n *Network) Connect(a, b End) (ports [2]int, err error) {
	err = n.In(a.Node, func() error {
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: a.Name}, PeerName: b.Name,
			PeerNamespace: netlink.NsFd(int(n.Nodes[b.Node])),
		})
	})
	if err != nil {
		return ports, fmt.Errorf("create veth pair: %w", err)
	}
	ends := [2]End{a, b}
	for i, e := range ends {
		p, err := n.setUp(e)
		if err != nil {
			return ports, fmt.Errorf("set up %s: %w", e.Name, err)
		}
		ports[i] = len(n.Ports)
		n.Ports = append(n.Ports, p)
	}
	for i, e := range ends {
		if err := n.meet(ports[i], ends[1-i].Addr, n.Ports[ports[1-i]].MAC); err != nil {
			return ports, fmt.Errorf("set neighbour of %s: %w", e.Name, err)
		}
	}
	return ports, nil
}

func (n *Network) setUp(e End) (p Port, err error) {
	err = n.In(e.Node, func() error {
		l, err := netlink.LinkByName(e.Name)
		if err != nil {
			return err
		}
		p = Port{e.Node, l.Attrs().Index, e.Name, l.Attrs().HardwareAddr}
		for _, addr := range e.Addr {
			a := &netlink.Addr{IPNet: ipNet(addr)}
			if addr.Addr().Is6() {
				a.Flags = unix.IFA_F_NODAD
			}
			if err := netlink.AddrAdd(l, a); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(l)
	})
	return p, err
}

// meet tells a port where these addresses are.
func (n *Network) meet(p int, addrs []netip.Prefix, mac net.HardwareAddr) error {
	return n.In(n.Ports[p].Node, func() error {
		for _, addr := range addrs {
			err := netlink.NeighSet(&netlink.Neigh{
				LinkIndex: n.Ports[p].Device, IP: addr.Addr().AsSlice(), HardwareAddr: mac, State: netlink.NUD_PERMANENT,
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Route adds a route of a node.
func (n *Network) Route(node int, to netip.Prefix, gateway netip.Addr) error {
	err := n.In(node, func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: ipNet(to), Gw: gateway.AsSlice()})
	})
	if err != nil {
		return fmt.Errorf("add route to %v: %w", to, err)
	}
	return nil
}

// Blackhole makes a node drop what is for these addresses.
func (n *Network) Blackhole(node int, to netip.Prefix) error {
	err := n.In(node, func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: ipNet(to), Type: unix.RTN_BLACKHOLE})
	})
	if err != nil {
		return fmt.Errorf("add blackhole for %v: %w", to, err)
	}
	return nil
}

// Start starts a command in a node. It ends when ctx does.
func (n *Network) Start(node int, cmd *exec.Cmd) error {
	return n.In(node, cmd.Start)
}

// SetMTU sets that of all ports but the first node's, whose packets go on being as long as they were.
func (n *Network) SetMTU(mtu int) error {
	for _, p := range n.Ports {
		if p.Node == 0 {
			continue
		}
		err := n.In(p.Node, func() error {
			l, err := netlink.LinkByIndex(p.Device)
			if err != nil {
				return err
			}
			return netlink.LinkSetMTU(l, mtu)
		})
		if err != nil {
			return fmt.Errorf("set the MTU of %s: %w", p.Name, err)
		}
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
