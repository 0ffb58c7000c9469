// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// ways asks nodes where they would send a packet. It holds a netlink socket in each node
// that was asked.
type ways struct {
	t       *Topology
	handles map[int]*netlink.Handle
}

func newWays(t *Topology) *ways {
	return &ways{t: t, handles: make(map[int]*netlink.Handle)}
}

func (w *ways) close() {
	for _, h := range w.handles {
		h.Close()
	}
}

func (w *ways) handle(node int) (*netlink.Handle, error) {
	if h := w.handles[node]; h != nil {
		return h, nil
	}
	h, err := w.t.Nodes[node].Handle()
	if err != nil {
		return nil, err
	}
	w.handles[node] = h
	return h, nil
}

// forwarding returns the far ends in the forwarding table of a VXLAN port, learned ones
// among them.
func (w *ways) forwarding(ref PortRef) (list []netip.Addr, err error) {
	h, err := w.handle(ref.Node)
	if err != nil {
		return nil, err
	}
	entries, err := host.RetryDump(func() ([]netlink.Neigh, error) { return h.NeighList(w.t.Port(ref).Ifindex, unix.AF_BRIDGE) })
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if a := toAddr(e.IP); a.IsValid() {
			list = append(list, a)
		}
	}
	return list, nil
}

// inside says why packets of a tunnel to dst would leave the domain on their way, "" if
// they do not: each node that they can come to sends them by internal ports only.
func (w *ways) inside(tun *tunnel, dst netip.Addr) string {
	return w.from(tun.ref.Node, tun.lower, dst, make(map[int]bool))
}

// from is inside for packets that a node sends, by the interface oif if that is not 0.
// done says of the nodes that were looked at whether that is over.
func (w *ways) from(node, oif int, dst netip.Addr, done map[int]bool) string {
	if over, seen := done[node]; seen && !over {
		return "the way to " + dst.String() + " has no end"
	} else if over || slices.Contains(w.t.Nodes[node].Locals, dst) {
		return ""
	}
	done[node] = false
	name := w.t.Nodes[node].Name
	hops, why := w.hops(node, oif, dst)
	if why != "" {
		return "node " + name + " " + why
	}
	for _, h := range hops {
		i := slices.IndexFunc(w.t.Nodes[node].Ports, func(p Port) bool { return p.Ifindex == h.index })
		if i < 0 {
			return fmt.Sprintf("node %s sends to %s by an interface that is not attached", name, dst)
		}
		takers, exit := w.takers(PortRef{node, i}, h.addr, make(map[PortRef]bool))
		if exit != "" {
			return fmt.Sprintf("its packets to %s leave the domain at %s", dst, exit)
		}
		for _, next := range takers {
			if why := w.from(next, 0, dst, done); why != "" {
				return why
			}
		}
	}
	done[node] = true
	return ""
}

// hop is where a route leads to.
type hop struct {
	index int // of the interface
	addr  netip.Addr
}

// hops returns all next hops of the route that a node has to dst: which of them a packet
// takes depends on its ports. Where rules choose among tables by more than the
// destination, why says so.
func (w *ways) hops(node, oif int, dst netip.Addr) (hops []hop, why string) {
	h, err := w.handle(node)
	if err != nil {
		return nil, "cannot be asked: " + err.Error()
	}
	family := netlink.FAMILY_V6
	if dst.Is4() {
		family = netlink.FAMILY_V4
	}
	rules, err := host.RetryDump(func() ([]netlink.Rule, error) { return h.RuleList(family) })
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // a kernel that knows no rules
		return nil, "does not tell its rules: " + err.Error()
	}
	if i := slices.IndexFunc(rules, isAddedRule); i >= 0 {
		return nil, fmt.Sprintf("has rules for routing (%v)", rules[i])
	}
	routes, err := h.RouteGetWithOptions(dst.AsSlice(), &netlink.RouteGetOptions{OifIndex: oif, FIBMatch: true})
	if err != nil || len(routes) == 0 {
		return nil, "has no route to " + dst.String()
	}
	r := routes[0]
	all := r.MultiPath
	if len(all) == 0 {
		all = []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw, Via: r.Via, Encap: r.Encap, NewDst: r.NewDst}}
	}
	for _, n := range all {
		if n.Encap != nil || n.NewDst != nil {
			return nil, "puts what it sends to " + dst.String() + " into other packets"
		}
		addr := dst
		if gw := toAddr(n.Gw); gw.IsValid() {
			addr = gw
		}
		if via, ok := n.Via.(*netlink.Via); ok {
			addr = toAddr(via.Addr)
		}
		hops = append(hops, hop{n.LinkIndex, addr})
	}
	return hops, ""
}

