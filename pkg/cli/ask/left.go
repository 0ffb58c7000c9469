// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/beyond"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/words"
)

// left counts the packets that left the domain by the port, a node and its interface, by which they did.
type left map[[2]string]uint64

// addPaths adds the packets of paths, whose names are the domain's.
func (l left) addPaths(rows []aggregate.PathRow) {
	for i := range rows {
		r := &rows[i]
		for j, h := range r.Hops {
			if n, _ := r.EndsAt(j); n > 0 {
				l[[2]string{h.Node, cmp.Or(h.Port, h.InPort)}] += n // a bridge's own end has come in alone
			}
		}
	}
}

// addRecord adds a packet of radar's own.
func (l left) addRecord(r *record.Record) {
	if r.State == record.Left && r.Source == record.EBPF && len(r.Hops) > 0 {
		h := &r.Hops[len(r.Hops)-1]
		l[[2]string{h.Node, cmp.Or(h.Port, h.InPort)}] += uint64(r.Segs)
	}
}

// mostLeft is of how many ports it is told.
const mostLeft = 3

// note says where most of them left, and how to follow them. A recording's nodes cannot be asked: d is nil.
func (l left) note(k *kit.Kit, ctx context.Context, d *domain.Domain) {
	if d == nil || k.Output.Raw() {
		return
	}
	ports := slices.DeleteFunc(slices.Collect(maps.Keys(l)), func(p [2]string) bool {
		return !slices.ContainsFunc(d.Nodes, func(n domain.Node) bool { return n.Name == p[0] && !n.Removed }) // reports name switches
	})
	slices.SortFunc(ports, func(a, b [2]string) int { return cmp.Or(cmp.Compare(l[b], l[a]), slices.Compare(a[:], b[:])) })
	for _, p := range ports[:min(len(ports), mostLeft)] {
		selectors := beyond.Selectors(ctx, d, p[0], p[1])
		if len(selectors) == 0 {
			continue
		}
		k.Notef("%s left at %s: to follow them there: radar attach%s -d %s", words.Plural(int(l[p]), "packet"),
			k.Shown.End(p[0]+"/"+p[1]), kit.DomainFlag(d.Name), strings.Join(selectors, " "))
	}
}

// withLeft is show, and then the note about the packets of the answer that left.
func withLeft(k *kit.Kit, s *answer.Sources, show func(*answer.Counts) error) func(*answer.Counts) error {
	if s.Ring() == nil {
		return show
	}
	return func(c *answer.Counts) error {
		// With -f namespaces would be opened for each answer. Where flows are asked for, paths do not tell them apart.
		if err := show(c); err != nil || k.View != nil || c.ChoosesFlows() || c.Totals().Left == 0 {
			return err
		}
		l := make(left)
		sums, names := c.Sums()
		l.addPaths(sums.Paths(names))
		l.note(k, context.Background(), s.Domain())
		return nil
	}
}
