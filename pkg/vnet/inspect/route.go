// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// RouteKind is what a node does with packets to an address.
type RouteKind string

// The kinds.
const (
	Unicast     RouteKind = "unicast"
	Local       RouteKind = "local"
	None        RouteKind = "none" // there is no route
	Unreachable RouteKind = "unreachable"
	Prohibit    RouteKind = "prohibit"
	Blackhole   RouteKind = "blackhole"
	// ReversePath: the port may not receive packets from that source (rp_filter), or nobody may send from there.
	ReversePath RouteKind = "reverse_path"
)

// Forbids reports whether a route is there that says not to send.
func (k RouteKind) Forbids() bool { return k == Unreachable || k == Prohibit || k == Blackhole }

// Route is how a node sends packets to an address.
type Route struct {
	Kind    RouteKind
	Port    string // by which they leave; "": they do not
	Ifindex int
	Gateway netip.Addr // invalid: the address itself is the next hop
	MTU     int        // bytes, of the port or of the route, the smaller one
}

// NextHop is whose MAC address packets to dst have.
func (r *Route) NextHop(dst netip.Addr) netip.Addr {
	if r.Gateway.IsValid() {
		return r.Gateway
	}
	return dst
}

// RouteTo is how the node sends packets to dst. With src, an address of the node, it is how it sends them from there.
func RouteTo(node topo.NodeSpec, dst, src netip.Addr) (Route, error) {
	options := &netlink.RouteGetOptions{}
	if src.IsValid() {
		options.SrcAddr = src.AsSlice()
	}
	r, err := lookUp(node, dst, options)
	if src.IsValid() && errors.Is(err, unix.EINVAL) { // a blackhole, or the node does not have the source
		return lookUp(node, dst, &netlink.RouteGetOptions{})
	}
	return r, err
}

// RouteFrom is what the node does with packets from src to dst that come in by the port with that number.
func RouteFrom(node topo.NodeSpec, dst, src netip.Addr, ifindex int) (Route, error) {
	return lookUp(node, dst, &netlink.RouteGetOptions{SrcAddr: src.AsSlice(), IifIndex: ifindex})
}

// HasDefault reports whether the node has a default route of the family of dst. It looks up an address that nobody has:
// what is for documentation (RFC 5737, RFC 3849).
func HasDefault(node topo.NodeSpec, dst netip.Addr) (bool, error) {
	nobody := netip.AddrFrom4([4]byte{203, 0, 113, 77})
	if dst.Is6() {
		nobody = netip.MustParseAddr("2001:db8:ffff:7777::77")
	}
	r, err := RouteTo(node, nobody, netip.Addr{})
	return err == nil && r.Kind != None, err
}

// lookUp asks as "ip route get" does.
func lookUp(node topo.NodeSpec, dst netip.Addr, options *netlink.RouteGetOptions) (r Route, err error) {
	handle, err := node.Handle()
	if err != nil {
		return r, err
	}
	defer handle.Close()
	routes, err := handle.RouteGetWithOptions(net.IP(dst.AsSlice()), options)
	if err != nil {
		if kind, is := kindOf(err, options); is {
			return Route{Kind: kind}, nil
		}
		return r, fmt.Errorf("node %s: look up the route to %s: %w", node.Name, dst, err)
	}
	if len(routes) == 0 {
		return Route{Kind: None}, nil
	}
	return routeOf(handle, &routes[0]), nil
}

// kindOf reads the error of a look-up.
func kindOf(err error, options *netlink.RouteGetOptions) (RouteKind, bool) {
	switch {
	case errors.Is(err, unix.ENETUNREACH):
		return None, true
	case errors.Is(err, unix.EHOSTUNREACH):
		return Unreachable, true
	case errors.Is(err, unix.EACCES):
		return Prohibit, true
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EINVAL) && options.IifIndex > 0: // newer kernels give every refusal one error
		return ReversePath, true
	case errors.Is(err, unix.EINVAL) && options.SrcAddr == nil:
		return Blackhole, true
	}
	return "", false
}

func routeOf(handle *netlink.Handle, route *netlink.Route) Route {
	r := Route{Kind: Unicast, Ifindex: route.LinkIndex, MTU: route.MTU}
	switch route.Type {
	case unix.RTN_LOCAL:
		r.Kind = Local
	case unix.RTN_BLACKHOLE:
		return Route{Kind: Blackhole}
	case unix.RTN_UNREACHABLE:
		return Route{Kind: Unreachable}
	case unix.RTN_PROHIBIT:
		return Route{Kind: Prohibit}
	}
	if gw, ok := netip.AddrFromSlice(route.Gw); ok {
		r.Gateway = gw.Unmap()
	}
	if via, ok := route.Via.(*netlink.Via); ok {
		if gw, ok := netip.AddrFromSlice(via.Addr); ok {
			r.Gateway = gw.Unmap()
		}
	}
	if link, err := handle.LinkByIndex(route.LinkIndex); err == nil {
		r.Port = link.Attrs().Name
		if mtu := link.Attrs().MTU; r.MTU == 0 || mtu < r.MTU {
			r.MTU = mtu
		}
	}
	return r
}
