// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// network is a set of nodes: network namespaces without a name, which end with the
// process, however it ends.
type network struct {
	nodes []netns.NsHandle
	ipv6  bool
	ports []port
}

// port is one end of a veth pair.
type port struct {
	node   int
	device int // ifindex
	name   string
	mac    net.HardwareAddr
}

// newNetwork makes nodes that forward what is not theirs. Unless ipv6 is set they have no
// IPv6, so that no packet passes but those of the measurement.
func newNetwork(nodes int, ipv6 bool) (_ *network, err error) {
	n := &network{ipv6: ipv6}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	for range nodes {
		ns, err := newNamespace(ipv6)
		if err != nil {
			return nil, fmt.Errorf("create network namespace: %w", err)
		}
		n.nodes = append(n.nodes, ns)
	}
	return n, nil
}

func (n *network) close() {
	for _, ns := range n.nodes {
		ns.Close()
	}
}

// path is where another process can open the namespace of a node.
func (n *network) path(node int) string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(n.nodes[node]))
}

// inum is what the kernel calls the namespace of a node, 0 if it does not say.
func (n *network) inum(node int) uint32 {
	var s unix.Stat_t
	if unix.Fstat(int(n.nodes[node]), &s) != nil {
		return 0
	}
	return uint32(s.Ino)
}

// onThread runs f on a thread that ends with it, whatever f made of the thread.
func onThread(f func() error) error {
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
	err := onThread(func() (err error) {
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

// in runs f inside a node, on a thread of its own.
func (n *network) in(node int, f func() error) error {
	return onThread(func() error {
		if err := netns.Set(n.nodes[node]); err != nil {
			return fmt.Errorf("enter namespace: %w", err)
		}
		return f()
	})
}

// end is where a link is to end, and what address it has there.
type end struct {
	node int
	name string
	addr []netip.Prefix
}

// connect lays a veth pair between two nodes, whose ends know each other's MAC addresses
// for good. It returns the numbers of the two ports.
func (n *network) connect(a, b end) (ports [2]int, err error) {
	err = n.in(a.node, func() error {
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: a.name}, PeerName: b.name,
			PeerNamespace: netlink.NsFd(int(n.nodes[b.node])),
		})
	})
	if err != nil {
		return ports, fmt.Errorf("create veth pair: %w", err)
	}
	ends := [2]end{a, b}
	for i, e := range ends {
		p, err := n.setUp(e)
		if err != nil {
			return ports, fmt.Errorf("set up %s: %w", e.name, err)
		}
		ports[i] = len(n.ports)
		n.ports = append(n.ports, p)
	}
	for i, e := range ends {
		if err := n.meet(ports[i], ends[1-i].addr, n.ports[ports[1-i]].mac); err != nil {
			return ports, fmt.Errorf("set neighbour of %s: %w", e.name, err)
		}
	}
	return ports, nil
}

func (n *network) setUp(e end) (p port, err error) {
	err = n.in(e.node, func() error {
		l, err := netlink.LinkByName(e.name)
		if err != nil {
			return err
		}
		p = port{e.node, l.Attrs().Index, e.name, l.Attrs().HardwareAddr}
		for _, addr := range e.addr {
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
func (n *network) meet(p int, addrs []netip.Prefix, mac net.HardwareAddr) error {
	return n.in(n.ports[p].node, func() error {
		for _, addr := range addrs {
			err := netlink.NeighSet(&netlink.Neigh{
				LinkIndex: n.ports[p].device, IP: addr.Addr().AsSlice(), HardwareAddr: mac, State: netlink.NUD_PERMANENT,
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// route adds a route of a node.
func (n *network) route(node int, to netip.Prefix, gateway netip.Addr) error {
	err := n.in(node, func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: ipNet(to), Gw: gateway.AsSlice()})
	})
	if err != nil {
		return fmt.Errorf("add route to %v: %w", to, err)
	}
	return nil
}

// blackhole makes a node drop what is for these addresses.
func (n *network) blackhole(node int, to netip.Prefix) error {
	err := n.in(node, func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: ipNet(to), Type: unix.RTN_BLACKHOLE})
	})
	if err != nil {
		return fmt.Errorf("add blackhole for %v: %w", to, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
