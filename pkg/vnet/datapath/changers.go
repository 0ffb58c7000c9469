// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// mostNamed bounds how many programs or rules a sentence names.
const mostNamed = 5

// Changers says what may change packets on links inside the domain, where they have radar's bits: programs of others at TC's
// hooks, and rules of nodes with bridges. What they change is recognised as docs/transparency.md says. It looks
// now, at each port.
func Changers(ctx context.Context, d *domain.Domain) (texts []string) {
	ctx, cancel := context.WithTimeout(ctx, conflictTime)
	defer cancel()
	if list := tcOthers(d); len(list) > 0 {
		texts = append(texts, "tc programs of others see packets on links inside the domain ("+shorten(list)+
			"): packets whose IP ID or flow label they set, or whose addresses and content they both change, keep radar's TTL and IP ID")
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Removed || !n.Auto {
			continue
		}
		var list []string
		for _, r := range rules.OnBridges(ctx, topo.SpecOf(*n), rules.SetsContent|rules.SetsMSS) {
			list = append(list, r.String())
		}
		if len(list) > 0 {
			texts = append(texts, fmt.Sprintf("rules of node %s change content of packets on bridges inside the domain (%s): packets whose addresses change there as well keep radar's TTL and IP ID",
				n.Name, shorten(list)))
		}
	}
	return texts
}

// shorten names the first of a list.
func shorten(list []string) string {
	if len(list) > mostNamed {
		return strings.Join(list[:mostNamed], ", ") + fmt.Sprintf(", and %d more", len(list)-mostNamed)
	}
	return strings.Join(list, ", ")
}

// tcOthers names what stands on links: behind radar's programs where packets leave by ports inside, before them where packets
// come, and at the ends of bridges that have none of radar's.
func tcOthers(d *domain.Domain) (list []string) {
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Removed {
			continue
		}
		// The error says that the namespace is gone.
		_ = topo.SpecOf(*n).Do(func() error {
			for j := range d.Ports {
				p := &d.Ports[j]
				if p.Node != n.ID || p.Removed || p.Role != domain.Internal || p.Place != "" {
					continue
				}
				for _, side := range system.Directions {
					for _, o := range hook.Others(p.Ifindex, side, isRadars) {
						if side == hook.Egress || o.Before {
							list = append(list, fmt.Sprintf("%s %v: %s", merge.PortName(d, p), side, o.Name))
						}
					}
				}
			}
			for j := range d.Members {
				m := &d.Members[j]
				if m.Node != n.ID || m.Removed {
					continue
				}
				for _, side := range system.Directions {
					for _, o := range hook.Others(m.Ifindex, side, isRadars) {
						list = append(list, fmt.Sprintf("%s/%s %v: %s", n.Name, m.Name, side, o.Name))
					}
				}
			}
			return nil
		})
	}
	return list
}

// isRadars says whether a program, or a filter, has a name of radar's.
func isRadars(name string) bool {
	return slices.ContainsFunc([]string{"rdr_", "radar", "payload_"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
