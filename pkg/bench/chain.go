// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Nodes of the chain.
const (
	h1 = iota
	r1
	h2
	nNodes
)

// hook is one of the four places where a packet on its way is seen.
type hook struct {
	name    string
	node    int
	link    int // 0: h1 - r1, 1: r1 - h2
	ingress bool
}

// hooks are in the packet's order; a hook's number is the port's too.
var hooks = []hook{
	{"source egress", h1, 0, false},
	{"transit ingress", r1, 0, true},
	{"transit egress", r1, 1, false},
	{"sink ingress", h2, 1, true},
}

var (
	h1Addr = net.IPv4(10, 77, 1, 1)
	h2Addr = net.IPv4(10, 77, 2, 2)
)

// chain is three namespaces in a row that exist as long as the process does.
type chain struct {
	ns [nNodes]netns.NsHandle
	// device is the ifindex of each hook's interface.
	device [4]int
}

// newChain builds h1 - r1 - h2 with fixed neighbours and without IPv6, so that no
// packet passes but those of the measurement. The namespaces have no name: they
// end with the process, however it ends.
func newChain() (_ *chain, err error) {
	c := &chain{}
	for i := range c.ns {
		c.ns[i] = netns.None()
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	for i := range c.ns {
		if c.ns[i], err = newNamespace(); err != nil {
			return nil, fmt.Errorf("create network namespace (run as root): %w", err)
		}
	}
	if err := c.connect(0, h1, r1, h1Addr, net.IPv4(10, 77, 1, 2)); err != nil {
		return nil, err
	}
	if err := c.connect(1, r1, h2, net.IPv4(10, 77, 2, 1), h2Addr); err != nil {
		return nil, err
	}
	if err := c.route(h1, net.IPv4(10, 77, 1, 2)); err != nil {
		return nil, err
	}
	if err := c.route(h2, net.IPv4(10, 77, 2, 1)); err != nil {
		return nil, err
	}
	return c, c.in(r1, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
	})
}

func (c *chain) close() {
	for i := range c.ns {
		if c.ns[i].IsOpen() {
			c.ns[i].Close()
		}
	}
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

func newNamespace() (netns.NsHandle, error) {
	ns := netns.None()
	err := onThread(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		ns, err = netns.Get()
		if err != nil {
			return err
		}
		// Missing where the kernel has no IPv6.
		err = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0o644)
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return err
	})
	return ns, err
}

// in runs f inside a node, on a thread of its own.
func (c *chain) in(node int, f func() error) error {
	return onThread(func() error {
		if err := netns.Set(c.ns[node]); err != nil {
			return fmt.Errorf("enter namespace: %w", err)
		}
		return f()
	})
}

// connect lays a veth pair between two nodes.
func (c *chain) connect(link, left, right int, leftAddr, rightAddr net.IP) error {
	name, peer := fmt.Sprintf("bench%da", link), fmt.Sprintf("bench%db", link)
	err := c.in(left, func() error {
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: peer,
			PeerNamespace: netlink.NsFd(int(c.ns[right])),
		})
	})
	if err != nil {
		return fmt.Errorf("create veth pair: %w", err)
	}
	var macs [2]net.HardwareAddr
	ends := []struct {
		node int
		name string
		addr net.IP
	}{{left, name, leftAddr}, {right, peer, rightAddr}}
	for i, e := range ends {
		err := c.in(e.node, func() error {
			l, err := netlink.LinkByName(e.name)
			if err != nil {
				return err
			}
			macs[i] = l.Attrs().HardwareAddr
			for no, h := range hooks {
				if h.node == e.node && h.link == link {
					c.device[no] = l.Attrs().Index
				}
			}
			addr := &netlink.Addr{IPNet: &net.IPNet{IP: e.addr, Mask: net.CIDRMask(24, 32)}}
			return errors.Join(netlink.AddrAdd(l, addr), netlink.LinkSetUp(l))
		})
		if err != nil {
			return fmt.Errorf("set up %s: %w", e.name, err)
		}
	}
	for i, e := range ends {
		other := 1 - i
		err := c.in(e.node, func() error {
			l, err := netlink.LinkByName(e.name)
			if err != nil {
				return err
			}
			return netlink.NeighSet(&netlink.Neigh{
				LinkIndex: l.Attrs().Index, IP: ends[other].addr,
				HardwareAddr: macs[other], State: netlink.NUD_PERMANENT,
			})
		})
		if err != nil {
			return fmt.Errorf("set neighbour of %s: %w", e.name, err)
		}
	}
	return nil
}

func (c *chain) route(node int, gateway net.IP) error {
	err := c.in(node, func() error { return netlink.RouteAdd(&netlink.Route{Gw: gateway}) })
	if err != nil {
		return fmt.Errorf("add route: %w", err)
	}
	return nil
}
