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
	specs := f.behind(ctx, topo.SpecOf(*own), port)
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

// mostMembers bounds how many members of a bridge are looked at.
const mostMembers = 256

// behind are the namespaces that a packet can get to which leaves a namespace by an interface. The search ends with ctx.
func (f *finder) behind(ctx context.Context, s topo.NodeSpec, port string) []topo.NodeSpec {
	near, err := f.look(s)
	if err != nil {
		return nil
	}
	defer near.Close()
	out := slices.IndexFunc(near.links, func(l netlink.Link) bool { return l.Attrs().Name == port })
	if out < 0 {
		return nil
	}
	far, index, ok := near.otherEnd(near.links[out])
	if !ok {
		return nil
	}
	there, err := f.look(far)
	if err != nil {
		return nil
	}
	defer there.Close()
	bridge := 0
	for _, l := range there.links {
		if l.Attrs().Index == index {
			bridge = l.Attrs().MasterIndex
		}
	}
	var list []topo.NodeSpec
	looked := 0
	for _, l := range there.links {
		if bridge == 0 || l.Attrs().MasterIndex != bridge || l.Attrs().Index == index {
			continue
		}
		if looked++; looked > mostMembers || len(list) == Most || ctx.Err() != nil {
			break
		}
		if next, _, ok := there.otherEnd(l); ok && next.Inum != s.Inum {
			list = append(list, next)
		}
	}
	if len(list) == 0 {
		list = append(list, far)
	}
	return list
}

// view is what a namespace has, and which others it knows.
type view struct {
	*netlink.Handle
	links []netlink.Link
	known map[int]topo.NodeSpec // by the ids that it gives them
}

// look reads a namespace. The caller closes the view.
func (f *finder) look(s topo.NodeSpec) (*view, error) {
	handle, links, err := s.Links()
	if err != nil {
		return nil, err
	}
	v := &view{handle, links, make(map[int]topo.NodeSpec)}
	for i, ns := range f.open {
		if id, err := handle.GetNetNsIdByFd(int(ns)); err == nil && id >= 0 {
			v.known[id] = f.specs[i]
		}
	}
	return v, nil
}

// otherEnd finds the namespace that holds the other end of an interface, and the interface there.
func (v *view) otherEnd(l netlink.Link) (far topo.NodeSpec, index int, ok bool) {
	a := l.Attrs()
	if kind := l.Type(); kind != "veth" && kind != "netkit" || a.NetNsID < 0 || a.ParentIndex <= 0 {
		return far, 0, false
	}
	far, ok = v.known[a.NetNsID]
	return far, a.ParentIndex, ok
}
