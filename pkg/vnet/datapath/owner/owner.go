// SPDX-License-Identifier: Apache-2.0

// Package owner says which domain has a namespace or a bridge already: two domains cannot share one, since each
// would have to restore what the other marks.
package owner

import (
	"errors"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/datapath/port"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Check refuses namespaces that another domain has: the one that marks last
// would have to restore first, on both hooks, which no order of programs gives.
func Check(name string, specs []topo.NodeSpec) error {
	others, err := otherDomains(name)
	if err != nil {
		return err
	}
	for _, s := range specs {
		other, n := ownerOfNode(others, s)
		switch {
		case n == nil:
		case n.Auto:
			return fault.Usage.Errorf("node %s (%s) holds a bridge that domain %q is closed around: detach the nodes on it there first («status ‹domain› %s»)", s.Name, s.Spec, other, other)
		default:
			return fault.Usage.Errorf("node %s (%s) belongs to domain %q already: detach it there first («detach ‹domain› %s %s»)", s.Name, s.Spec, other, other, n.Name)
		}
	}
	return nil
}

// Of names, for each namespace, the domain that it belongs to, other than the one
// called name; "" if there is none.
func Of(name string, specs []topo.NodeSpec) ([]string, error) {
	others, err := otherDomains(name)
	if err != nil {
		return nil, err
	}
	owners := make([]string, len(specs))
	for i, s := range specs {
		owners[i], _ = ownerOfNode(others, s)
	}
	return owners, nil
}

// otherDomains returns the domains except the one called name.
func otherDomains(name string) (others []*domain.Domain, err error) {
	names, err := domain.List()
	if err != nil {
		return nil, err
	}
	for _, other := range names {
		if other == name {
			continue
		}
		d, err := domain.Load(other)
		if err != nil && !errors.Is(err, domain.ErrOtherVersion) {
			continue // half there, or detached just now
		}
		others = append(others, d)
	}
	return others, nil
}

// ownerOfNode returns the name of the domain that has the namespace, and as which
// node; nil if none has.
func ownerOfNode(domains []*domain.Domain, s topo.NodeSpec) (string, *domain.Node) {
	for _, d := range domains {
		for i := range d.Nodes {
			if n := &d.Nodes[i]; s.Inum == n.Inum && present(d, n, s) {
				return d.Name, n
			}
		}
	}
	return "", nil
}

// present says whether a node is still the namespace s, which has the same inode
// number: the number of a namespace that has ended is used again soon. The node is
// if its path leads there, or if any of its programs is there: a namespace can
// outlive the process or the mount by which it was named.
func present(d *domain.Domain, n *domain.Node, s topo.NodeSpec) bool {
	if n.Removed {
		return false
	}
	ns, err := topo.SpecOf(*n).Open()
	if err == nil {
		ns.Close()
	}
	if !errors.Is(err, topo.ErrGone) {
		return true
	}
	found := false
	// If s cannot be entered, Discover says why.
	_ = s.Do(func() error {
		for i := range d.Ports {
			p := &d.Ports[i]
			if p.Removed || p.Node != n.ID {
				continue
			}
			for _, dir := range system.Directions {
				found = found || port.At(d, p).At(dir).Stands()
			}
		}
		return nil
	})
	return found
}
