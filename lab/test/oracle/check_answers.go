// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"maps"
	"slices"
)

// CheckCounts compares every count of paths, flows and losses with the captures.
func (c *Comparison) CheckCounts(a *Answers) []*Row {
	list := c.transits()
	return append([]*Row{c.checkPaths(a.Paths, list), c.checkFlows(a.Flows, list)}, c.checkLosses(a, list)...)
}

func (c *Comparison) checkPaths(answers []PathAnswer, list []transit) *Row {
	row := &Row{Check: "radar paths: packets, bytes, flows, ends"}
	type counts struct{ packets, bytes, arrived, gone, flows int }
	truth := map[string]*counts{}
	flows := map[string]map[string]bool{}
	for _, p := range list {
		n := truth[p.ports]
		if n == nil {
			n = &counts{}
			truth[p.ports], flows[p.ports] = n, map[string]bool{}
		}
		n.packets++
		n.bytes += p.bytes
		if p.arrived() {
			n.arrived++
		} else {
			n.gone++
		}
		if p.from.Frag&maskOffset == 0 {
			flows[p.ports][p.flow] = true
		}
	}
	for _, r := range answers {
		row.Compared++
		got := counts{r.Packets, r.Bytes, r.Delivered + r.Left, r.Lost + r.Expired, r.Flows}
		want := truth[r.key()]
		if want == nil {
			row.bad("%s: %d packets, but nothing went there", r.key(), r.Packets)
			continue
		}
		want.flows = len(flows[r.key()])
		if got != *want {
			row.bad("%s: %+v, really %+v", r.key(), got, *want)
		}
		delete(truth, r.key())
	}
	for path, n := range truth {
		row.bad("%s: missing, with %d packets", path, n.packets)
	}
	row.Note = fmt.Sprintf("%d paths", row.Compared)
	return row
}

func (c *Comparison) checkFlows(answers []FlowAnswer, list []transit) *Row {
	row := &Row{Check: "radar flows: packets, bytes, ends, paths"}
	truth := c.flowTruths(list, byCaptures)
	for _, r := range answers {
		row.Compared++
		want := truth[r.key()]
		delete(truth, r.key())
		if want == nil {
			row.bad("%s: %d packets, but there was no such flow", r.key(), r.Packets)
			continue
		}
		paths := map[string]int{}
		for _, p := range r.PathList {
			paths[p.Path] += p.Packets
		}
		got := [4]int{r.Packets, r.Bytes, r.Delivered + r.Left, r.Lost + r.Expired}
		if really := [4]int{want.packets, want.bytes, want.arrived, want.gone}; got != really {
			row.bad("%s: packets, bytes, arrived, gone %v, really %v", r.key(), got, really)
		}
		if !maps.Equal(paths, want.paths) {
			row.bad("%s: paths %v, really %v", r.key(), paths, want.paths)
		}
	}
	for name, f := range truth {
		row.bad("%s: missing, with %d packets", name, f.packets)
	}
	row.Note = fmt.Sprintf("%d flows", row.Compared)
	return row
}

// checkLosses compares the losses of each place, and of each flow there. Losses for
// which the kernel ran no tracing program may be missing (see Unseen).
func (c *Comparison) checkLosses(a *Answers, list []transit) []*Row {
	places := &Row{Check: "radar loss: packets, bytes and flows of each place", MayBeEmpty: true}
	flows := &Row{Check: "radar loss --by flow: packets of each flow and place", MayBeEmpty: true}
	for i := range c.drops {
		d := &c.drops[i]
		want, bytes, slack := map[string]int{}, 0, 0
		for _, p := range list {
			if p.outcome.drop == d {
				want[p.flow]++
				bytes += p.bytes
				if c.taken[p.path] {
					slack++
				}
			}
		}
		got, named := LossAnswer{}, map[string]int{}
		for _, r := range a.Losses {
			if d.explains(Losses{Node: r.Node, Port: r.Port, At: r.At, Reason: r.Reason}) && d.Node != "" {
				got.Packets, got.Bytes, got.Flows = got.Packets+r.Packets, got.Bytes+r.Bytes, max(got.Flows, r.Flows)
			}
		}
		for _, r := range a.FlowLosses {
			if d.explains(Losses{Node: r.Node, Port: r.Port, At: r.At, Reason: r.Reason}) && d.Node != "" {
				named[r.FlowName.key()] += r.LossAnswer.Packets
			}
		}
		if d.Node == "" {
			continue
		}
		places.Compared += len(want)
		if got.Packets+slack != total(want) || slack == 0 && (got.Bytes != bytes || got.Flows != len(want)) {
			places.bad("%s: %d packets, %d bytes, %d flows; really %d, %d, %d", d.Name, got.Packets, got.Bytes, got.Flows, total(want), bytes, len(want))
		}
		flows.Compared += len(named)
		if total(named)+slack != total(want) || slack == 0 && !maps.Equal(named, want) {
			flows.bad("%s: %v, really %v", d.Name, named, want)
		}
	}
	places.Note = fmt.Sprintf("%d flows hit", places.Compared)
	return []*Row{places, flows}
}

func total(m map[string]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}

func (c *Comparison) queued(pkt *packet) bool { return c.truth.topo.port(pkt.place.ref()).Queue != nil }

func (c *Comparison) hasQueue(node string) bool {
	n := c.truth.topo.node(node)
	return n != nil && slices.ContainsFunc(n.Ports, func(p Port) bool { return p.Queue != nil })
}
