// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host/kernel"
)

// tunnel is a port whose packets travel inside others.
type tunnel struct {
	ref           PortRef
	kind          string
	id            uint32 // of what this end sends: VNI, or GRE's key
	wantID        uint32 // of what it takes
	port          uint16 // UDP, where the kind has one
	local, remote netip.Addr
	lower         int          // number of the interface that it is bound to, 0: none
	elsewhere     bool         // its packets travel in the namespace that it was made in
	outer         []netip.Addr // where its packets can go; none: not known
	inherits      bool         // the outer header takes TTL or TOS from the inner one
	flowBased     bool         // each route, or program, says where to
	bare          bool         // its packets lack an Ethernet header
	why           string       // it is no link inside the domain; "": it is
	ends          []int        // the tunnels at its far ends
}

// newTunnel reads what the kernel says about a link, nil if it is no tunnel that
// radar knows. inherits says whether the message had an attribute for that.
func newTunnel(l netlink.Link, inherits bool) *tunnel {
	a := l.Attrs()
	t := &tunnel{kind: l.Type(), lower: a.ParentIndex, elsewhere: a.NetNsID >= 0, bare: isL3(l)}
	if t.lower == a.Index { // how the kernel says that there is none
		t.lower = 0
	}
	addrs := func(local, remote net.IP) { t.local, t.remote = toAddr(local), toAddr(remote) }
	// RFC 2003 and Linux: 0 stands for the inner TTL, bit 0 of TOS for the inner TOS.
	inherit := func(ttl, tos uint8) { t.inherits = inherits || ttl == 0 || tos&1 != 0 }
	switch v := l.(type) {
	case *netlink.Vxlan:
		addrs(v.SrcAddr, v.Group)
		t.id, t.wantID, t.port, t.flowBased = uint32(v.VxlanId), uint32(v.VxlanId), uint16(v.Port), v.FlowBased
		t.inherits, t.lower = inherits || v.TOS&1 != 0, v.VtepDevIndex
	case *netlink.Geneve:
		addrs(nil, v.Remote)
		t.id, t.wantID, t.port, t.flowBased = v.ID, v.ID, v.Dport, v.FlowBased
		t.inherits = inherits || v.Tos&1 != 0
	case *netlink.Gretun:
		addrs(v.Local, v.Remote)
		t.id, t.wantID, t.flowBased = v.OKey, v.IKey, v.FlowBased
		inherit(v.Ttl, v.Tos)
	case *netlink.Gretap:
		addrs(v.Local, v.Remote)
		t.id, t.wantID, t.flowBased = v.OKey, v.IKey, v.FlowBased
		inherit(v.Ttl, v.Tos)
	case *netlink.Iptun:
		addrs(v.Local, v.Remote)
		t.flowBased = v.FlowBased
		inherit(v.Ttl, v.Tos)
	case *netlink.Sittun:
		addrs(v.Local, v.Remote)
		inherit(v.Ttl, v.Tos)
	case *netlink.Ip6tnl:
		addrs(v.Local, v.Remote)
		t.inherits = v.Ttl == 0 || v.Flags&useOrig != 0
		t.flowBased = v.FlowBased
	default:
		return nil
	}
	return t
}

// fallbacks are the tunnels that a namespace has once their modules are loaded, for
// whatever no other tunnel takes.
var fallbacks = []string{"tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip6tnl0", "ip6gre0", "ip_vti0", "ip6_vti0"}

// IsFallback says whether an interface of that name is one of them.
func IsFallback(name string) bool { return slices.Contains(fallbacks, name) }

