// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"log/slog"

	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// noteCounted keeps what kernels had counted in nodes that are new, so that answers can say what they count while these
// are measured. A node that is gone, or that another agent has noted, stays as it is. Of nodes that are noted late,
// because that failed before or what was noted is damaged, nobody knows it any more.
func noteCounted(d *domain.Domain, late bool, log *slog.Logger) error {
	counted, err := domain.LoadCounted(d)
	var damage error
	if errors.Is(err, domain.ErrCountedDamaged) {
		damage, err, late = err, nil, true
	}
	if err != nil {
		return err
	}
	changed := damage != nil
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if known, is := counted.Nodes[n.ID]; n.Removed || is && known.Inum == n.Inum {
			continue
		}
		now := domain.NodeCounted{Inum: n.Inum, Late: late}
		if !late {
			var failed error
			if now.Counters, failed = topo.SpecOf(*n).Counters(); failed != nil {
				if !errors.Is(failed, topo.ErrGone) {
					err = failed
				}
				continue
			}
		}
		counted.Nodes[n.ID], changed = now, true
	}
	if !changed {
		return err
	}
	if failed := counted.Save(d.Name); failed != nil {
		return errors.Join(err, damage, failed)
	}
	if damage != nil {
		log.Warn("what nodes had counted as they were attached is not known any more: it is noted anew", "error", damage)
	}
	return err
}
