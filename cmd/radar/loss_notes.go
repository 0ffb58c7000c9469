// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/aggregate"
)

// localNote is what tables say about it.
func localNote(p *aggregate.LossPlace) string {
	if p.FreedByTCP() {
		return "freed by TCP itself"
	}
	return ""
}

// noteOtherLosses says what rows of losses do not: how much expired, and what was dropped after
// delivery; if no loss was reported, also what TCP has freed.
func (a *app) noteOtherLosses(r *answer, lost bool) {
	a.noteExpired(r)
	total := r.Totals()
	drops, freed := droppedAfterDelivery(r.LocalDrops(r.names))
	if lost {
		a.noteDropped(drops)
		return
	}
	if total.Packets == 0 {
		return
	}
	onTheWay := ""
	if total.Expired == 0 {
		onTheWay = fmt.Sprintf("nothing was lost on the way of %s; ", plural(int(total.Packets), "packet"))
	}
	own := fmt.Sprintf("%s freed by TCP itself (old data, connection closed)", decimal(freed))
	switch {
	case drops > 0 && freed > 0:
		a.notef("%safter delivery %s dropped (rules, full buffers, no socket), and %s: radar loss --local", onTheWay, packetsWere(drops), own)
	case drops > 0:
		a.notef("%safter delivery %s dropped (rules, full buffers, no socket): radar loss --local", onTheWay, packetsWere(drops))
	case freed > 0:
		a.notef("%safter delivery only %s, which is no fault", onTheWay, own)
	case onTheWay != "":
		a.notef("nothing was lost on the way of %s", plural(int(total.Packets), "packet"))
	}
}

// droppedAfterDelivery sums up rows of what was dropped after delivery, and apart from that what
// TCP has freed itself.
func droppedAfterDelivery(rows []aggregate.LossRow) (drops, freed uint64) {
	for i := range rows {
		if rows[i].FreedByTCP() {
			freed += rows[i].Packets
		} else {
			drops += rows[i].Packets
		}
	}
	return drops, freed
}

// noteDropped says beside losses that there were drops after delivery, too.
func (a *app) noteDropped(n uint64) {
	if n > 0 {
		a.notef("besides, after delivery %s dropped (rules, full buffers, no socket): radar loss --local", packetsWere(n))
	}
}

// noteLoops names the circles that packets went round in until they were lost.
func (a *app) noteLoops(r *answer) {
	if r.keep != nil {
		return // paths do not tell flows apart
	}
	lost := make(map[string]uint64)
	for _, row := range r.Paths(r.names) {
		if first, again, ok := row.Loop(); ok && row.Lost > 0 {
			lost[aggregate.PathText(straightHops(row.Hops[first:again+1]), false)] += row.Lost
		}
	}
	for _, loop := range slices.Sorted(maps.Keys(lost)) {
		a.noteOnce("loop "+loop, fmt.Sprintf("%s lost in a routing loop: %s > ... (radar trace --last --state lost)", packetsWere(lost[loop]), loop))
	}
}

// straightHops are hops as a path of their own.
func straightHops(hops []aggregate.PathHop) []aggregate.PathHop {
	hops = slices.Clone(hops)
	for i := range hops {
		hops[i].Prev, hops[i].Gap = nil, false
	}
	return hops
}

// maxExpiredNodes is how many nodes noteExpired names.
const maxExpiredNodes = 3

// noteExpired says how many packets vanished without a drop that the kernel reports,
// and where they were seen last.
func (a *app) noteExpired(r *answer) {
	const format = "%s expired (not seen for the timeout)%s: radar packets --state expired"
	if r.keep == nil {
		total := r.Totals()
		if n := total.Expired; n > 0 {
			a.notef(format, plural(int(n), "packet"), lastSeenText(r.Paths(r.names)))
		}
		if n := total.Moved; n > 0 {
			a.notef("%s of these came to a node just as it got their address, or lost it: whether they were delivered is not known", plural(int(n), "packet"))
		}
		return
	}
	n := uint64(0) // of the flows that were asked for; paths do not tell them apart
	for _, f := range r.Flows(r.names, r.keep) {
		n += f.Expired
	}
	if n > 0 {
		a.notef(format, plural(int(n), "packet"), "")
	}
}

// lastSeenText is ", last seen in f (827 out by eth0, 618 in by eth1)", the nodes and
// ports with most of them first.
func lastSeenText(paths []aggregate.PathRow) string {
	type seen struct {
		name    string
		packets uint64
		ports   []*seen
	}
	find := func(list []*seen, name string) ([]*seen, *seen) {
		for _, s := range list {
			if s.name == name {
				return list, s
			}
		}
		s := &seen{name: name}
		return append(list, s), s
	}
	most := func(x, y *seen) int { return cmp.Or(cmp.Compare(y.packets, x.packets), cmp.Compare(x.name, y.name)) }
	var nodes []*seen
	for _, row := range paths {
		if row.Expired == 0 || len(row.Hops) == 0 {
			continue
		}
		last := row.Hops[len(row.Hops)-1]
		port := "out by " + last.Port
		if last.Port == "" {
			port = "in by " + last.InPort
		}
		var node, by *seen
		nodes, node = find(nodes, last.Node)
		node.ports, by = find(node.ports, port)
		node.packets += row.Expired
		by.packets += row.Expired
	}
	slices.SortFunc(nodes, most)
	var texts []string
	for i, node := range nodes {
		if i == maxExpiredNodes {
			texts = append(texts, plural(len(nodes)-i, "more node"))
			break
		}
		slices.SortFunc(node.ports, most)
		var ports []string
		for _, p := range node.ports {
			ports = append(ports, decimal(p.packets)+" "+p.name)
		}
		texts = append(texts, fmt.Sprintf("%s (%s)", node.name, strings.Join(ports, ", ")))
	}
	if len(texts) == 0 {
		return ""
	}
	return ", last seen in " + strings.Join(texts, ", ")
}