func toAddr(ip net.IP) netip.Addr {
	a, ok := netip.AddrFromSlice(ip)
	if a = a.Unmap(); !ok || a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// useOrig are IP6_TNL_F_USE_ORIG_TCLASS and _FLOWLABEL of linux/ip6_tunnel.h.
const useOrig = 0x2 | 0x4

// inheritAttrs are attributes that pkg netlink does not know: IFLA_VXLAN_TTL_INHERIT,
// IFLA_GENEVE_TTL_INHERIT, and IFLA_GRE_FLAGS, which GRE over IPv4 does not have (there
// bit 0 of TOS says it).
var inheritAttrs = map[string]uint16{"vxlan": 28, "geneve": 12, "ip6gre": 13, "ip6gretap": 13}

// inheritsOuter reads out of a message about an interface whether a tunnel's outer header
// takes over the inner TTL, traffic class or flow label.
func inheritsOuter(m []byte) bool {
	attrs, err := nl.ParseRouteAttr(m[unix.SizeofIfInfomsg:])
	if err != nil {
		return false
	}
	info, err := nl.ParseRouteAttr(attrNamed(attrs, unix.IFLA_LINKINFO))
	if err != nil {
		return false
	}
	kind := unix.ByteSliceToString(attrNamed(info, nl.IFLA_INFO_KIND))
	data, err := nl.ParseRouteAttr(attrNamed(info, nl.IFLA_INFO_DATA))
	want, ok := inheritAttrs[kind]
	if err != nil || !ok {
		return false
	}
	i := slices.IndexFunc(data, func(a syscall.NetlinkRouteAttr) bool { return attrType(a) == want })
	switch {
	case i < 0:
		return false
	case len(data[i].Value) == 4: // flags
		return binary.NativeEndian.Uint32(data[i].Value)&useOrig != 0
	}
	return len(data[i].Value) == 0 || data[i].Value[0] != 0
}

func attrType(a syscall.NetlinkRouteAttr) uint16 {
	return a.Attr.Type &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
}

// attrNamed returns what an attribute holds, nothing if there is none.
func attrNamed(attrs []syscall.NetlinkRouteAttr, name uint16) []byte {
	for _, a := range attrs {
		if attrType(a) == name {
			return a.Value
		}
	}
	return nil
}

// joinTunnels makes links of the tunnels whose every far end is an attached tunnel, and
// whose packets stay inside the domain on their way there. All others are edges.
func (t *Topology) joinTunnels(probes []probe) {
	var all []*tunnel
	for i := range probes {
		for j := range probes[i].wires {
			if tun := probes[i].wires[j].tunnel; tun != nil {
				tun.ref = PortRef{i, j}
				all = append(all, tun)
			}
		}
	}
	if len(all) == 0 {
		return
	}
	w := newWays(t)
	defer w.close()
	for _, tun := range all {
		tun.why = tun.findOuter(w)
	}
	for i, tun := range all {
		if tun.why == "" {
			tun.why = t.findEnds(all, i, w)
		}
	}
	// A link has two good ends: what leads to an edge is one.
	for changed := true; changed; {
		changed = false
		for _, tun := range all {
			bad := slices.ContainsFunc(tun.ends, func(e int) bool { return all[e].why != "" })
			if tun.why == "" && bad {
				tun.why, changed = "its far end has others, which are not attached", true
			}
		}
	}
	t.linkTunnels(all)
}

// findOuter sets where the tunnel's packets can go, or says why that is not known.
func (tun *tunnel) findOuter(w *ways) string {
	switch {
	case tun.elsewhere:
		return "its packets travel in another network namespace"
	case tun.flowBased:
		return "each packet's route says where it goes"
	case tun.bare && kernel.Older(kernel.Release(), 5, 14):
		// There the headers that were taken off still count as the packet's link layer header
		// at TC ingress, and nothing says how long they are.
		return "what comes out of such a tunnel cannot be read before Linux 5.14"
	case tun.remote.IsMulticast():
		return "its far ends are whoever joins " + tun.remote.String()
	}
	if tun.remote.IsValid() {
		tun.outer = append(tun.outer, tun.remote)
	}
	if tun.kind == "vxlan" {
		more, err := w.forwarding(tun.ref)
		if err != nil {
			return "its forwarding table cannot be read: " + err.Error()
		}
		for _, a := range more {
			if !slices.Contains(tun.outer, a) {
				tun.outer = append(tun.outer, a)
			}
		}
	}
	if len(tun.outer) == 0 {
		return "it has no far end"
	}
	return ""
}

// findEnds sets the tunnels at the far ends of all[i], or says what is wrong with one.
func (t *Topology) findEnds(all []*tunnel, i int, w *ways) string {
	tun := all[i]
	for _, dst := range tun.outer {
		owners := 0
		for n := range t.Nodes {
			if !slices.Contains(t.Nodes[n].Locals, dst) {
				continue
			}
			owners++
			end := t.endAt(all, tun, n)
			if end < 0 {
				return fmt.Sprintf("node %s, which owns %s, has no tunnel that matches", t.Nodes[n].Name, dst)
			}
			if !slices.Contains(tun.ends, end) {
				tun.ends = append(tun.ends, end)
			}
		}
		if owners == 0 {
			return fmt.Sprintf("no attached node owns %s", dst)
		}
		if why := w.inside(tun, dst); why != "" {
			return why
		}
	}
	return ""
}

// endAt finds the tunnel of a node that takes another one's packets, -1 if none does.
// Like the kernel it prefers the one that says more: loading a tunnel's module gives
// every namespace a tunl0, gre0, ... that takes whatever no other tunnel does.
func (t *Topology) endAt(all []*tunnel, tun *tunnel, node int) int {
	best, says := -1, -1
	for i, o := range all {
		if o.ref.Node != node || !tun.reaches(o, t) {
			continue
		}
		n := 0
		if o.local.IsValid() {
			n++
		}
		if o.remote.IsValid() {
			n += 2
		}
		if n > says {
			best, says = i, n
		}
	}
	return best
}

// reaches says whether the other tunnel takes this one's packets.
func (tun *tunnel) reaches(o *tunnel, t *Topology) bool {
	if o.kind != tun.kind || o.port != tun.port || o.wantID != tun.id || o.ref == tun.ref {
		return false
	}
	if o.local.IsValid() && !slices.Contains(tun.outer, o.local) {
		return false
	}
	mine := func(a netip.Addr) bool { return slices.Contains(t.Nodes[tun.ref.Node].Locals, a) }
	return o.kind == "vxlan" || !o.remote.IsValid() || mine(o.remote)
}

// linkTunnels sets the ports of tunnels: the two ends of one are peers, more ends hang on
// a link with a name. Bits stay true on a link if any end needs it.
func (t *Topology) linkTunnels(all []*tunnel) {
	done := make([]bool, len(all))
	for i, tun := range all {
		port := t.Port(tun.ref)
		if tun.why != "" {
			port.Tunnel = &Tunnel{Inherits: tun.inherits}
			if !port.Up {
				continue
			}
			t.Notes = append(t.Notes, fmt.Sprintf("%s/%s: the %s tunnel leads out of the domain (%s): packets are restored before they go into it", t.Nodes[tun.ref.Node].Name, port.Name, tun.kind, tun.why))
			continue
		}
		if done[i] {
			continue
		}
		group := []int{i}
		for k := 0; k < len(group); k++ {
			done[group[k]] = true
			for j, o := range all {
				near := slices.Contains(all[group[k]].ends, j) || slices.Contains(o.ends, group[k])
				if near && o.why == "" && !slices.Contains(group, j) {
					group = append(group, j)
				}
			}
		}
		t.linkGroup(all, group)
	}
}

// linkGroup joins the tunnels of one group.
func (t *Topology) linkGroup(all []*tunnel, group []int) {
	inherits := slices.ContainsFunc(group, func(i int) bool { return all[i].inherits })
	first := all[group[0]]
	for k, i := range group {
		port := t.Port(all[i].ref)
		port.Tunnel = &Tunnel{Inside: true, Inherits: inherits}
		if len(group) == 2 {
			port.Peer = &all[group[1-k]].ref
			continue
		}
		port.Link = fmt.Sprintf("%s %d of %s/%s", first.kind, first.id, t.Nodes[first.ref.Node].Name, t.Port(first.ref).Name)
	}
}
