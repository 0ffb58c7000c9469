// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
)

// memberships lists the multicast groups that the interfaces of the thread's namespace
// have joined. The kernel tells nobody when that changes (before Linux 6.15).
const memberships = "/proc/thread-self/net/igmp"

// limitedBroadcast is taken by every interface that speaks IPv4.
var limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// Memberships returns what Groups depends on and nobody is told of. It is cheap: ask
// often, and Groups when it has changed. ErrGone: the namespace is gone.
func (s NodeSpec) Memberships() (text string, err error) {
	err = s.Do(func() error {
		b, err := os.ReadFile(memberships)
		text = string(b)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("node %s: read memberships: %w", s.Name, err)
	}
	return text, nil
}

// Groups returns, by interface number, the addresses of groups that the namespace takes
// there for itself: multicast groups of which it is a member, broadcast addresses of the
// subnets there (not of all: a router with many interfaces would have their square). What
// a bridge, bond or VLAN device above an interface takes is taken there.
// ErrGone: the namespace is gone.
func (s NodeSpec) Groups() (map[int][]netip.Addr, error) {
	handle, links, err := s.Links()
	if err != nil {
		return nil, err
	}
	handle.Close()
	ns, err := s.Open()
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	groups, err := groupsAmong(ns, links)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", s.Name, err)
	}
	return groups, nil
}

func groupsAmong(ns netns.NsHandle, links []netlink.Link) (map[int][]netip.Addr, error) {
	broadcasts, err := broadcastAddrs(ns)
	if err != nil {
		return nil, err
	}
	var joined map[string][]netip.Addr
	err = host.InNetns(ns, func() error {
		f, err := os.Open(memberships)
		if err != nil {
			return fmt.Errorf("read memberships: %w", err)
		}
		defer f.Close()
		joined, err = parseMemberships(f)
		return err
	})
	if err != nil {
		return nil, err
	}
	groups := make(map[int][]netip.Addr)
	for _, l := range links {
		addrs := []netip.Addr{limitedBroadcast}
		for _, taker := range takers(l, links, nil) {
			addrs = slices.Concat(addrs, joined[taker.Name], broadcasts[taker.Index])
		}
		groups[l.Attrs().Index] = addrs
	}
	return groups, nil
}

// takers are the interfaces whose IP layer may get what comes in by l: its
// own, unless a bridge or bond takes all, and those of the devices above it.
func takers(l netlink.Link, links []netlink.Link, seen []int) []*netlink.LinkAttrs {
	a := l.Attrs()
	if slices.Contains(seen, a.Index) {
		return nil
	}
	seen = append(seen, a.Index)
	all := []*netlink.LinkAttrs{a}
	for _, upper := range links {
		u := upper.Attrs()
		switch {
		case u.Index == a.MasterIndex && upper.Type() != "vrf":
			all = append(all[1:], takers(upper, links, seen)...)
		case u.ParentIndex == a.Index && u.NetNsID < 0 && upper.Type() == "vlan":
			all = append(all, takers(upper, links, seen)...)
		}
	}
	return all
}

// parseMemberships reads the groups of each interface:
//
//	Idx	Device    : Count Querier	Group    Users Timer	Reporter
//	2	eth0      :     1      V3
//					010000E0     1 0:00000000		0
//
// The group is the address as a number of this CPU's byte order.
func parseMemberships(r io.Reader) (map[string][]netip.Addr, error) {
	groups := make(map[string][]netip.Addr)
	device := ""
	sc := bufio.NewScanner(r)
	for first := true; sc.Scan(); first = false {
		fields := strings.Fields(sc.Text())
		switch {
		case first || len(fields) < 3:
		case sc.Text()[0] != '\t':
			device = strings.TrimSuffix(fields[1], ":")
		default:
			n, err := strconv.ParseUint(fields[0], 16, 32)
			if err != nil {
				return nil, fmt.Errorf("read memberships: line %q", sc.Text())
			}
			var b [4]byte
			binary.NativeEndian.PutUint32(b[:], uint32(n))
			groups[device] = append(groups[device], netip.AddrFrom4(b))
		}
	}
	return groups, sc.Err()
}

// broadcastAddrs returns, by interface number, the broadcast addresses that the namespace
// takes: the kernel keeps them as routes.
func broadcastAddrs(ns netns.NsHandle) (map[int][]netip.Addr, error) {
	sock, err := openRoutes(ns)
	if err != nil {
		return nil, err
	}
	defer sock.Close()
	routes, err := dumpRoutes(sock, unix.AF_INET, unix.RTN_BROADCAST)
	if err != nil {
		return nil, fmt.Errorf("list broadcast addresses: %w", err)
	}
	addrs := make(map[int][]netip.Addr)
	for _, r := range routes {
		if addr := r.dst.Addr(); r.dst.IsSingleIP() && !slices.Contains(addrs[r.oif], addr) {
			addrs[r.oif] = append(addrs[r.oif], addr)
		}
	}
	return addrs, nil
}
