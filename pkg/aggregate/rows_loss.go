// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"cmp"
	"slices"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// LossPlace is where and why packets were freed.
type LossPlace struct {
	Node     string    `json:"node"`
	NodeID   int       `json:"node_id,omitempty"`
	Port     string    `json:"port,omitempty"`
	At       record.At `json:"at"`
	Reason   string    `json:"reason,omitempty"`
	Qdisc    string    `json:"qdisc,omitempty"`
	Function string    `json:"function,omitempty"`
}

// Inferred says whether these are expired packets, which nobody saw behind this place.
func (p *LossPlace) Inferred() bool { return p.Reason == record.NotSeen }

// LossRow is one place where packets were freed.
type LossRow struct {
	LossPlace
	Packets   uint64     `json:"packets"` // segments of trains counted each
	Skbs      uint64     `json:"skbs"`    // what tc and nft count
	Bytes     uint64     `json:"bytes"`   // IP bytes
	Flows     uint64     `json:"flows"`   // hit here; later fragments are none
	FlowsMore bool       `json:"flows_more,omitempty"`
	TopFlows  []LossFlow `json:"top_flows,omitempty"` // those that lost most, at most TopFlows
}

// LossFlow is a flow that lost packets at one place.
type LossFlow struct {
	Flow
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
	// There is the flow as nodes had changed it where it was lost (NAT).
	There Flow `json:"-"`
}

// LossFlowRow is a flow and a place where it lost packets.
type LossFlowRow struct {
	LossFlow
	LossPlace
}

// TopFlows is how many flows a LossRow lists.
const TopFlows = 5

// Losses returns where packets were lost or, inferred, not seen again; the places with
// most of them first.
func (a *Aggregates) Losses(names packet.Names) []LossRow { return lossRows(a.losses, names) }

// LocalDrops returns where delivered packets were freed as drops.
func (a *Aggregates) LocalDrops(names packet.Names) []LossRow { return lossRows(a.localDrops, names) }

// LossesByFlow returns the flows that lost packets and where, those with most
// losses first. keep is as in Flows.
func (a *Aggregates) LossesByFlow(names packet.Names, keep func(*packet.Packet) bool) []LossFlowRow {
	return lossFlowRows(a.losses, names, keep)
}

// LocalDropsByFlow is the same for what was freed after delivery.
func (a *Aggregates) LocalDropsByFlow(names packet.Names, keep func(*packet.Packet) bool) []LossFlowRow {
	return lossFlowRows(a.localDrops, names, keep)
}

// LossSeconds is one place where packets were freed, second by second.
type LossSeconds struct {
	LossPlace
	ActiveS uint64   // seconds in which packets were freed there
	Seconds []Second // the newest of them, at most Seconds
}

// LossesBySecond is Losses by the second in which packets were freed or, if nobody knows
// when, seen last.
func (a *Aggregates) LossesBySecond(names packet.Names) []LossSeconds {
	return lossSeconds(a.losses, names)
}

// LocalDropsBySecond is the same of LocalDrops.
func (a *Aggregates) LocalDropsBySecond(names packet.Names) []LossSeconds {
	return lossSeconds(a.localDrops, names)
}

func lossSeconds(table map[place]*tally, names packet.Names) []LossSeconds {
	rows := make([]LossSeconds, 0, len(table))
	for named, s := range sumLosses(table, names) {
		named.NodeID = s.id
		rows = append(rows, LossSeconds{LossPlace: named, ActiveS: s.t.when.active, Seconds: s.t.when.seconds()})
	}
	slices.SortFunc(rows, func(a, b LossSeconds) int { return comparePlaces(a.LossPlace, b.LossPlace) })
	return rows
}

// lossSum is all tallies of places with the same names.
type lossSum struct {
	id   int
	t    tally
	hits map[*flow]hit
}

func sumLosses(table map[place]*tally, names packet.Names) map[LossPlace]*lossSum {
	sums := make(map[LossPlace]*lossSum)
	for k, t := range table {
		named := LossPlace{
			Node: names.NodeName(k.Node), Port: names.PortName(k.Port),
			At: k.At, Reason: k.Reason, Qdisc: k.Qdisc, Function: k.Function,
		}
		s := sums[named]
		if s == nil {
			s = &lossSum{hits: make(map[*flow]hit)}
			sums[named] = s
		}
		s.id = max(s.id, nodeID(k.Node))
		s.t.packets += t.packets
		s.t.skbs += t.skbs
		s.t.bytes += t.bytes
		s.t.overFlows += t.overFlows
		s.t.when.merge(&t.when)
		for f, h := range t.flows {
			s.hits[f] = s.hits[f].add(h)
		}
	}
	return sums
}

func lossRows(table map[place]*tally, names packet.Names) []LossRow {
	rows := make([]LossRow, 0, len(table))
	for named, s := range sumLosses(table, names) {
		named.NodeID = s.id
		row := LossRow{LossPlace: named, Packets: s.t.packets, Skbs: s.t.skbs, Bytes: s.t.bytes, FlowsMore: s.t.overFlows > 0}
		for f, h := range s.hits {
			if f.key.kind != fragmentFlow {
				row.Flows++
			}
			row.TopFlows = append(row.TopFlows, f.hit(h))
		}
		slices.SortFunc(row.TopFlows, compareLossFlows)
		row.TopFlows = row.TopFlows[:min(len(row.TopFlows), TopFlows)]
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b LossRow) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), comparePlaces(a.LossPlace, b.LossPlace))
	})
	return rows
}

func lossFlowRows(table map[place]*tally, names packet.Names, keep func(*packet.Packet) bool) []LossFlowRow {
	rows := []LossFlowRow{}
	for named, s := range sumLosses(table, names) {
		named.NodeID = s.id
		for f, h := range s.hits {
			if keep == nil || keep(f.packet()) {
				rows = append(rows, LossFlowRow{f.hit(h), named})
			}
		}
	}
	slices.SortFunc(rows, func(a, b LossFlowRow) int {
		return cmp.Or(compareLossFlows(a.LossFlow, b.LossFlow), comparePlaces(a.LossPlace, b.LossPlace))
	})
	return rows
}

// hit is what the flow lost at one place.
func (f *flow) hit(h hit) LossFlow {
	row := LossFlow{Flow: f.key.name(), Packets: h.packets, Bytes: h.bytes}
	row.There = row.Flow
	if h.there != (packet.Tuple{}) {
		changed := f.key
		changed.src, changed.dst = h.there.Src, h.there.Dst
		if changed.kind == portsFlow {
			changed.sport, changed.dport = h.there.SrcPort, h.there.DstPort
		}
		row.There = changed.name()
	}
	return row
}

func compareLossFlows(a, b LossFlow) int {
	return cmp.Or(cmp.Compare(b.Packets, a.Packets), compareFlows(&a.Flow, &b.Flow))
}

func comparePlaces(a, b LossPlace) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Port, b.Port), cmp.Compare(a.At, b.At),
		cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Qdisc, b.Qdisc), cmp.Compare(a.Function, b.Function))
}
