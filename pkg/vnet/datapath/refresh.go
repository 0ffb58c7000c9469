// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"slices"

	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/owner"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// refreshTries bounds how often a refresh starts again because a namespace ended
// meanwhile.
const refreshTries = 3

// Changes is what a refresh changed. Ports are named "node/port".
type Changes struct {
	Added, Removed []string
	NodesGone      []string
	Roles          []string // "node/port: role"
	Queues         []string // "node/port: kind", or none
	Warnings       []string
}

// Empty says whether nothing changed.
func (c *Changes) Empty() bool {
	return len(c.Added)+len(c.Removed)+len(c.NodesGone)+len(c.Roles)+len(c.Queues)+len(c.Warnings) == 0
}

// Refresh brings the domain in line with what its nodes look like now: programs
// go on new interfaces, pins of those that are gone are removed, roles and
// addresses are worked out again. A port that cannot be attached is left out with
// a warning, and tried again next time. Until it is closed the handle holds what
// tells that redirected packets were delivered; see ReleaseGone.
//
// Errors: domain.ErrNotAttached, system.ErrDetaching.
func (h *Handle) Refresh(ctx context.Context) (*Changes, error) {
	unlock, err := h.lockAndReload()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := h.checkStays(); err != nil {
		return nil, err
	}
	c, t, err := h.compare(ctx)
	if err != nil {
		return nil, err
	}
	return h.apply(ctx, c, t)
}

// apply carries out what compare found.
func (h *Handle) apply(ctx context.Context, c *merge.Change, t *topo.Topology) (*Changes, error) {
	var undo undo
	a := &applier{h: h, c: c, undo: &undo, lenient: true}
	a.warnings = setApart(c.Next)
	if err := a.run(ctx); err != nil {
		undo.run()
		return nil, err
	}
	if len(c.Unnumbered) > 0 {
		a.warnOnce(c.WhyUnnumbered())
	}
	if c.Empty() {
		t.Notes = nil // known since the last change
	}
	return report(c, slices.Concat(t.Notes, a.warnings, h.FollowRedirects())), nil
}

// compare finds out what differs from the description.
func (h *Handle) compare(ctx context.Context) (*merge.Change, *topo.Topology, error) {
	for try := 1; ; try++ {
		h.look(looksNow())
		specs, _ := living(h.Domain)
		t, err := discover(ctx, specs, nil)
		if errors.Is(err, topo.ErrGone) && try < refreshTries {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if err := owner.OpenBridges(h.Domain.Name, t); err != nil {
			return nil, nil, err
		}
		h.near = t.Near
		stale := stalePorts(h.Domain)
		c, err := merge.Into(h.Domain, t, func(p *domain.Port) bool { return stale[p.ID] })
		if err != nil {
			return nil, nil, err
		}
		c.Old = h.Domain
		return c, t, nil
	}
}

func report(c *merge.Change, warnings []string) *Changes {
	r := &Changes{Roles: c.Roles(), Queues: c.Queues(), Warnings: warnings}
	for _, id := range c.AddedPorts {
		r.Added = append(r.Added, merge.PortName(c.Next, c.Next.PortByID(id)))
	}
	for _, id := range c.RemovedPorts {
		r.Removed = append(r.Removed, merge.PortName(c.Next, c.Next.PortByID(id)))
	}
	for _, id := range c.RemovedNodes {
		if n := c.Next.NodeByID(id); !n.Auto { // a closing node is no longer needed
			r.NodesGone = append(r.NodesGone, n.Name)
		}
	}
	return r
}
