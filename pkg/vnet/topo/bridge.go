// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Bridge is a bridge link: a Linux bridge in a namespace that is not attached, of
// which some members' other ends are. Its namespace is a closing node.
type Bridge struct {
	Node    int // place of the closing node in Topology.Nodes
	Name    string
	Ifindex int
	Inside  []Member  // members whose other end is attached
	Ports   []PortRef // those other ends
}

// Member is an interface of a bridge that gets no program.
type Member struct {
	Name    string
	Ifindex int
	To      string // NODE/PORT of the attached end
}

// hasInside says whether the interface with that number is one of Inside.
func (b *Bridge) hasInside(ifindex int) bool {
	return slices.ContainsFunc(b.Inside, func(m Member) bool { return m.Ifindex == ifindex })
}

// Link is how the ports of the bridge name it: "CLOSINGNODE/BRIDGE".
func (t *Topology) Link(b *Bridge) string { return t.Nodes[b.Node].Name + "/" + b.Name }

// Open takes a bridge out of the topology again, because the domain cannot be
// closed around it: its attached ends become edges.
func (t *Topology) Open(index int) {
	b := t.Bridges[index]
	link := t.Link(&b)
	for i := range t.Nodes {
		n := &t.Nodes[i]
		n.Ports = slices.DeleteFunc(n.Ports, func(p Port) bool { return p.Link == link && p.Place != "" })
		for j := range n.Ports {
			if p := &n.Ports[j]; p.Link == link {
				p.Link = ""
				if !p.Forced {
					p.Role = domain.Edge
				}
			}
		}
	}
	t.Bridges = slices.Delete(t.Bridges, index, index+1)
	// Closing nodes come last, and PortRefs never point at them.
	used := func(node int) bool {
		return slices.ContainsFunc(t.Bridges, func(b Bridge) bool { return b.Node == node })
	}
	if !used(b.Node) {
		t.forgetLower(t.Nodes[b.Node].Name)
		t.Nodes = slices.Delete(t.Nodes, b.Node, b.Node+1)
		for i := range t.Bridges {
			if t.Bridges[i].Node > b.Node {
				t.Bridges[i].Node--
			}
		}
	}
}

// hidden is a namespace that is not attached and holds other ends of ports that are.
type hidden struct {
	spec  NodeSpec
	ns    netns.NsHandle
	links map[int]netlink.Link
}

// member is an attached port and the bridge's member at its other end.
type member struct {
	port PortRef
	link netlink.Link
}

// closeBridges finds the bridges that attached ports hang on, and appends their
// namespaces to the topology as closing nodes. It joins ports that are stitched there.
func closeBridges(t *Topology, o *observer, probes []probe, stands *stands) error {
	behind := findHidden(t, o, probes)
	defer func() {
		for _, h := range behind {
			h.ns.Close()
		}
	}()
	ids := make([]int, 0, len(behind))
	for id := range behind {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		h := behind[id]
		t.Near = append(t.Near, h.spec)
		seams, err := t.seamsIn(h, id, probes)
		if err != nil {
			return err
		}
		t.stitch(h, seams)
		nodes := len(t.Nodes)
		if err := t.closeNode(h, t.membersIn(h, id, probes, seams)); err != nil {
			return err
		}
		if len(t.Nodes) > nodes {
			stands.nameLowers(t, id, t.Nodes[nodes].Name, namesOf(slices.Collect(maps.Values(h.links))))
		}
	}
	return nil
}

// findHidden finds and looks at the namespaces in which the other ends of attached
// ports lie, by the ids that the observer sees them under. One that cannot be found
// is left out.
func findHidden(t *Topology, o *observer, probes []probe) map[int]*hidden {
	wanted := make(map[int]PortRef)
	for i := range probes {
		for j, w := range probes[i].wires {
			if w.pair && w.nsid >= o.size {
				wanted[w.nsid] = PortRef{i, j}
			}
		}
	}
	found := make(map[int]*hidden)
	try := func(spec NodeSpec) {
		ns, err := spec.Open()
		if err != nil {
			return
		}
		id, err := o.handle.GetNetNsIdByFd(int(ns))
		if _, want := wanted[id]; err != nil || !want {
			ns.Close()
			return
		}
		links, _, err := o.links(id)
		if err != nil {
			ns.Close()
			return // ended just now
		}
		h := &hidden{spec: spec, ns: ns, links: make(map[int]netlink.Link, len(links))}
		for _, l := range links {
			h.links[l.Attrs().Index] = l
		}
		found[id] = h
		delete(wanted, id)
	}
	if len(wanted) > 0 {
		try(Host())
	}
	if len(wanted) > 0 {
		for spec, err := range namespaces() {
			if err != nil {
				t.Notes = append(t.Notes, fmt.Sprintf("not all network namespaces were looked at: %v", err))
				break
			}
			if try(spec); len(wanted) == 0 {
				break
			}
		}
	}
	for _, ref := range wanted {
		t.Notes = append(t.Notes, fmt.Sprintf("%s/%s: its other end lies in a network namespace that radar cannot find (it looks at /run/netns, /run/docker/netns and processes): it is an edge", t.Nodes[ref.Node].Name, t.Port(ref).Name))
	}
	return found
}

