// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"

	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// noteCounted keeps what kernels had counted in nodes that are new, so that answers can say what they count while these
// are measured. A node that is gone, or that another agent has noted, stays as it is.
func noteCounted(d *domain.Domain) error {
	counted, err := domain.LoadCounted(d)
	if err != nil {
		return err
	}
	changed := false
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if known, is := counted.Nodes[n.ID]; n.Removed || is && known.Inum == n.Inum {
			continue
		}
		counters, failed := topo.SpecOf(*n).Counters()
		if failed != nil {
			if !errors.Is(failed, topo.ErrGone) {
				err = failed
			}
			continue
		}
		counted.Nodes[n.ID] = domain.NodeCounted{Inum: n.Inum, Counters: counters}
		changed = true
	}
	if changed {
		err = errors.Join(err, counted.Save(d.Name))
	}
	return err
}
