// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// TCPSocket is what the kernel says of a socket of TCP: TCP_INFO.
type TCPSocket struct {
	At time.Time
	netlink.TCPInfo
}

// Ends are the addresses of a connection as its socket has them.
type Ends struct{ Local, Remote netip.AddrPort }

// TCPSocketOf looks for a socket of a node whose ends are one of these; nil: there is none, or the node cannot be entered.
func TCPSocketOf(d *domain.Domain, node string, any []Ends) *TCPSocket {
	i := slices.IndexFunc(d.Nodes, func(n domain.Node) bool { return n.Name == node && !n.Removed })
	if i < 0 || len(any) == 0 {
		return nil
	}
	ns, err := host.SameNetns(d.Nodes[i].Path, d.Nodes[i].Inum)
	if err != nil {
		return nil
	}
	defer ns.Close()
	var found *TCPSocket
	_ = host.InNetns(ns, func() error { // a node that cannot be asked has none
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} { // an IPv6 socket may speak IPv4
			list, err := netlink.SocketDiagTCPInfo(family)
			if err != nil {
				return err
			}
			for _, one := range list {
				if s := one.InetDiagMsg; s != nil && one.TCPInfo != nil && slices.Contains(any, endsOf(&s.ID)) {
					found = &TCPSocket{At: time.Now(), TCPInfo: *one.TCPInfo}
					return nil
				}
			}
		}
		return nil
	})
	return found
}

func endsOf(id *netlink.SocketID) Ends {
	local, _ := netip.AddrFromSlice(id.Source)
	remote, _ := netip.AddrFromSlice(id.Destination)
	return Ends{netip.AddrPortFrom(local.Unmap(), id.SourcePort), netip.AddrPortFrom(remote.Unmap(), id.DestinationPort)}
}
