// SPDX-License-Identifier: Apache-2.0

package placenow

import (
	"testing"

	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// TestConntrackBefore: what conntrack has dropped is told as a cause only if it is known to have come after radar was
// attached.
func TestConntrackBefore(t *testing.T) {
	t.Parallel()
	for _, sinceAttach := range []bool{false, true} {
		n := newNodes(&domain.Domain{Nodes: []domain.Node{{Name: "h1", Path: "/nowhere/h1"}}})
		n.counts["h1"] = &kernelCounts{map[string]uint64{topo.ConntrackDrop: 5, topo.ConntrackInsertFailed: 3}, sinceAttach}
		f := n.netfilter("h1", "NETFILTER_DROP", rules.Hook)
		if f == nil || (f.ConntrackDrops > 0) != sinceAttach || (f.ConntrackNotInserted > 0) != sinceAttach {
			t.Errorf("since attach: %v: %+v", sinceAttach, f)
		}
	}
}
