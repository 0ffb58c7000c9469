// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// localRoutes are the routes to addresses that a namespace delivers to itself. IPv6
// has subnet-router anycast addresses (RFC 4291, 2.6.1), which Linux gives to every
// interface that forwards.
var localRoutes = []struct{ family, kind uint8 }{
	{unix.AF_INET, unix.RTN_LOCAL}, {unix.AF_INET6, unix.RTN_LOCAL}, {unix.AF_INET6, unix.RTN_ANYCAST},
}

// localAddrs returns the addresses that the namespace delivers to itself: the host
// routes of type local or anycast, of every table (a VRF has its own). Wider local
// routes are no addresses; wide says whether there are others than 127.0.0.0/8, such as
// a TPROXY's 0.0.0.0/0. Link-local addresses have no zone. An IPv6 address is there once
// its duplicates were looked for.
func localAddrs(ns netns.NsHandle) (addrs []netip.Addr, wide bool, err error) {
	sock, err := openRoutes(ns)
	if err != nil {
		return nil, false, err
	}
	defer sock.Close()
	seen := make(map[netip.Prefix]bool)
	for _, r := range localRoutes {
		routes, err := dumpRoutes(sock, r.family, r.kind)
		if err != nil {
			return nil, false, fmt.Errorf("list local addresses: %w", err)
		}
		for _, r := range routes {
			switch {
			case seen[r.dst]:
			case r.dst.IsSingleIP():
				addrs = append(addrs, r.dst.Addr())
			case !r.dst.Addr().IsLoopback():
				wide = true
			}
			seen[r.dst] = true
		}
	}
	return addrs, wide, nil
}

// HasWideRoutes says whether the node has a route of type local to more than one address; not if its
// namespace is gone.
func (s NodeSpec) HasWideRoutes() bool {
	ns, err := s.Open()
	if err != nil {
		return false
	}
	defer ns.Close()
	_, wide, err := localAddrs(ns)
	return err == nil && wide
}

// openRoutes opens a socket for dumpRoutes. The caller closes it.
func openRoutes(ns netns.NsHandle) (*nl.NetlinkSocket, error) {
	sock, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	// Let the kernel filter: a router's table can hold a million routes. Kernels
	// before 4.20 do not know the option and send all; destination filters too.
	_ = unix.SetsockoptInt(sock.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	return sock, nil
}

// route is one of a kind that was asked for.
type route struct {
	dst netip.Prefix
	oif int // number of the interface it leads to, which for local ones owns the address
}

// dumpRoutes lists the routes of one kind in all tables. It may return a route twice.
func dumpRoutes(sock *nl.NetlinkSocket, family, kind uint8) ([]route, error) {
	msgs, err := host.RetryDump(func() ([][]byte, error) { return routeMessages(sock, family, kind) })
	if err != nil {
		return nil, err
	}
	var routes []route
	for _, m := range msgs {
		if r, ok := destination(m, kind); ok {
			routes = append(routes, r)
		}
	}
	return routes, nil
}

// routeMessages returns what the kernel sends of them.
func routeMessages(sock *nl.NetlinkSocket, family, kind uint8) ([][]byte, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: sock}}
	rt := &nl.RtMsg{}
	rt.Family = family
	rt.Type = kind
	req.AddData(rt)
	return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
}

// destination returns where a route of that kind leads to.
func destination(m []byte, kind uint8) (r route, ok bool) {
	if len(m) < unix.SizeofRtMsg {
		return r, false
	}
	rt := nl.DeserializeRtMsg(m)
	if rt.Type != kind {
		return r, false
	}
	attrs, err := nl.ParseRouteAttr(m[rt.Len():])
	if err != nil {
		return r, false
	}
	dst := netip.IPv6Unspecified() // a default route has no RTA_DST
	if rt.Family == unix.AF_INET {
		dst = netip.IPv4Unspecified()
	}
	for _, a := range attrs {
		switch a.Attr.Type {
		case unix.RTA_DST:
			if addr, ok := netip.AddrFromSlice(a.Value); ok {
				dst = addr
			}
		case unix.RTA_OIF:
			if len(a.Value) == 4 {
				r.oif = int(binary.NativeEndian.Uint32(a.Value))
			}
		}
	}
	r.dst = netip.PrefixFrom(dst, int(rt.Dst_len))
	return r, true
}

// HasIPv6 reports whether an interface of the node has an IPv6 address beyond link-local. Unlike Locals it
// counts an address of which duplicates are still looked for. ErrGone: the namespace is gone.
func (s NodeSpec) HasIPv6() (has bool, err error) {
	err = s.Do(func() error {
		b, err := os.ReadFile("/proc/thread-self/net/if_inet6")
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a kernel without IPv6
		}
		has = hasWideScope(string(b))
		return err
	})
	return has, err
}

// hasWideScope reads the kernel's list of IPv6 addresses: address, interface, length, scope, flags, name.
func hasWideScope(list string) bool {
	for line := range strings.Lines(list) {
		const loopback, linkLocal = "10", "20"
		if f := strings.Fields(line); len(f) > 3 && f[3] != loopback && f[3] != linkLocal {
			return true
		}
	}
	return false
}
