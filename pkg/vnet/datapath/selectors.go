// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"

	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// follow adds selectors to those of the domain, and says whether containers that
// match them join later, unless watch is nil.
func (c *change) follow(selectors []string, watch *bool) {
	for _, s := range selectors {
		if !slices.Contains(c.next.Selectors, s) {
			c.next.Selectors = append(c.next.Selectors, s)
		}
	}
	if watch != nil {
		c.next.WatchContainers = *watch
	}
}

// unfollow removes the selectors that name one of the nodes and no other: it
// would come back with its container.
func (c *change) unfollow(names []string) {
	c.next.Selectors = SelectorsWithout(c.next, names)
}

// SelectorsWithout returns the selectors that the domain keeps when the named nodes
// are detached.
func SelectorsWithout(d *domain.Domain, names []string) []string {
	named := func(selector string) bool {
		name, spec, err := topo.SplitName(selector)
		return err == nil && slices.ContainsFunc(d.Nodes, func(n domain.Node) bool {
			return slices.Contains(names, n.Name) && n.Spec == spec && (name == "" || name == n.Name)
		})
	}
	return slices.DeleteFunc(slices.Clone(d.Selectors), named)
}