// membersIn returns the attached ports whose other end is a member of a bridge in h,
// by the bridge's interface number. Filters at some of those ends redirect (seams): what
// comes there passes the bridge by.
func (t *Topology) membersIn(h *hidden, id int, probes []probe, seams map[int]*seam) map[int][]member {
	of := make(map[int][]member)
	for i := range probes {
		for j := range probes[i].wires {
			l := t.endIn(h, id, probes, PortRef{i, j})
			if l == nil {
				continue
			}
			port := &t.Nodes[i].Ports[j]
			a := l.Attrs()
			if a.MasterIndex == 0 || seams[a.Index] != nil {
				continue
			}
			bridge := h.links[a.MasterIndex]
			name := t.Nodes[i].Name + "/" + port.Name
			switch {
			case bridge == nil:
			case bridge.Type() != "bridge":
				t.Notes = append(t.Notes, fmt.Sprintf("%s hangs on %s, a %s: radar closes the domain around Linux bridges only, so it is an edge", name, bridge.Attrs().Name, bridge.Type()))
			case hasXDP(bridge):
				t.Notes = append(t.Notes, fmt.Sprintf("%s hangs on bridge %s, which has an XDP program that can take packets past radar: it is an edge", name, bridge.Attrs().Name))
			default:
				of[a.MasterIndex] = append(of[a.MasterIndex], member{PortRef{i, j}, l})
			}
		}
	}
	return of
}

// closeNode adds h as a closing node, if any of its bridges has attached ends.
func (t *Topology) closeNode(h *hidden, of map[int][]member) error {
	n := Node{NodeSpec: h.spec, Auto: true}
	n.Name = t.freeName(h.spec)
	place := len(t.Nodes)
	for _, index := range sortedKeys(of) {
		b := Bridge{Node: place, Name: h.links[index].Attrs().Name, Ifindex: index}
		link := n.Name + "/" + b.Name
		for _, m := range of[index] {
			port := t.Port(m.port)
			// A packet that XDP takes never meets the ingress that would restore it:
			// such a port is outside, and closed like any other.
			if port.XDP || hasXDP(m.link) {
				t.Notes = append(t.Notes, fmt.Sprintf("%s/%s hangs on bridge %s by way of an XDP program: packets are restored before they get there", t.Nodes[m.port.Node].Name, port.Name, link))
				continue
			}
			port.Link = link
			b.Inside = append(b.Inside, Member{m.link.Attrs().Name, m.link.Attrs().Index, t.Nodes[m.port.Node].Name + "/" + port.Name})
			b.Ports = append(b.Ports, m.port)
		}
		if len(b.Inside) == 0 {
			continue
		}
		n.Ports = append(n.Ports, closingPort(h.links[index], link, domain.Bridge))
		for _, i := range sortedKeys(h.links) {
			if l := h.links[i]; l.Attrs().MasterIndex == index && !b.hasInside(i) {
				n.Ports = append(n.Ports, closingPort(l, link, domain.BridgePort))
			}
		}
		t.Bridges = append(t.Bridges, b)
	}
	if len(n.Ports) == 0 {
		return nil
	}
	var err error
	if n.Locals, _, err = localAddrs(h.ns); err != nil {
		return fmt.Errorf("discover node %s: %w", n.Name, err)
	}
	t.Nodes = append(t.Nodes, n)
	return nil
}

func closingPort(l netlink.Link, link string, place domain.Place) Port {
	a := l.Attrs()
	return Port{
		Name: a.Name, Ifindex: a.Index, Kind: l.Type(), L3: isL3(l), Up: a.Flags&net.FlagUp != 0,
		XDP: hasXDP(l), Role: domain.Edge, Link: link, Place: place,
	}
}

// freeName returns a name for a closing node that no other node has: "host", or
// the namespace's own.
func (t *Topology) freeName(s NodeSpec) string {
	base := s.Name
	if base == "" {
		_, base, _ = strings.Cut(s.Spec, ":")
		base = filepath.Base(base)
		if strings.HasPrefix(s.Spec, "pid:") {
			base = "pid-" + base
		}
	}
	if !nodeNameRE.MatchString(base) {
		base = fmt.Sprintf("netns-%d", s.Inum)
	}
	name := base
	for k := 2; slices.ContainsFunc(t.Nodes, func(n Node) bool { return n.Name == name }); k++ {
		name = fmt.Sprintf("%s-%d", base, k)
	}
	return name
}

func sortedKeys[V any](m map[int]V) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
