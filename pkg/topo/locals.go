// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
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
	sock, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, false, fmt.Errorf("open netlink socket: %w", err)
	}
	defer sock.Close()
	// Let the kernel filter: a router's table can hold a million routes. Kernels
	// before 4.20 do not know the option and send all; the loop below filters too.
	_ = unix.SetsockoptInt(sock.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	seen := make(map[netip.Prefix]bool)
	for _, r := range localRoutes {
		routes, err := dumpLocalsSafely(sock, r.family, r.kind)
		if err != nil {
			return nil, false, fmt.Errorf("list local addresses: %w", err)
		}
		for _, route := range routes {
			switch {
			case seen[route]:
			case route.IsSingleIP():
				addrs = append(addrs, route.Addr())
			case !route.Addr().IsLoopback():
				wide = true
			}
			seen[route] = true
		}
	}
	return addrs, wide, nil
}

func dumpLocalsSafely(sock *nl.NetlinkSocket, family, kind uint8) ([]netip.Prefix, error) {
	for try := 1; ; try++ {
		routes, err := dumpLocals(sock, family, kind)
		if !errors.Is(err, netlink.ErrDumpInterrupted) || try == dumpTries {
			return routes, err
		}
	}
}

// dumpLocals may return a route twice.
func dumpLocals(sock *nl.NetlinkSocket, family, kind uint8) ([]netip.Prefix, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: sock}}
	rt := &nl.RtMsg{}
	rt.Family = family
	rt.Type = kind
	req.AddData(rt)
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
	if err != nil {
		return nil, err
	}
	var routes []netip.Prefix
	for _, m := range msgs {
		if route, ok := destination(m, kind); ok {
			routes = append(routes, route)
		}
	}
	return routes, nil
}

// destination returns where a route of that kind leads to.
func destination(m []byte, kind uint8) (netip.Prefix, bool) {
	if len(m) < unix.SizeofRtMsg {
		return netip.Prefix{}, false
	}
	rt := nl.DeserializeRtMsg(m)
	if rt.Type != kind {
		return netip.Prefix{}, false
	}
	attrs, err := nl.ParseRouteAttr(m[rt.Len():])
	if err != nil {
		return netip.Prefix{}, false
	}
	dst := netip.IPv6Unspecified() // a default route has no RTA_DST
	if rt.Family == unix.AF_INET {
		dst = netip.IPv4Unspecified()
	}
	for _, a := range attrs {
		if addr, ok := netip.AddrFromSlice(a.Value); ok && a.Attr.Type == unix.RTA_DST {
			dst = addr
		}
	}
	return netip.PrefixFrom(dst, int(rt.Dst_len)), true
}
