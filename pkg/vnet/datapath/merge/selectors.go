// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"slices"

	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Follow adds selectors to those of the domain, and says whether containers that
// match them join later, unless watch is nil.
func (c *Change) Follow(selectors []string, watch *bool) {
	for _, s := range selectors {
		if !slices.Contains(c.Next.Selectors, s) {
			c.Next.Selectors = append(c.Next.Selectors, s)
		}
	}
	if watch != nil {
		c.Next.WatchContainers = *watch
	}
}

// Unfollow removes the selectors that name one of the nodes and no other: it
// would come back with its container.
func (c *Change) Unfollow(names []string) {
	c.Next.Selectors = SelectorsWithout(c.Next, names)
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
