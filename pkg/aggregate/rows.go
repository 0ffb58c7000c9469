// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/backpack"
	"github.com/vnetradar/radar/pkg/record"
)

// Names gives names to numbers; backpack.Decoder has them.
type Names interface {
	NodeName(node uint16) string
	PortName(port uint16) string
	PortNode(port uint16) uint16
}

// By is what latencies are grouped by.
type By string

// The groups. Node: ingress to egress in one node. Link: egress of one node to
// ingress of the next, with the queue between. Path and end-to-end: first to last
// stamp of packets that were delivered or left.
const (
	ByNode     By = "node"
	ByLink     By = "link"
	ByPath     By = "path"
	ByEndToEnd By = "end-to-end"
)

// All is the name of the row over all pairs of nodes in ByEndToEnd.
const All = "all"

// LatencyRow is the times of one node, link, path or pair of nodes.
type LatencyRow struct {
	By   By     `json:"by"`
	Name string `json:"name"` // "r1", "r1/eth1 > r2/eth0", "h1 > r1 > h2", "h1 > h2"
	Quantiles
	Hops      []PathHop `json:"hops,omitempty"`      // of a path: it is known by its ports
	Truncated bool      `json:"truncated,omitempty"` // of a path: hops may be missing
}

// PathHop is one node of a path.
type PathHop struct {
	Node   string `json:"node"`
	NodeID int    `json:"node_id,omitempty"`
	InPort string `json:"in_port,omitempty"`
	Port   string `json:"port,omitempty"`
}

// PathRow is one path and what took it. Lost and expired packets count on the path
// up to where they were seen last.
type PathRow struct {
	Path      string     `json:"path"` // "h1 > r1 > h2"
	Hops      []PathHop  `json:"hops"`
	Packets   uint64     `json:"packets"`
	Bytes     uint64     `json:"bytes"`
	Flows     uint64     `json:"flows"`
	FlowsMore bool       `json:"flows_more,omitempty"` // there may be more: the table was full
	Delivered uint64     `json:"delivered"`
	Left      uint64     `json:"left"`
	Lost      uint64     `json:"lost"`
	Expired   uint64     `json:"expired"`
	Truncated bool       `json:"truncated,omitempty"` // hops may be missing
	Latency   *Quantiles `json:"latency,omitempty"`   // of those delivered and left
}

// LossRow is one place where packets were freed.
type LossRow struct {
	Node     string    `json:"node"`
	NodeID   int       `json:"node_id,omitempty"`
	Port     string    `json:"port,omitempty"`
	At       record.At `json:"at"`
	Reason   string    `json:"reason,omitempty"`
	Qdisc    string    `json:"qdisc,omitempty"`
	Function string    `json:"function,omitempty"`
	Packets  uint64    `json:"packets"` // segments of trains counted each
	Skbs     uint64    `json:"skbs"`    // what tc and nft count
	Bytes    uint64    `json:"bytes"`   // IP bytes
}

// Totals returns the counts of everything added. What is in the ring without an end
// is not in it: see Collector.Totals.
func (a *Aggregates) Totals() Totals { return a.totals }

// Latency returns the groups that have times, those with most packets first.
func (a *Aggregates) Latency(by By, names Names) []LatencyRow {
	var rows []LatencyRow
	add := func(name string, l *latency) bool {
		q, ok := l.quantiles()
		if ok {
			rows = append(rows, LatencyRow{By: by, Name: name, Quantiles: q})
		}
		return ok
	}
	switch by {
	case ByNode:
		for node, l := range a.nodes {
			add(names.NodeName(node), l)
		}
	case ByLink:
		for k, l := range a.links {
			add(endName(k.From, names)+" > "+endName(k.To, names), l)
		}
	case ByPath:
		for key, way := range a.paths {
			if add(pathName(key, names), way.latency) {
				row := &rows[len(rows)-1]
				row.Hops, row.Truncated = pathHops(key, names), key[0] != 0
			}
		}
	case ByEndToEnd:
		for k, l := range a.pairs {
			add(names.NodeName(k.From)+" > "+names.NodeName(k.To), l)
		}
	}
	slices.SortFunc(rows, func(a, b LatencyRow) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name),
			slices.CompareFunc(a.Hops, b.Hops, compareHops))
	})
	if q, ok := a.all.quantiles(); ok && by == ByEndToEnd {
		rows = slices.Insert(rows, 0, LatencyRow{By: by, Name: All, Quantiles: q})
	}
	return rows
}

func endName(port uint16, names Names) string {
	return names.NodeName(names.PortNode(port)) + "/" + names.PortName(port)
}

func pathName(key string, names Names) string {
	var parts []string
	for _, h := range keyHops(key) {
		parts = append(parts, names.NodeName(h.node))
	}
	return strings.Join(parts, " > ")
}

func pathHops(key string, names Names) []PathHop {
	hops := []PathHop{}
	for _, h := range keyHops(key) {
		hops = append(hops, PathHop{
			names.NodeName(h.node), nodeID(h.node), names.PortName(h.in), names.PortName(h.out),
		})
	}
	return hops
}

// Paths returns all paths, those with most packets first.
func (a *Aggregates) Paths(names Names) []PathRow {
	rows := make([]PathRow, 0, len(a.paths))
	for key, way := range a.paths {
		row := PathRow{
			Path: pathName(key, names), Packets: way.packets, Bytes: way.bytes,
			Flows: way.flows, FlowsMore: way.overFlows > 0,
			Delivered: way.delivered, Left: way.left, Lost: way.lost, Expired: way.expired,
			Hops: pathHops(key, names), Truncated: key[0] != 0,
		}
		if q, ok := way.latency.quantiles(); ok {
			row.Latency = &q
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b PathRow) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Path, b.Path),
			slices.CompareFunc(a.Hops, b.Hops, compareHops))
	})
	return rows
}

func compareHops(a, b PathHop) int {
	return cmp.Or(cmp.Compare(a.InPort, b.InPort), cmp.Compare(a.Port, b.Port))
}

// Losses returns where packets were lost, the places with most of them first.
func (a *Aggregates) Losses(names Names) []LossRow { return lossRows(a.losses, names) }

// LocalDrops returns where delivered packets were freed as drops.
func (a *Aggregates) LocalDrops(names Names) []LossRow { return lossRows(a.localDrops, names) }

func lossRows(table map[place]*tally, names Names) []LossRow {
	rows := make([]LossRow, 0, len(table))
	for k, t := range table {
		rows = append(rows, LossRow{
			Node: names.NodeName(k.Node), NodeID: nodeID(k.Node), Port: names.PortName(k.Port),
			At: k.At, Reason: k.Reason, Qdisc: k.Qdisc, Function: k.Function,
			Packets: t.Packets, Skbs: t.Skbs, Bytes: t.Bytes,
		})
	}
	slices.SortFunc(rows, func(a, b LossRow) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Node, b.Node),
			cmp.Compare(a.Port, b.Port), cmp.Compare(a.At, b.At),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Function, b.Function))
	})
	return rows
}

// nodeID is 0 for a node that is not known, as in records.
func nodeID(node uint16) int {
	if node == backpack.NoNode {
		return 0
	}
	return int(node)
}
