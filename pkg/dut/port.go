// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host"
)

// Port is an interface at which a device hangs.
type Port struct {
	Name   string // as the user writes it: NODE/PORT
	Device string
	Index  int
	MTU    int
	MAC    net.HardwareAddr
	Addrs  []netip.Addr // none of them is link-local

	ns     netns.NsHandle
	inum   uint64
	handle *netlink.Handle
}

// OpenPort opens an interface of a namespace, which stays the caller's. It must be one that
// Ethernet frames pass now.
func OpenPort(name string, ns netns.NsHandle, device string) (*Port, error) {
	p := &Port{Name: name, Device: device, ns: netns.None()}
	fd, err := unix.FcntlInt(uintptr(ns), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: open its namespace: %w", name, err)
	}
	p.ns = netns.NsHandle(fd)
	if err := p.open(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Port) open() (err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(p.ns), &st); err != nil {
		return fmt.Errorf("%s: its namespace: %w", p.Name, err)
	}
	p.inum = st.Ino
	if p.handle, err = netlink.NewHandleAt(p.ns, unix.NETLINK_ROUTE); err != nil {
		return fmt.Errorf("%s: netlink: %w", p.Name, err)
	}
	link, err := p.handle.LinkByName(p.Device)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return fault.Usage.Errorf("%s: there is no interface %s; there is: %s", p.Name, p.Device, strings.Join(p.devices(), ", "))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	at := link.Attrs()
	p.Index, p.MTU, p.MAC = at.Index, at.MTU, at.HardwareAddr
	switch {
	case at.EncapType != "ether" || len(p.MAC) != 6:
		return fault.Usage.Errorf("%s is no Ethernet interface (%s): test packets are Ethernet frames", p.Name, at.EncapType)
	case at.Flags&net.FlagUp == 0:
		return fault.Usage.Errorf("%s is down: ip link set %s up, in its namespace", p.Name, p.Device)
	case at.RawFlags&unix.IFF_LOWER_UP == 0:
		return fault.Usage.Errorf("%s has no carrier: the other end of its link is down, or not there", p.Name)
	}
	return p.readAddrs(link)
}

func (p *Port) readAddrs(link netlink.Link) error {
	all, err := host.RetryDump(func() ([]netlink.Addr, error) { return p.handle.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("%s: its addresses: %w", p.Name, err)
	}
	for _, a := range all {
		if ip, ok := netip.AddrFromSlice(a.IP); ok && !ip.IsLinkLocalUnicast() {
			p.Addrs = append(p.Addrs, ip.Unmap())
		}
	}
	return nil
}

// devices are the namespace's interfaces but the loopback.
func (p *Port) devices() (names []string) {
	links, _ := p.handle.LinkList()
	for _, l := range links {
		if l.Attrs().Name != "lo" {
			names = append(names, l.Attrs().Name)
		}
	}
	if names == nil {
		return []string{"none"}
	}
	return names
}

// Close lets go of the namespace.
func (p *Port) Close() {
	if p.handle != nil {
		p.handle.Close()
		p.handle = nil
	}
	if p.ns.IsOpen() {
		p.ns.Close()
	}
}

// do runs f inside the port's namespace.
func (p *Port) do(f func() error) error { return host.InNetns(p.ns, f) }

// is reports whether two ports are the same interface.
func (p *Port) is(other *Port) bool { return p.inum == other.inum && p.Index == other.Index }

// addr is the port's first address of a version.
func (p *Port) addr(ipv6 bool) (netip.Addr, bool) {
	for _, a := range p.Addrs {
		if a.Is6() == ipv6 {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// Counters are what the kernel counts at a port.
type Counters struct {
	Out      uint64 `json:"tx_packets"`
	OutDrops uint64 `json:"tx_dropped"` // by the interface, and by its queueing disciplines
	In       uint64 `json:"rx_packets"`
	InDrops  uint64 `json:"rx_dropped"`
}

// counters reads them. What cannot be read is 0.
func (p *Port) counters() (c Counters) {
	link, err := p.handle.LinkByIndex(p.Index)
	if err != nil || link.Attrs().Statistics == nil {
		return c
	}
	s := link.Attrs().Statistics
	c = Counters{Out: s.TxPackets, OutDrops: s.TxDropped, In: s.RxPackets, InDrops: s.RxDropped}
	qdiscs, _ := host.RetryDump(func() ([]netlink.Qdisc, error) { return p.handle.QdiscList(link) })
	for _, q := range qdiscs {
		// What hangs below another one is counted there, too; clsact counts what dut_end drops.
		if at := q.Attrs(); at.Parent == netlink.HANDLE_ROOT && at.Statistics != nil && at.Statistics.Queue != nil {
			c.OutDrops += uint64(at.Statistics.Queue.Drops)
		}
	}
	return c
}

// since is what was counted since an earlier reading.
func (c Counters) since(was Counters) Counters {
	return Counters{Out: c.Out - was.Out, OutDrops: c.OutDrops - was.OutDrops, In: c.In - was.In, InDrops: c.InDrops - was.InDrops}
}
