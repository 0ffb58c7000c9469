// SPDX-License-Identifier: Apache-2.0

// Package beyond finds out who is behind an edge of a domain: which namespaces a packet that leaves there gets to.
package beyond

import (
	"context"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/selector"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Most is how many namespaces are named.
const Most = 4

// Selectors name the namespaces to attach so that packets which leave a domain by a port are followed: the one that
// holds its other end, or, where that is a bridge's member, those behind the bridge's other members. None: nothing
// is there that could be attached, or it cannot be found.
func Selectors(ctx context.Context, d *domain.Domain, node, port string) []string {
	n := slices.IndexFunc(d.Nodes, func(n domain.Node) bool { return n.Name == node && !n.Removed })
	if n < 0 {
		return nil
	}
	own := &d.Nodes[n]
	for _, p := range d.Ports {
		if p.Node == own.ID && p.Name == port && !p.Removed && p.Place == domain.Bridge {
			return []string{own.Spec} // the bridge's own end: that node is attached for its bridge alone
		}
	}
	f := newFinder()
	defer f.close()
	specs := f.behind(topo.SpecOf(*own), port)
	specs = slices.DeleteFunc(specs, func(s topo.NodeSpec) bool {
		return slices.ContainsFunc(d.Nodes, func(n domain.Node) bool { return !n.Removed && n.Inum == s.Inum })
	})
	return selector.SelectorsOf(ctx, specs)
}

// finder finds namespaces by the ids that others know them by.
type finder struct {
	specs []topo.NodeSpec
	open  []netns.NsHandle // of the same
}

func newFinder() *finder {
	f := &finder{}
	found, _ := topo.Namespaces() // the rest is not found
	for _, s := range append(found, topo.Host()) {
		if ns, err := s.Open(); err == nil {
			f.specs, f.open = append(f.specs, s), append(f.open, ns)
		}
	}
	return f
}

func (f *finder) close() {
	for _, ns := range f.open {
		ns.Close()
	}
}

// behind are the namespaces that a packet can get to which leaves a namespace by an interface.
func (f *finder) behind(s topo.NodeSpec, port string) []topo.NodeSpec {
	far, index, ok := f.otherEnd(s, port)
	if !ok {
		return nil
	}
	handle, links, err := far.Links()
	if err != nil {
		return nil
	}
	handle.Close()
	bridge := 0
	for _, l := range links {
		if l.Attrs().Index == index {
			bridge = l.Attrs().MasterIndex
		}
	}
	var list []topo.NodeSpec
	for _, l := range links {
		if bridge == 0 || l.Attrs().MasterIndex != bridge || l.Attrs().Index == index || len(list) == Most {
			continue
		}
		if next, _, ok := f.otherEnd(far, l.Attrs().Name); ok && next.Inum != s.Inum {
			list = append(list, next)
		}
	}
	if len(list) == 0 {
		list = append(list, far)
	}
	return list
}

// otherEnd finds the namespace that holds the other end of an interface, and the interface there.
func (f *finder) otherEnd(s topo.NodeSpec, port string) (far topo.NodeSpec, index int, ok bool) {
	handle, links, err := s.Links()
	if err != nil {
		return far, 0, false
	}
	defer handle.Close()
	i := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Attrs().Name == port })
	if i < 0 {
		return far, 0, false
	}
	a := links[i].Attrs()
	if kind := links[i].Type(); kind != "veth" && kind != "netkit" || a.NetNsID < 0 || a.ParentIndex <= 0 {
		return far, 0, false
	}
	for i, ns := range f.open {
		if id, err := handle.GetNetNsIdByFd(int(ns)); err == nil && id == a.NetNsID {
			return f.specs[i], a.ParentIndex, true
		}
	}
	return far, 0, false
}
