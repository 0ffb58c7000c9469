// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/datapath/tables"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/rules"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// Rules that come after attach and use bits of the mark that their node carries. The node
// gives the mark up in two steps. StopMarks is quick: from then on it carries nothing (apart),
// which is right in every node, whatever the node does with its packets. SettleMarks takes
// its time to find out whether the node can carry the header, and writes all that down.
// What bears a mark as its node gives it up is known as it leaves, and its mark is cleared.

// MarkNodes are the nodes whose rules matter: those that carry the mark.
func (h *Handle) MarkNodes() (specs []topo.NodeSpec) {
	for _, n := range merge.MarkNodes(h.Domain) {
		specs = append(specs, topo.SpecOf(*n))
	}
	return specs
}

// CanGiveMarksUp says whether nodes do so for rules that come later. With --carry mark the
// user decides, and the paper's layout knows no single nodes.
func (h *Handle) CanGiveMarksUp() bool {
	o := &h.Domain.Options
	return o.Carry == program.CarryAuto && o.MarkMask != 0 && o.GUIDBits != program.GUIDPaper
}

// Collisions are those of uses that use bits of the mark of nodes that carry it.
func (h *Handle) Collisions(uses []rules.Conflict) []rules.Conflict {
	return merge.Collisions(h.Domain, uses)
}

// StopMarks makes the nodes of these rules stop using the mark, at once. It changes nothing
// but what the programs are told: SettleMarks must follow. The error is of nodes that still
// use it.
func (h *Handle) StopMarks(uses []rules.Conflict) error {
	done := make(map[string]bool)
	for _, u := range h.Collisions(uses) {
		if done[u.Node] {
			continue
		}
		done[u.Node] = true
		for _, n := range merge.MarkNodes(h.Domain) {
			if n.Name != u.Node {
				continue
			}
			// First: whoever writes a port's flags from what is described reads it.
			atomic.StoreUint32(&h.guards[n.ID].Stopped, 1)
			if err := h.setNodeFlags(h.Domain, n, tables.FlagsStopped, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// MarkGivenUp is a node that carries the mark no longer.
type MarkGivenUp struct {
	Node  string
	Why   string // the rule
	Apart string // why it cannot carry the header, either; "": it does
}

// SettleMarks decides what the nodes of these rules carry instead of the mark, and writes it
// into the description. The handle then has the new one.
//
// Errors: domain.ErrNotAttached, system.ErrDetaching.
func (h *Handle) SettleMarks(ctx context.Context, uses []rules.Conflict) ([]MarkGivenUp, error) {
	if err := h.StopMarks(uses); err != nil {
		return nil, err
	}
	// What the kernel told has no text. The node carries nothing meanwhile.
	uses = withText(ctx, h.Domain, h.Collisions(uses))
	unlock, err := h.lockAndReload()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := h.checkStays(); err != nil {
		return nil, err
	}
	next := merge.Clone(h.Domain)
	var given []MarkGivenUp
	var nodes []*domain.Node
	for _, u := range merge.Collisions(next, uses) {
		for _, n := range merge.MarkNodes(next) {
			if n.Name != u.Node {
				continue
			}
			n.Late, n.Header = true, u.What+": "+u.Text
			n.Apart = strings.Join(topo.SpecOf(*n).Encapsulations(), ", ")
			if n.Apart == "" {
				n.Apart = whyApart(n)
			}
			given = append(given, MarkGivenUp{Node: n.Name, Why: n.Header, Apart: n.Apart})
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return nil, nil
	}
	// Described first: whoever writes the flags anew writes these.
	if err := next.Save(); err != nil {
		return nil, err
	}
	h.Domain = next
	// Before they carry the header: an interface that comes then is met by it.
	if err := h.putHomes(next); err != nil {
		return given, err
	}
	for _, n := range nodes {
		// An interface may have come before, and have no programs yet: the node sees true
		// bits until somebody has looked.
		atomic.CompareAndSwapUint64(&h.guards[n.ID].SinceNs, 0, clock.Monotonic())
		if err := h.setNodeFlags(next, n, tables.NodeFlags(n), true); err != nil {
			return given, err
		}
		atomic.StoreUint32(&h.guards[n.ID].Stopped, 0)
	}
	return given, nil
}

// ResumeMarks lets nodes carry the mark again that an agent stopped which ended before it
// settled what they carry instead. The caller is the domain's only agent, and has looked for
// rules since.
//
// Errors: domain.ErrNotAttached.
func (h *Handle) ResumeMarks() error {
	unlock, err := h.lockAndReload()
	if err != nil {
		return err
	}
	defer unlock()
	for _, n := range merge.MarkNodes(h.Domain) {
		if atomic.SwapUint32(&h.guards[n.ID].Stopped, 0) == 0 {
			continue
		}
		if err := h.setNodeFlags(h.Domain, n, 0, true); err != nil {
			return err
		}
	}
	return nil
}

// withText puts what rules.Find finds in the nodes of rules before these, which have no
// text.
func withText(ctx context.Context, d *domain.Domain, uses []rules.Conflict) []rules.Conflict {
	wanted := make(map[string]bool)
	for _, u := range uses {
		wanted[u.Node] = true
	}
	var specs []topo.NodeSpec
	for _, n := range merge.MarkNodes(d) {
		if wanted[n.Name] {
			specs = append(specs, topo.SpecOf(*n))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, conflictTime)
	defer cancel()
	return append(rules.Find(ctx, specs, d.Options.MarkMask), uses...)
}

// setNodeFlags sets those of a node's ports to flags and leaves the others as they are:
// another process may just be changing roles. Unless anew, ports that have any keep them.
func (h *Handle) setNodeFlags(d *domain.Domain, n *domain.Node, flags bpfobj.TcRdrPortFlag, anew bool) error {
	for i := range d.Ports {
		p := &d.Ports[i]
		if p.Removed || p.Node != n.ID {
			continue
		}
		if err := h.setNodeFlagsOf(n, p, flags, anew); err != nil {
			return fmt.Errorf("set port %s: %w", merge.PortName(d, p), err)
		}
	}
	return nil
}

func (h *Handle) setNodeFlagsOf(n *domain.Node, p *domain.Port, flags bpfobj.TcRdrPortFlag, anew bool) error {
	unlock, err := h.lockPorts()
	if err != nil {
		return err
	}
	defer unlock()
	var entry bpfobj.TcRdrPort
	if err := h.maps[bpfobj.TcMapPorts].Lookup(uint32(p.ID), &entry); err != nil {
		return err
	}
	if entry.Node != n.ID || entry.NetnsInum != n.Inum {
		return nil // not attached as yet, or no longer
	}
	if !anew && bpfobj.TcRdrPortFlag(entry.Flags)&tables.NodeFlagBits != 0 {
		return nil // another process has settled it
	}
	entry.Flags = uint16(bpfobj.TcRdrPortFlag(entry.Flags)&^tables.NodeFlagBits | flags)
	return h.putPortLocked(p.ID, entry)
}
