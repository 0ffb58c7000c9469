// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// wirer makes the links of a lab by netlink, from inside its namespaces: this
// host's own namespace never sees an interface of the lab.
type wirer struct {
	lab   *Lab
	macs  map[Member]net.HardwareAddr
	conns map[string]*nsConn // by name of the namespace
}

// nsConn is an open namespace and a netlink socket in it.
type nsConn struct {
	ns netns.NsHandle
	nl *netlink.Handle
}

func openConn(name string) (*nsConn, error) {
	ns, err := netns.GetFromPath(netnsPath(name))
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", name, err)
	}
	nl, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		ns.Close()
		return nil, fmt.Errorf("open netlink socket in %s: %w", name, err)
	}
	return &nsConn{ns: ns, nl: nl}, nil
}

func (c *nsConn) close() {
	c.nl.Close()
	c.ns.Close()
}

// up brings an interface up.
func (c *nsConn) up(ifname string) error {
	link, err := c.nl.LinkByName(ifname)
	if err != nil {
		return fmt.Errorf("find %s: %w", ifname, err)
	}
	if err := c.nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring up %s: %w", ifname, err)
	}
	return nil
}

// wire makes all links of the lab, all ends up.
func (l *Lab) wire(ctx context.Context, t *Topology) error {
	w := &wirer{lab: l, macs: make(map[Member]net.HardwareAddr), conns: make(map[string]*nsConn)}
	defer func() {
		for _, c := range w.conns {
			c.close()
		}
	}()
	for _, m := range t.Machines {
		for n, itf := range m.Interfaces {
			w.macs[Member{m.Name, ifname(n)}] = itf.MAC
		}
	}
	for _, name := range l.namespaces() {
		c, err := openConn(name)
		if err != nil {
			return err
		}
		w.conns[name] = c
		if err := c.up("lo"); err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	for i, link := range l.Links {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := w.link(i, link); err != nil {
			return fmt.Errorf("make link %s: %w", link.Name, err)
		}
	}
	return nil
}

// end is one end of a veth pair to be.
type end struct {
	netns  string
	ifname string
	mac    net.HardwareAddr
}

func (w *wirer) end(m Member) end {
	return end{netns: w.lab.netnsName(m.Machine), ifname: m.Interface, mac: w.macs[m]}
}

// link makes link number i. Interfaces in the namespace for links are named by
// numbers, since names may have 15 characters only; their alias says the rest.
func (w *wirer) link(i int, link Link) error {
	if link.Kind == Direct {
		return w.veth(w.end(link.Members[0]), w.end(link.Members[1]))
	}
	hidden := w.conns[w.lab.LinksNetNS]
	var bridge *netlink.Bridge
	if link.Kind == Bridged {
		// Snooping off: a collision domain passes multicast to everyone.
		off := false
		bridge = &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs(), MulticastSnooping: &off}
		bridge.Name = fmt.Sprintf("br%d", i)
		if err := hidden.nl.LinkAdd(bridge); err != nil {
			return fmt.Errorf("add bridge: %w", err)
		}
		if err := hidden.nl.LinkSetAlias(bridge, link.Name); err != nil {
			return fmt.Errorf("name bridge: %w", err)
		}
		if err := hidden.up(bridge.Name); err != nil {
			return err
		}
	}
	for k, m := range link.Members {
		port := end{netns: w.lab.LinksNetNS, ifname: fmt.Sprintf("p%d.%d", i, k)}
		if err := w.veth(w.end(m), port); err != nil {
			return err
		}
		if err := w.plug(hidden, port.ifname, m, bridge); err != nil {
			return err
		}
	}
	return nil
}

// plug gives the port toward m its alias, and a bridge if there is one.
func (w *wirer) plug(hidden *nsConn, ifname string, m Member, bridge *netlink.Bridge) error {
	port, err := hidden.nl.LinkByName(ifname)
	if err != nil {
		return fmt.Errorf("find %s: %w", ifname, err)
	}
	if err := hidden.nl.LinkSetAlias(port, m.String()); err != nil {
		return fmt.Errorf("name port: %w", err)
	}
	if bridge == nil {
		return nil
	}
	if err := hidden.nl.LinkSetMaster(port, bridge); err != nil {
		return fmt.Errorf("put %s into bridge: %w", m, err)
	}
	return nil
}

// veth makes a pair with one end in each namespace and brings both up.
func (w *wirer) veth(a, b end) error {
	from, to := w.conns[a.netns], w.conns[b.netns]
	pair := &netlink.Veth{
		LinkAttrs:        netlink.NewLinkAttrs(),
		PeerName:         b.ifname,
		PeerHardwareAddr: b.mac,
		PeerNamespace:    netlink.NsFd(int(to.ns)),
	}
	pair.Name, pair.HardwareAddr = a.ifname, a.mac
	if err := from.nl.LinkAdd(pair); err != nil {
		return fmt.Errorf("add veth pair: %w", err)
	}
	if err := from.up(a.ifname); err != nil {
		return fmt.Errorf("namespace %s: %w", a.netns, err)
	}
	if err := to.up(b.ifname); err != nil {
		return fmt.Errorf("namespace %s: %w", b.netns, err)
	}
	return nil
}
