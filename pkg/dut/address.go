// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/fault"
)

// Wish is what the user says of addresses. The zero value leaves all to the ports.
type Wish struct {
	From, To netip.Addr
	ToMAC    net.HardwareAddr
	FromPort uint16 // 0: DefaultFromPort
	ToPort   uint16 // 0: DefaultToPort
	IPv6     bool
}

// Ports of test packets: discard, and the first one that is nobody's.
const (
	DefaultFromPort = 49152
	DefaultToPort   = 9
)

// Addresses of ports that have none, from the networks for benchmarks (RFC 2544, RFC 5180).
var (
	benchmarkFrom4 = netip.MustParseAddr("198.18.0.1")
	benchmarkTo4   = netip.MustParseAddr("198.19.0.1")
	benchmarkFrom6 = netip.MustParseAddr("2001:2:0:1::1")
	benchmarkTo6   = netip.MustParseAddr("2001:2:0:2::1")
)

// neighbourTime is how long a neighbour may take to answer.
const neighbourTime = 3 * time.Second

// Resolve finds the addresses of test packets that go from in to out. What it refuses is
// fault.Usage.
func Resolve(ctx context.Context, in, out *Port, w Wish) (*Addresses, error) {
	ipv6, err := w.version(in, out)
	if err != nil {
		return nil, err
	}
	own, local := in.addr(ipv6)
	from, to := w.From, w.To
	if !from.IsValid() {
		from = own
	}
	if !to.IsValid() {
		to, _ = out.addr(ipv6)
	}
	if !from.IsValid() {
		from = benchmarkFrom4
		if ipv6 {
			from = benchmarkFrom6
		}
	}
	if !to.IsValid() {
		to = benchmarkTo4
		if ipv6 {
			to = benchmarkTo6
		}
	}
	a := &Addresses{FromMAC: in.MAC, ToMAC: w.ToMAC, From: netip.AddrPortFrom(from, DefaultFromPort), To: netip.AddrPortFrom(to, DefaultToPort)}
	if w.FromPort != 0 {
		a.From = netip.AddrPortFrom(from, w.FromPort)
	}
	if w.ToPort != 0 {
		a.To = netip.AddrPortFrom(to, w.ToPort)
	}
	// Without an address the port has no routes, and of a node's own addresses none leads out of it.
	if a.ToMAC == nil && (!local || in.inum == out.inum) {
		a.ToMAC = out.MAC
	}
	if a.ToMAC == nil {
		a.ToMAC, err = in.nextHop(ctx, to)
	}
	return a, err
}

// version settles which IP version test packets have.
func (w *Wish) version(in, out *Port) (ipv6 bool, err error) {
	if w.From.IsValid() && w.To.IsValid() && w.From.Is6() != w.To.Is6() {
		return false, fault.Usage.Errorf("‹from› %v and ‹to› %v are of two IP versions", w.From, w.To)
	}
	for _, a := range []netip.Addr{w.From, w.To} {
		if a.IsValid() && w.IPv6 && a.Is4() {
			return false, fault.Usage.Errorf("%v is an IPv4 address, and ‹ipv6› asks for IPv6", a)
		}
		if a.IsValid() {
			return a.Is6(), nil
		}
	}
	_, in4 := in.addr(false)
	_, out4 := out.addr(false)
	_, in6 := in.addr(true)
	_, out6 := out.addr(true)
	return w.IPv6 || !in4 && !out4 && in6 && out6, nil
}

// nextHop is the MAC address to which the port sends what goes to an address.
func (p *Port) nextHop(ctx context.Context, to netip.Addr) (net.HardwareAddr, error) {
	routes, err := p.handle.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{OifIndex: p.Index})
	if err != nil || len(routes) == 0 {
		return nil, fault.Usage.Errorf("%s has no route to %v (%v): add one, or say where to send by ‹to-mac›", p.Name, to, err)
	}
	hop := routes[0].Gw
	if hop == nil {
		hop = to.AsSlice()
	}
	ctx, cancel := context.WithTimeout(ctx, neighbourTime)
	defer cancel()
	for asked := false; ; asked = true {
		mac, err := p.neighbour(hop)
		if err != nil || mac != nil {
			return mac, err
		}
		if !asked {
			if err := p.do(func() error { return provoke(hop, p.Device) }); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, fault.Usage.Errorf("%s finds no MAC address of %v, which is where its route to %v leads: is the device up? Else say where to send by ‹to-mac›", p.Name, hop, to)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// neighbour is the MAC address of a neighbour; nil if it is not known.
func (p *Port) neighbour(of net.IP) (net.HardwareAddr, error) {
	family := netlink.FAMILY_V6
	if of.To4() != nil {
		family = netlink.FAMILY_V4
	}
	list, err := p.handle.NeighList(p.Index, family)
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, n := range list {
		const known = netlink.NUD_PERMANENT | netlink.NUD_NOARP | netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE
		if n.IP.Equal(of) && n.State&known != 0 && len(n.HardwareAddr) == 6 && !bytes.Equal(n.HardwareAddr, make([]byte, 6)) {
			return n.HardwareAddr, nil
		}
	}
	return nil, nil
}

// provoke lets the kernel ask for a neighbour's MAC address: it sends it an empty datagram, to
// discard.
func provoke(to net.IP, device string) error {
	family, addr := unix.AF_INET6, unix.Sockaddr(nil)
	if four := to.To4(); four != nil {
		family, addr = unix.AF_INET, &unix.SockaddrInet4{Port: DefaultToPort, Addr: [4]byte(four)}
	} else {
		addr = &unix.SockaddrInet6{Port: DefaultToPort, Addr: [16]byte(to.To16())}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.BindToDevice(fd, device); err != nil {
		return err
	}
	_ = unix.Sendto(fd, nil, 0, addr) // whoever waits for the neighbour finds out
	return nil
}
