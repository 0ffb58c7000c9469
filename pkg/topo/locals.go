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

// localAddrs returns the IPv4 addresses that the namespace delivers to itself:
// the host routes of type local, of every table (a VRF has its own). Wider local
// routes, such as 127.0.0.0/8 or a TPROXY's 0.0.0.0/0, are no addresses.
func localAddrs(ns netns.NsHandle) ([]netip.Addr, error) {
	sock, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	defer sock.Close()
	// Let the kernel filter: a router's table can hold a million routes. Kernels
	// before 4.20 do not know the option and send all; the loop below filters too.
	_ = unix.SetsockoptInt(sock.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	for try := 1; ; try++ {
		addrs, err := dumpLocals(sock)
		if err == nil {
			return addrs, nil
		}
		if !errors.Is(err, netlink.ErrDumpInterrupted) || try == dumpTries {
			return nil, fmt.Errorf("list local addresses: %w", err)
		}
	}
}

func dumpLocals(sock *nl.NetlinkSocket) ([]netip.Addr, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: sock}}
	rt := &nl.RtMsg{}
	rt.Family = unix.AF_INET
	rt.Type = unix.RTN_LOCAL
	req.AddData(rt)
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	seen := make(map[netip.Addr]bool)
	for _, m := range msgs {
		if addr, ok := hostRoute(m); ok && !seen[addr] {
			seen[addr] = true
			addrs = append(addrs, addr)
		}
	}
	return addrs, nil
}

// hostRoute returns the address of a local route to one address.
func hostRoute(m []byte) (netip.Addr, bool) {
	if len(m) < unix.SizeofRtMsg {
		return netip.Addr{}, false
	}
	rt := nl.DeserializeRtMsg(m)
	if rt.Type != unix.RTN_LOCAL || rt.Dst_len != 32 {
		return netip.Addr{}, false
	}
	attrs, err := nl.ParseRouteAttr(m[rt.Len():])
	if err != nil {
		return netip.Addr{}, false
	}
	for _, a := range attrs {
		if a.Attr.Type == unix.RTA_DST {
			return netip.AddrFromSlice(a.Value)
		}
	}
	return netip.Addr{}, false
}