// isAddedRule says whether a rule is none of those that a namespace begins with: these
// look at all packets, in the tables local, main and default, in this order.
func isAddedRule(r netlink.Rule) bool {
	known := r.Priority == 0 && r.Table == unix.RT_TABLE_LOCAL || r.Priority == 32766 && r.Table == unix.RT_TABLE_MAIN ||
		r.Priority == 32767 && r.Table == unix.RT_TABLE_DEFAULT
	plain := r.Src == nil && r.Dst == nil && r.IifName == "" && r.OifName == "" && r.Mark == 0 && r.Tos == 0 &&
		r.TunID == 0 && r.IPProto == 0 && r.Sport == nil && r.Dport == nil && r.UIDRange == nil &&
		r.SuppressPrefixlen < 0 && r.SuppressIfgroup < 0 && !r.Invert
	return !known || !plain
}

// takers returns the nodes that can take what a port sends to a neighbour, or the port by which it can leave the domain.
// A bridge in an attached node sends it on by each of its ports, until it has learned where the neighbour is. done has the
// ports whose frames were followed.
func (w *ways) takers(out PortRef, hop netip.Addr, done map[PortRef]bool) (nodes []int, exit string) {
	port := w.t.Port(out)
	switch {
	case done[out]:
		return nil, ""
	case port.Role != domain.Internal:
	case port.Peer != nil:
		done[out] = true
		next := port.Peer.Node
		if slices.Contains(w.t.Nodes[next].Locals, hop) {
			return []int{next}, ""
		}
		others, err := w.bridged(*port.Peer)
		if err != nil {
			return nil, fmt.Sprintf("%s/%s (%v)", w.t.Nodes[next].Name, w.t.Port(*port.Peer).Name, err)
		}
		if others == nil { // it routes, or refuses: its own routes say
			return []int{next}, ""
		}
		for _, ifindex := range others {
			i := slices.IndexFunc(w.t.Nodes[next].Ports, func(p Port) bool { return p.Ifindex == ifindex })
			if i < 0 {
				return nil, w.t.Nodes[next].Name + " by an interface that is not attached"
			}
			more, exit := w.takers(PortRef{next, i}, hop, done)
			if exit != "" {
				return nil, exit
			}
			nodes = append(nodes, more...)
		}
		// Only the neighbour takes the frame. Where none of them is it, all are asked.
		if slices.ContainsFunc(nodes, func(n int) bool { return slices.Contains(w.t.Nodes[n].Locals, hop) }) {
			nodes = slices.DeleteFunc(nodes, func(n int) bool { return !slices.Contains(w.t.Nodes[n].Locals, hop) })
		}
		return nodes, ""
	case port.Link != "":
		for n := range w.t.Nodes {
			onLink := slices.ContainsFunc(w.t.Nodes[n].Ports, func(p Port) bool { return p.Link == port.Link && p.Place == "" })
			if onLink && slices.Contains(w.t.Nodes[n].Locals, hop) {
				return []int{n}, ""
			}
		}
	}
	return nil, w.t.Nodes[out.Node].Name + "/" + port.Name
}

// bridged returns the numbers of the other members of the bridge that a port is a member of, which is not nil; nil if it is
// a member of none.
func (w *ways) bridged(ref PortRef) ([]int, error) {
	h, err := w.handle(ref.Node)
	if err != nil {
		return nil, err
	}
	links, err := host.RetryDump(h.LinkList)
	if err != nil {
		return nil, err
	}
	own := w.t.Port(ref).Ifindex
	i := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Attrs().Index == own })
	if i < 0 || links[i].Attrs().MasterIndex == 0 {
		return nil, nil
	}
	master := links[i].Attrs().MasterIndex
	if !slices.ContainsFunc(links, func(l netlink.Link) bool { return l.Attrs().Index == master && l.Type() == "bridge" }) {
		return nil, nil
	}
	others := []int{}
	for _, l := range links {
		if a := l.Attrs(); a.MasterIndex == master && a.Index != own {
			others = append(others, a.Index)
		}
	}
	return others, nil
}
