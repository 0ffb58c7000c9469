// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/domain"
)

// maxWay bounds how many nodes a tunnel's packet is followed through.
const maxWay = 64

// ways asks nodes where they would send a packet. It holds a netlink socket in each node
// that was asked.
type ways struct {
	t       *Topology
	probes  []probe
	handles map[int]*netlink.Handle
}

func newWays(t *Topology, probes []probe) *ways {
	return &ways{t: t, probes: probes, handles: make(map[int]*netlink.Handle)}
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
	h, err := netlink.NewHandleAt(w.probes[node].ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
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
	entries, err := h.NeighList(w.t.Port(ref).Ifindex, unix.AF_BRIDGE)
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

// inside says why packets of a node to dst would leave the domain on their way, "" if
// they do not: each node on it sends them by an internal port to the next.
func (w *ways) inside(node int, dst netip.Addr) string {
	for range maxWay {
		if slices.Contains(w.t.Nodes[node].Locals, dst) {
			return ""
		}
		name := w.t.Nodes[node].Name
		h, err := w.handle(node)
		if err != nil {
			return err.Error()
		}
		routes, err := h.RouteGet(dst.AsSlice())
		if err != nil || len(routes) == 0 {
			return fmt.Sprintf("node %s has no route to %s", name, dst)
		}
		r := routes[0]
		i := slices.IndexFunc(w.t.Nodes[node].Ports, func(p Port) bool { return p.Ifindex == r.LinkIndex })
		if i < 0 {
			return fmt.Sprintf("node %s sends to %s by an interface that is not attached", name, dst)
		}
		hop := dst
		if gw := toAddr(r.Gw); gw.IsValid() {
			hop = gw
		}
		port := &w.t.Nodes[node].Ports[i]
		next, ok := w.next(port, hop)
		if !ok {
			return fmt.Sprintf("its packets to %s leave the domain at %s/%s", dst, name, port.Name)
		}
		node = next
	}
	return "the way to " + dst.String() + " has no end"
}

// next returns the node that gets what a port sends to a neighbour.
func (w *ways) next(port *Port, hop netip.Addr) (int, bool) {
	switch {
	case port.Role != domain.Internal:
	case port.Peer != nil:
		return port.Peer.Node, true
	case port.Link != "":
		for n := range w.t.Nodes {
			onLink := slices.ContainsFunc(w.t.Nodes[n].Ports, func(p Port) bool { return p.Link == port.Link && p.Place == "" })
			if onLink && slices.Contains(w.t.Nodes[n].Locals, hop) {
				return n, true
			}
		}
	}
	return 0, false
}
