// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// fitHops makes slots large enough for the longest path of a new domain, unless the user has
// said how long paths are, or says that they are too small.
func (p *plan) fitHops() error {
	d := p.change.Next
	longest, room := merge.LongestPath(d), program.HopsIn(d.Options.SlotBytes)
	if longest <= room || p.change.Old != nil && len(p.change.AddedNodes) == 0 {
		return nil
	}
	switch {
	case p.change.Old != nil:
		p.warnHops(longest, "a domain keeps its slots: detach it and attach all nodes at once for larger ones")
		return nil
	case p.blueprint.Options.MaxHops != 0:
		p.warnHops(longest, fmt.Sprintf("use ‹max-hops› %d, or leave it out", min(longest, program.HopsIn(program.MaxSlotBytes))))
		return nil
	}
	was := *p.blueprint.Layout
	larger := was
	larger.GrowFor(longest, d.Options.IPv6 != program.IPv6Off)
	b, err := program.New(p.blueprint.Options, &larger, p.features)
	if err != nil {
		return err
	}
	if err := b.Memory.Fits(); err != nil {
		p.warnHops(longest, fmt.Sprintf("slots of %d bytes would need more memory than there is: use fewer ‹slots›", larger.SlotBytes))
		return nil
	}
	p.blueprint, d.Options.SlotBytes = b, larger.SlotBytes
	if room = program.HopsIn(larger.SlotBytes); longest > room {
		p.warnHops(longest, "slots cannot be larger")
		return nil
	}
	p.result.Warnings = append(p.result.Warnings, fmt.Sprintf(
		"the longest path has %d nodes: a slot has %d bytes for that, instead of %d (‹max-hops› decides otherwise)",
		longest, larger.SlotBytes, was.SlotBytes))
	return nil
}

// warnHops says that paths may be longer than records.
func (p *plan) warnHops(longest int, do string) {
	p.result.Warnings = append(p.result.Warnings, fmt.Sprintf(
		"the longest path has %d nodes, and a record has room for %d: of packets that pass more, begin and end are known, nodes in between are missing (%s)",
		longest, program.HopsIn(p.change.Next.Options.SlotBytes), do))
}
